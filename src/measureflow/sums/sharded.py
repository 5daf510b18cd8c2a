"""Kernel sums over many devices and processes.

Each device holds its share of the covectors and of the sources, and its engine says what devices exchange. For sums over all
pairs the shares of sources go round a ring; a device adds what its covectors see of each share, in the log domain, while the
next one is on its way. So no device ever holds all pairs, nor all tokens more than once. Series only add up moments, some
kilobytes however many tokens there are.
"""

import functools
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, PyTree

from measureflow.spaces import AbstractSpace
from measureflow.sums.base import AbstractEngine, Attended, KernelSum, in_blocks
from measureflow.sums.choice import Auto
from measureflow.sums.devices import Devices
from measureflow.sums.registry import register

AXIS = "tokens"


@register
@final
class Sharded(AbstractEngine):
    """Tokens spread over devices, of this process or of all processes after `jax.distributed.initialize`.

    `engine` does the sums on each device, chosen for the whole sum where it is one that chooses. `spread` places tokens; those
    that are not placed are, at each sum. The results are those of one device up to the rounding of another order.
    """

    batches: ClassVar[bool] = False
    engine: AbstractEngine
    mesh: Mesh = eqx.field(static=True)

    def __init__(self, engine: AbstractEngine | None = None, devices: list[jax.Device] | None = None):
        self.engine = Auto() if engine is None else engine
        self.mesh = Mesh(np.array(jax.devices() if devices is None else devices), (AXIS,))

    @property
    def exact(self) -> bool:
        """Whether the engine of each device is."""
        return self.engine.exact

    def coarser(self) -> "Sharded | None":
        """The same shares with the engine of each device less exact, where it can be."""
        engine = self.engine.coarser()
        return None if engine is None else self._by(engine)

    def within(self, tolerance: float | None) -> "Sharded":
        """The same shares with the engine of each device within a tolerance."""
        return self._by(self.engine.within(tolerance))

    def on(self, space: AbstractSpace) -> "Sharded":
        """The same shares for tokens of a space."""
        return self._by(self.engine.on(space))

    def pick(self, sum: KernelSum) -> "Sharded":
        """The same shares with the engine that is chosen for a sum."""
        return self._by(self.engine.pick(sum))

    def _by(self, engine: AbstractEngine) -> "Sharded":
        return Sharded(engine, list(self.mesh.devices.flat))

    def spread(self, tree: PyTree) -> PyTree:
        """A measure, or any tree of arrays, with the first axis of each array spread over the devices."""
        return jax.tree.map(lambda x: self._spread(x) if eqx.is_array(x) else x, tree)

    def _spread(self, x: Array) -> Array:
        if x.ndim and len(x) % self.mesh.size:
            raise ValueError(
                f"{len(x)} tokens cannot be spread evenly over {self.mesh.size} devices; take a multiple of {self.mesh.size}."
            )
        spec = PartitionSpec(AXIS) if x.ndim else PartitionSpec()
        held = np.asarray(x)
        return jax.make_array_from_callback(x.shape, NamedSharding(self.mesh, spec), lambda index: held[index])

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, by what the engine of the devices makes of their shares."""
        size, engine = self.mesh.size, self.engine.pick(KernelSum.of(covectors, sources))
        if size == 1:
            return engine.attend(covectors, sources, log_weights)
        # What only makes the shares equal has next to no weight.
        nothing = jnp.log(jnp.finfo(log_weights.dtype).tiny) + log_weights.min()
        shares = _padded(covectors, size), _padded(sources, size), _padded(log_weights, size, nothing)
        seen = self._over_devices(functools.partial(engine.attend_across, Devices(AXIS)))(*shares)
        return Attended(*(x[: len(covectors)] for x in seen))

    def rows(self, row, sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """Rows on all devices, each with all sources, in blocks."""
        m = len(jax.tree.leaves(queries)[0])
        shares = jax.tree.map(lambda x: _padded(x, self.mesh.size), queries)
        done = self._over_devices(lambda *share: in_blocks(row, sources, share))(*shares)
        return jax.tree.map(lambda x: x[:m], done)

    def _over_devices(self, f: Any) -> Any:
        spread = PartitionSpec(AXIS)
        return jax.shard_map(f, mesh=self.mesh, in_specs=spread, out_specs=spread, check_vma=False)


def _padded(x: Array, multiple: int, value: Array | None = None) -> Array:
    """Rows up to a multiple, with a value or, since that is where tokens may be, with the last row again."""
    extra = -len(x) % multiple
    last = x[-1:] if value is None else value
    return jnp.concatenate([x, jnp.broadcast_to(last, (extra, *x.shape[1:]))]) if extra else x
