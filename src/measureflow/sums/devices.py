"""What devices do together that each hold a share of the tokens: the one place where they speak to each other.

Inside `shard_map` a device sees its own share of covectors and of sources. Sums over all sources are then made in one of three
ways, by what is cheapest to send: sources go round a ring, moments are added up, or few covectors are shown to everyone.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

Sum = Callable[[Array, Array, Array], tuple[Array, Array]]
"""From covectors, sources and log weights to log masses and means."""


class Devices(NamedTuple):
    """The devices that share a sum: those of an axis of a mesh, or with None this one alone."""

    axis: str | None = None

    def total(self, x: Array) -> Array:
        """The sum over the devices."""
        return x if self.axis is None else lax.psum(x, self.axis)

    def largest(self, x: Array) -> Array:
        """The largest over the devices, as a number that does not move."""
        still = lax.stop_gradient(x)
        return still if self.axis is None else lax.pmax(still, self.axis)

    def some(self, marks: Array) -> Array:
        """Whether any is marked on any device."""
        return marks.any() if self.axis is None else lax.pmax(marks.any().astype(jnp.int32), self.axis) > 0

    def ring(self, attend: Sum, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
        """What covectors see of all sources, whose shares go round while what is seen of the last ones is added."""
        if self.axis is None:
            return attend(a, y, w)
        size = lax.axis_size(self.axis)
        onward = [(i, (i + 1) % size) for i in range(size)]

        def turn(*share: Array) -> list[Array]:
            return [lax.ppermute(x, self.axis, onward) for x in share]

        def add(state, _):
            log_mass, mean, y, w = state
            seen_mass, seen_mean = attend(a, y, w)
            total = jnp.logaddexp(log_mass, seen_mass)
            old, new = jnp.exp(log_mass - total)[:, None], jnp.exp(seen_mass - total)[:, None]
            return (total, old * mean + new * seen_mean, *turn(y, w)), None

        # The first share starts the sums: from nothing, derivatives would meet infinity minus infinity.
        (log_mass, mean, _, _), _ = lax.scan(add, (*attend(a, y, w), *turn(y, w)), length=size - 1)
        return log_mass, mean

    def shown(self, attend: Sum, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
        """What few covectors see of all sources: every device tells what those of all devices see of its own."""
        if self.axis is None:
            return attend(a, y, w)
        log_mass, mean = attend(lax.all_gather(a, self.axis, tiled=True), y, w)
        top = self.largest(log_mass)
        parts = jnp.exp(log_mass - top)[:, None] * jnp.concatenate([jnp.ones_like(mean[:, :1]), mean], 1)
        mine = lax.psum_scatter(parts, self.axis, tiled=True)
        first = lax.axis_index(self.axis) * len(a)
        return lax.dynamic_slice_in_dim(top, first, len(a)) + jnp.log(mine[:, 0]), mine[:, 1:] / mine[:, :1]


ALONE = Devices()
