"""Proved best responses of neurons: each activation between two lines on the interval that a box of weights gives it.

With the best output taken, `-Psi` is `rho |g(w)|` with `g(w) = sum_s c_s s(<w, x_s>)`. On a box every activation is a line
within an error: a chord where ReLU has its kink, a tangent where the second derivative is bounded. The norm of a linear function
is convex, so that its largest value on a box is at a corner, and the errors are of second order in the size of the box.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from measureflow.precision import keep_all
from measureflow.training.activations import ReLU, averaged
from measureflow.training.landscape import AbstractLandscape, Point

Activation = Callable[[Array], Array]


class Bounds(NamedTuple):
    """The largest slope and curvature of a smooth activation."""

    slope: float
    curvature: float


SMOOTH: dict[Activation, Bounds] = {
    jnp.tanh: Bounds(1.0, 4 / 27**0.5),
    jax.nn.sigmoid: Bounds(0.25, 1 / 108**0.5),
    jax.nn.softplus: Bounds(1.0, 0.25),
    jnp.sin: Bounds(1.0, 1.0),
    jnp.cos: Bounds(1.0, 1.0),
    jax.scipy.special.erf: Bounds(2 / np.pi**0.5, (8 / np.pi) ** 0.5 * np.exp(-0.5)),
}
"""Activations with bounds that are known; ReLU has its own lines."""


def known(activation: Activation) -> bool:
    """Whether lines are known around an activation."""
    return isinstance(averaged(activation), ReLU) or activation in SMOOTH


def lines(activation: Activation, u: Array, r: Array) -> tuple[Array, Array, Array]:
    """Slopes, offsets and errors of lines that an activation keeps to on the intervals `u ± r`."""
    if isinstance(averaged(activation), ReLU):
        return _chords(u - r, u + r)
    bounds = SMOOTH[activation]
    value, slope = jax.jvp(activation, (u,), (jnp.ones_like(u),))
    bend, lift = bounds.curvature * r**2 / 2, bounds.slope * r
    tangent = bend < lift
    alpha = jnp.where(tangent, slope, 0.0)
    return alpha, value - alpha * u, jnp.where(tangent, bend, lift)


def _chords(low: Array, high: Array) -> tuple[Array, Array, Array]:
    kinked = (low < 0) & (high > 0)
    width = jnp.where(kinked, high - low, 1.0)
    alpha = jnp.where(kinked, high / width, jnp.where(low >= 0, 1.0, 0.0))
    half = jnp.where(kinked, -alpha * low / 2, 0.0)
    return alpha, half, half


@final
class NeuronLandscape(AbstractLandscape):
    """The landscape of neurons over their few input weights, and the bias among them.

    `signed`: there is no output to choose, and the height is `-g` itself.
    """

    member: Float[Array, "b k"]
    radii: Float[Array, " b"]
    inputs: Float[Array, "s k"]
    cotangents: Float[Array, "s V"]
    size: Float[Array, ""]
    activation: Activation = eqx.field(static=True)
    signed: bool = eqx.field(static=True)

    def height(self, p: Point) -> Float[Array, ""]:
        """The radius of the output times the length of what it multiplies."""
        return self.size * self._gauge(self.activation(self.inputs @ p) @ self.cotangents)

    def project(self, p: Point) -> Point:
        """Each part shortened to its radius."""
        norms = jnp.sqrt(self.member @ p**2)
        return p * ((jnp.minimum(norms, self.radii) / jnp.where(norms > 0, norms, 1.0)) @ self.member)

    def roof(self, p: Point, h: Point) -> Float[Array, ""]:
        """The largest value of the lines at a corner, and their errors."""
        u = self.inputs @ p
        alpha, beta, error = lines(self.activation, u, jnp.abs(self.inputs) @ h)
        middle = (alpha * u + beta) @ self.cotangents
        steps = jnp.einsum("s,sk,sv->kv", alpha, self.inputs, self.cotangents) * h[:, None]
        corners = middle[None] + self._corners() @ steps
        left_out = error @ jnp.linalg.norm(self.cotangents, axis=-1)
        roof = self.size * (self._gauge(corners).max() + left_out)
        return jnp.where(self._meets(p, h), roof, -jnp.inf)

    def margin(self) -> Float[Array, ""]:
        """Ten thousand units in the last place of a height in which nothing cancels."""
        reach = jnp.linalg.norm(self.inputs, axis=-1) * jnp.linalg.norm(self.radii)
        largest = jnp.maximum(jnp.abs(self.activation(reach)), jnp.abs(self.activation(-reach))) + 1
        return (
            1e4 * jnp.finfo(self.inputs.dtype).eps * self.size * (largest @ jnp.linalg.norm(self.cotangents, axis=-1))
        )

    @property
    def numbers(self) -> int:
        """Every datum, and every corner of a box."""
        return self.inputs.size + 2 ** self.inputs.shape[1] * self.cotangents.shape[1]

    def _gauge(self, g: Float[Array, "*n V"]) -> Float[Array, "*n"]:
        return -g[..., 0] if self.signed else jnp.linalg.norm(g, axis=-1)

    def _corners(self) -> Float[Array, "c k"]:
        return jnp.asarray(list(itertools.product((-1.0, 1.0), repeat=self.inputs.shape[1])), self.inputs.dtype)

    def _meets(self, p: Point, h: Point) -> Bool[Array, ""]:
        return (self.member @ jnp.maximum(jnp.abs(p) - h, 0.0) ** 2 <= self.radii**2).all()


keep_all(globals())
