"""The native engine: a C++ kernel for the CPU, called through XLA's foreign function interface.

It is compiled when the package is installed. Where that was not possible `available()` is false and the other engines do
the work.
"""

import ctypes
import functools
import warnings
from pathlib import Path
from typing import ClassVar, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from measureflow.sums import averages
from measureflow.sums.base import FEW_PAIRS, AbstractEngine, Attended, KernelSum
from measureflow.sums.blockwise import Blockwise
from measureflow.sums.costs import Cost
from measureflow.sums.native import constants
from measureflow.sums.native.pulse import Pulse
from measureflow.sums.registry import register
from measureflow.sums.tangent import FEW_COORDINATES, attend_tangent

TARGETS = (
    "measureflow_attend",
    "measureflow_average",
    "measureflow_modes",
    "measureflow_modes_moments",
    "measureflow_modes_values",
    "measureflow_sphere",
    "measureflow_sphere_moments",
    "measureflow_sphere_values",
    "measureflow_heads",
    "measureflow_heads_gradient",
    "measureflow_pulse",
)
FEWEST_PAIRS = 2**6
"""Up to so many, not even a kernel in registers is worth its call."""


@functools.cache
def _library() -> ctypes.CDLL | None:
    for path in sorted(Path(__file__).parent.glob("_attend*.so")):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:  # of another machine
            continue
        if _fits(library):
            for name in TARGETS:
                jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")
            return library
        warnings.warn(
            f"measureflow: {path.name} was built from other sources and is not used. Install again to build it anew.",
            stacklevel=2,
        )
    return None


def _fits(library: ctypes.CDLL) -> bool:
    """Whether a library has all kernels, and was built from the constants that Python reads."""
    whole = all(hasattr(library, name) for name in (*TARGETS, "measureflow_constants"))
    return whole and _text(library, "measureflow_constants") == constants.digest()


def _text(library: ctypes.CDLL, name: str) -> str:
    function = getattr(library, name)
    function.restype = ctypes.c_char_p
    return function().decode()


def available() -> bool:
    """Whether the kernels were built and load on this machine."""
    return _library() is not None


def on_cpu() -> bool:
    """Whether the kernels do the sums of the default device."""
    return jax.default_backend() == "cpu" and available()


def pulse() -> Pulse | None:
    """The pulse for a loop on the default device; None where it can have none, as where tokens are spread over several."""
    library = _library() if jax.default_backend() == "cpu" and jax.device_count() == 1 else None
    return None if library is None else Pulse(library)


def level() -> str:
    """The best instruction set of this machine that the kernel knows."""
    library = _library()
    return "none" if library is None else _text(library, "measureflow_level_name")


def limit(dtype) -> float | None:
    """The exponentials that all cores do in a second, and so the most pairs of any exact sum; None if nothing is built."""
    library = _library()
    if library is None:
        return None
    library.measureflow_limit.restype = ctypes.c_double
    return library.measureflow_limit(int(np.dtype(dtype) == np.float64))


@register
@final
class Native(AbstractEngine):
    """All pairs by the C++ kernel: memory linear in the tokens, as fast as the processor's exponentials.

    `threads` 0 uses every core; results do not depend on it. `level` limits the instruction set, -1 takes the best.
    Derivatives are sums of the same kind (`sums.tangent`), or those of the blockwise sum for many coordinates.
    """

    exact: ClassVar[bool] = True
    batches: ClassVar[bool] = True
    costs: ClassVar[dict[str, Cost]] = {
        "cpu float32": Cost(1e-6, 8e-11, 1.8e-11),
        "cpu float64": Cost(1e-6, 2.6e-10, 3.5e-11),
    }
    threads: int = eqx.field(static=True, default=0)
    level: int = eqx.field(static=True, default=-1)

    @classmethod
    def available(cls) -> bool:
        """Where the kernels are built, on a CPU."""
        return on_cpu()

    @classmethod
    def serving(cls, sum: KernelSum) -> "Native | None":
        """Any sum in float32 and float64."""
        return cls() if sum.dtype in ("float32", "float64") else None

    @classmethod
    def worth(cls, sum: KernelSum) -> bool:
        """From few pairs on while a tile stays in registers."""
        return sum.pairs > (FEWEST_PAIRS if sum.d <= constants.IN_REGISTERS else FEW_PAIRS)

    def __check_init__(self):
        if not available():
            raise RuntimeError(
                "`Native` is not built here: install with a C++ compiler on the path. `Dense` and `Blockwise` work everywhere."
            )

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, by the kernel."""
        if covectors.dtype not in (np.float32, np.float64):
            raise TypeError(f"`Native` takes float32 or float64; got {covectors.dtype}. `Blockwise` takes any.")
        return Attended(*_attend(self.threads, self.level, covectors, sources, log_weights))

    def averaging(self, sum: KernelSum) -> "AverageKernel":
        """The C++ kernel, for any sum."""
        return AverageKernel(self.threads, self.level)


class AverageKernel(NamedTuple):
    """The C++ kernel behind averages."""

    threads: int
    level: int

    def __call__(self, a: Array, b: Array, y: Array, w: Array, z: Array) -> Array:
        """The sums, all members of a batch in one call."""
        shape = jax.ShapeDtypeStruct((*z.shape[:-2], a.shape[-2], z.shape[-1]), z.dtype)
        call = jax.ffi.ffi_call("measureflow_average", shape)
        return call(a, b, y, w, z, threads=np.int32(self.threads), level=np.int32(self.level))

    def exchanged(self) -> "AverageKernel":
        """The same kernel: it treats queries and sources alike."""
        return self


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _attend(threads: int, level: int, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
    shapes = (jax.ShapeDtypeStruct(a.shape[:1], a.dtype), jax.ShapeDtypeStruct(a.shape, a.dtype))
    call = jax.ffi.ffi_call("measureflow_attend", shapes, vmap_method="expand_dims")
    log_mass, mean = call(a, y, w, threads=np.int32(threads), level=np.int32(level))
    return log_mass, mean


def _attend_jvp(threads: int, level: int, primals, tangents):
    a, y, w = primals
    log_mass, mean = _attend(threads, level, *primals)
    if a.shape[1] > FEW_COORDINATES:
        whole = [
            jnp.zeros_like(x) if isinstance(t, SymbolicZero) else t for x, t in zip(primals, tangents, strict=True)
        ]
        return (log_mass, mean), jax.jvp(lambda *arrays: tuple(Blockwise().attend(*arrays)), primals, tuple(whole))[1]

    def average(z):
        return averages.average(a, -log_mass, y, w, z, kernel=AverageKernel(threads, level))

    return (log_mass, mean), attend_tangent(average, a, y, log_mass, mean, tangents)


_attend.defjvp(_attend_jvp, symbolic_zeros=True)
