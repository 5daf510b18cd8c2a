"""Exact sums for covectors that a fast sum cannot serve.

A fast sum has an error relative to the largest mass that a covector could see. A covector that points away from nearly all
sources sees so little of it that the error may exceed its tolerance: such covectors are few, and are summed again exactly.
Devices that share the sources do so for those of all of them, chunk by chunk, as long as any has some left.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool

from measureflow.sums import native, pallas
from measureflow.sums.base import AbstractEngine, Attended
from measureflow.sums.blockwise import Blockwise
from measureflow.sums.devices import ALONE, Devices

CHUNK = 32
"""Covectors summed at once on a CPU: a tile of the native kernel for each of two cores."""
CHUNK_ON_GPU = 4096
"""The same on a GPU: enough to fill it."""
CHUNK_OF_DERIVATIVES = 256
"""The same for derivatives, where a loop over all chunks passes by those that are empty."""


def exact() -> AbstractEngine:
    """The engine for all pairs on the default device."""
    if pallas.available():
        return pallas.Pallas()
    return native.Native() if native.on_cpu() else Blockwise()


def resummed(
    missed: Bool[Array, " m"], seen: Attended, a: Array, y: Array, log_weights: Array, devices: Devices = ALONE
) -> Attended:
    """What was seen, with the covectors marked as missed summed exactly, and no work where none is."""
    return Attended(*_resummed(devices, missed, *seen, a, y, log_weights))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _resummed(
    devices: Devices, missed: Array, log_mass: Array, mean: Array, a: Array, y: Array, w: Array
) -> tuple[Array, Array]:
    def repair(log_mass, mean):
        most = devices.largest(missed.sum())
        ids = _listed(missed, CHUNK_ON_GPU if pallas.available() else CHUNK)

        def step(state):
            i, log_mass, mean = state
            new = devices.shown(exact().attend, a.at[ids[i]].get(mode="clip"), y, w)
            return i + 1, *(x.at[ids[i]].set(part, mode="drop") for x, part in zip((log_mass, mean), new, strict=True))

        return lax.while_loop(lambda state: state[0] * ids.shape[1] < most, step, (0, log_mass, mean))[1:]

    return lax.cond(devices.some(missed), repair, lambda *seen: seen, log_mass, mean)


@_resummed.defjvp
def _resummed_jvp(devices: Devices, primals, tangents):
    # A loop whose length is known, which also runs backwards.
    missed = primals[0]

    def repair(log_mass, mean, a, y, w):
        ids = _listed(missed, CHUNK_OF_DERIVATIVES)

        def some(i):
            return tuple(devices.shown(exact().attend, a.at[i].get(mode="clip"), y, w))

        def none(i):
            return jnp.zeros(len(i), a.dtype), jnp.zeros((len(i), a.shape[1]), a.dtype)

        # The checkpoint is around the choice: inside, each chunk would keep all sources for the backward pass.
        wanted = jnp.arange(len(ids)) * ids.shape[1] < devices.largest(missed.sum())
        rows = lax.map(jax.checkpoint(lambda chunk: lax.cond(chunk[0], some, none, chunk[1])), (wanted, ids))
        parts = (new.reshape(-1, *old.shape[1:]) for old, new in zip((log_mass, mean), rows, strict=True))
        return tuple(x.at[ids.ravel()].set(p, mode="drop") for x, p in zip((log_mass, mean), parts, strict=True))

    def either(*arrays):
        return lax.cond(devices.some(missed), repair, lambda *arrays: arrays[:2], *arrays)

    return _resummed(devices, *primals), jax.jvp(either, primals[1:], tangents[1:])[1]


def _listed(missed: Array, chunk: int) -> Array:
    """The numbers of those that are marked, in rows of `chunk`, filled up with a number that is too large."""
    m = len(missed)
    chunk = min(chunk, m)
    return jnp.nonzero(missed, size=-(-m // chunk) * chunk, fill_value=m)[0].reshape(-1, chunk)
