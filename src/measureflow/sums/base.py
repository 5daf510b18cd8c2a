"""The one operation that costs: how a covector sees a weighted cloud.

For sources `y_j` with log weights `l_j` and a covector `a`,

    L(a) = log sum_j exp(<a, y_j> + l_j),        grad L(a) = sum_j y_j exp(<a, y_j> + l_j - L(a)).

An engine computes both for a batch of covectors, and any other function of a query and all sources row by row. Engines
differ in memory and speed, not in the answer. An engine is its class, which declares all that others ask about it: its name,
where it applies, whether it is exact, what it costs. `sums/registry.py` holds them all.
"""

import abc
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from measureflow.spaces import AbstractSpace
from measureflow.sums import averages
from measureflow.sums.costs import Cost, calibrated
from measureflow.sums.devices import Devices

FEW_PAIRS = 2**14
"""Up to so many, pairs are held at once: few kernels are worth their call."""
BLOCK = 2**20
"""Pairs of a block of rows, which stay in the cache of a processor."""
BLOCK_ON_GPU = 2**24
"""The same on a GPU, where a block has ten launches that must be short beside its work."""


def declared(kind: type, base: type, *names: str) -> None:
    """Refuse a class that leaves open what its base wants to be told, unless it is abstract by name."""
    told = {name for parent in kind.__mro__[: kind.__mro__.index(base)] for name in vars(parent)}
    missing = [f"`{name}: ClassVar[bool]`" for name in names if name not in told]
    if missing and not kind.__name__.startswith("Abstract"):
        raise TypeError(
            f"The class `{kind.__name__}` must declare {', '.join(missing)}; `{base.__name__}` says what that means."
        )


class Attended(NamedTuple):
    """What a batch of covectors sees: the log mass `L(a)` and its gradient, the tilted mean."""

    log_mass: Float[Array, " m"]
    mean: Float[Array, "m d"]


class KernelSum(NamedTuple):
    """What is known of a sum while it is traced: `m` covectors and `n` sources of `d` coordinates, all in one precision.

    - `dtype`: the name of the precision, such as `"float64"`.

    - `spherical`: whether sources lie on the unit sphere.
    - `tolerance`: the error that the result may have beyond roundings; with None there is none.
    - `reach`: a bound on the scores `|a| |y|`, where one is known.
    """

    m: int
    n: int
    d: int
    dtype: str
    spherical: bool = False
    tolerance: float | None = None
    reach: float | None = None

    @classmethod
    def of(cls, covectors: Float[Array, "m d"], sources: Float[Array, "n d"]) -> "KernelSum":
        """The exact sum of what covectors see of sources."""
        n, d = sources.shape
        return cls(len(covectors), n, d, covectors.dtype.name)

    @property
    def pairs(self) -> int:
        """How many scores there are."""
        return self.m * self.n


class AbstractEngine(eqx.Module):
    """A way to compute kernel sums over weighted points.

    A class must declare `exact` (False for sums with an error of their own, whose work grows more slowly than the pairs) and
    `batches` (whether a batch of sums, under `vmap`, is one call with memory linear in the tokens); the rest has defaults.
    `costs` are those measured on a kind of device in a precision, such as `"cpu float64"`, and `sizes` the numbers of tokens
    at which `measureflow bench --calibrate` measures them anew. The name is that of the class in lower case.
    """

    exact: ClassVar[bool]
    batches: ClassVar[bool]
    name: ClassVar[str]
    costs: ClassVar[Mapping[str, Cost]] = {}
    sizes: ClassVar[tuple[int, ...]] = (256, 1024, 4096)

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        cls.name = cls.__name__.lower()
        declared(cls, AbstractEngine, "exact", "batches")

    @classmethod
    def available(cls) -> bool:
        """Whether it can be used here: what it needs is installed, and the default device is one of its own."""
        return True

    @classmethod
    def serving(cls, sum: KernelSum) -> "AbstractEngine | None":
        """The engine made for a sum; None where it cannot do it, or is only used when asked for by name."""
        return None

    @classmethod
    def worth(cls, sum: KernelSum) -> bool:
        """Whether it may be chosen for a sum that it can do."""
        return sum.pairs > FEW_PAIRS

    @classmethod
    def cost(cls, kind: str) -> Cost | None:
        """What it costs on a kind of device: as calibrated on this machine, else as declared, else not known."""
        return calibrated(kind).get(cls.name, cls.costs.get(kind))

    def pick(self, sum: KernelSum) -> "AbstractEngine":
        """The engine that does a sum: itself, unless it is one that chooses."""
        return self

    def coarser(self) -> "AbstractEngine | None":
        """The engine with a tenfold error, to see what its error costs; None where it has none of its own."""
        return None

    @abc.abstractmethod
    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean of the weighted sources seen by each covector."""

    def attend_across(
        self,
        devices: Devices,
        covectors: Float[Array, "m d"],
        sources: Float[Array, "n d"],
        log_weights: Float[Array, " n"],
    ) -> Attended:
        """What covectors of this device see of the sources of all devices, inside `shard_map`.

        Shares of sources go round a ring, unless the engine needs less of them.
        """
        return Attended(*devices.ring(self.attend, covectors, sources, log_weights))

    def within(self, tolerance: float | None) -> "AbstractEngine":
        """The engine for sums at least as exact as a tolerance: itself, unless it is one that chooses."""
        return self

    def on(self, space: AbstractSpace) -> "AbstractEngine":
        """The engine for tokens of a space: itself, unless it depends on where tokens live."""
        return self

    def rows(self, row: Callable[..., PyTree[Array]], sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """Any function of one query that looks at all sources, for a batch of queries: in blocks, unless the engine differs.

        `sources` is how many there are, so that an engine knows what a row costs.
        """
        return in_blocks(row, sources, queries)

    def averaging(self, sum: KernelSum) -> averages.Kernel | None:
        """The kernel for the averages of a sum; None where they are done row by row."""
        return None

    def average(
        self,
        covectors: Float[Array, "m d"],
        offsets: Float[Array, " m"],
        sources: Float[Array, "n d"],
        log_weights: Float[Array, " n"],
        values: Float[Array, "n e"],
    ) -> Float[Array, "m e"]:
        """The sums `sum_j e^{<a_i, y_j> + b_i + w_j} z_j`, where no exponent is above zero.

        With minus the log mass as offset these are averages under the tilted measure; its second moment is the one of
        `z_j = y_j y_j^T`.
        """
        kernel = self.averaging(KernelSum.of(covectors, sources))
        if kernel is not None:
            return averages.average(covectors, offsets, sources, log_weights, values, kernel=kernel)

        def row(a, b):
            scores = jnp.matmul(sources, a, precision=jax.lax.Precision.HIGHEST) + b + log_weights
            return jnp.matmul(jnp.exp(scores), values, precision=jax.lax.Precision.HIGHEST)

        return self.rows(row, len(sources), covectors, offsets)


def in_blocks(
    row: Callable[..., PyTree[Array]], sources: int, queries: tuple[PyTree[Array], ...], pairs: int | None = None
) -> PyTree[Array]:
    """A function of one query on all of them, in blocks of at most `pairs` queries times sources.

    The backward pass computes each block again instead of keeping it. By default a block suits the device.
    """
    default = BLOCK_ON_GPU if jax.default_backend() == "gpu" else BLOCK
    size = max(1, (default if pairs is None else pairs) // sources)
    if len(jax.tree.leaves(queries)[0]) <= size:
        return jax.vmap(row)(*queries)
    return jax.lax.map(jax.checkpoint(lambda query: row(*query)), queries, batch_size=size)


def attend_one(
    a: Float[Array, " d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
) -> tuple[Float[Array, ""], Float[Array, " d"]]:
    """The log mass and tilted mean seen by one covector, with one exponential per source."""
    scores = jnp.matmul(sources, a, precision=jax.lax.Precision.HIGHEST) + log_weights
    top = jax.lax.stop_gradient(scores.max())
    tilt = jnp.exp(scores - top)
    mass = tilt.sum()
    mean = jnp.matmul(tilt, sources, precision=jax.lax.Precision.HIGHEST) / mass
    return top + jnp.log(mass), mean
