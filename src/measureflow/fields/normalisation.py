"""Normalisation as dynamics: what layer norm does to the speed of directions.

A token `x = r u` has a direction and a radius. With `A(u)` the velocity the directions give, directions obey
`u' = P_u A / s`, where the scheme sets the scale `s`: 1 for Post-LN, the radius for Pre-LN, and so on. Schemes that let the
radius grow live in Euclidean space, the others keep every radius.
"""

import abc
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Number
from measureflow.fields.base import AbstractField
from measureflow.fields.depth import AbstractSwitching
from measureflow.measures import AbstractCloud, AbstractMeasure


class AbstractNorm(eqx.Module):
    """A map that normalises one token."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """The normalised token."""


@final
class Unit(AbstractNorm):
    """Division by the norm, as in the theory: tokens on the unit sphere."""

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """The direction of a token."""
        return x / jnp.linalg.norm(x)


@final
class RMSNorm(AbstractNorm):
    """Division by the root mean square of the coordinates, times a gain: norm `sqrt(d)` at gain one.

    Checkpoints add an `epsilon` to the mean square.

    >>> mf.RMSNorm()(jnp.array([3.0, 0.0, 0.0, 0.0])).tolist()
    [2.0, 0.0, 0.0, 0.0]
    """

    gain: Float[Array, "*d"] = eqx.field(converter=checks.floating, default=1.0)
    epsilon: float = eqx.field(static=True, default=0.0)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """The token with root mean square one, times the gain."""
        return self.gain * x / jnp.sqrt(jnp.mean(x**2) + self.epsilon)


@final
class LayerNorm(AbstractNorm):
    """Centred coordinates divided by their standard deviation, times a gain, plus a shift.

    Checkpoints add an `epsilon` to the variance.

    >>> mf.LayerNorm(gain=2.0)(jnp.array([1.0, 1.0, 5.0, 5.0])).tolist()
    [-2.0, -2.0, 2.0, 2.0]
    """

    gain: Float[Array, "*d"] = eqx.field(converter=checks.floating, default=1.0)
    shift: Float[Array, "*d"] = eqx.field(converter=checks.floating, default=0.0)
    epsilon: float = eqx.field(static=True, default=0.0)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """The standardised token, times the gain, plus the shift."""
        centred = x - x.mean()
        return self.gain * centred / jnp.sqrt(jnp.mean(centred**2) + self.epsilon) + self.shift


class AbstractScheme(eqx.Module):
    """Where a normalisation sits in the layer."""

    @abc.abstractmethod
    def velocity(self, t: Number, xs: Float[Array, "m d"], seen: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The velocity of tokens, given what attention says at their directions."""


def _along(xs: Float[Array, "m d"], vs: Float[Array, "m d"]) -> Float[Array, "m d"]:
    """The part of velocities that turns directions and keeps radii."""
    units = jax.vmap(Unit())(xs)
    return vs - jnp.sum(units * vs, -1, keepdims=True) * units


def _sizes(vs: Float[Array, "m d"]) -> Float[Array, "m 1"]:
    return jnp.linalg.norm(vs, axis=-1, keepdims=True)


@final
class PostNorm(AbstractScheme):
    """Normalisation after the residual: radii stay, `u' = P_u A`. Clusters form exponentially fast.

    >>> xs, seen = jnp.array([[2.0, 0.0]]), jnp.array([[3.0, 4.0]])
    >>> mf.PostNorm().velocity(0.0, xs, seen).tolist()
    [[0.0, 8.0]]
    """

    def velocity(self, t: Number, xs: Float[Array, "m d"], seen: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The tangent part of the velocity, times the radius that stays."""
        return _sizes(xs) * _along(xs, seen)


@final
class PreNorm(AbstractScheme):
    """Normalisation before attention: `x' = A(u)`, so radii grow and `u' = P_u A / r`. Clusters form like `t^-2`.

    >>> xs, seen = jnp.array([[2.0, 0.0]]), jnp.array([[3.0, 4.0]])
    >>> mf.PreNorm().velocity(0.0, xs, seen).tolist()
    [[3.0, 4.0]]
    """

    def velocity(self, t: Number, xs: Float[Array, "m d"], seen: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """What attention says at the directions, unchanged."""
        return seen


@final
class PeriNorm(AbstractScheme):
    """Normalisation before and after attention: `x' = A(u) / |A(u)|`, so `u' = P_u A / (r |A|)`.

    >>> xs, seen = jnp.array([[2.0, 0.0]]), jnp.array([[0.0, 4.0]])
    >>> mf.PeriNorm().velocity(0.0, xs, seen).tolist()
    [[0.0, 1.0]]
    """

    def velocity(self, t: Number, xs: Float[Array, "m d"], seen: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The direction of what attention says."""
        return seen / _sizes(seen)


@final
class MixNorm(AbstractScheme, AbstractSwitching):
    """Post-LN up to a switching time and Pre-LN after it.

    >>> xs, seen = jnp.array([[2.0, 0.0]]), jnp.array([[3.0, 4.0]])
    >>> [mf.MixNorm(switch=1.0).velocity(t, xs, seen).tolist() for t in (0.5, 1.5)]
    [[[0.0, 8.0]], [[3.0, 4.0]]]
    """

    switch: Float[Array, ""] = eqx.field(converter=checks.floating)

    @property
    def jumps(self) -> Float[Array, " k"]:
        """The switching time."""
        return self.switch[None]

    def velocity(self, t: Number, xs: Float[Array, "m d"], seen: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The velocity of the scheme that is on."""
        return jnp.where(
            jnp.asarray(t) < self.switch, PostNorm().velocity(t, xs, seen), PreNorm().velocity(t, xs, seen)
        )


@final
class NGPT(AbstractScheme):
    """The normalised transformer: `u' = alpha P_u A / |A|` with a learned step `alpha`, so the scale is `|A| / alpha`.

    >>> xs, seen = jnp.array([[2.0, 0.0]]), jnp.array([[0.0, 4.0]])
    >>> mf.NGPT(alpha=0.25).velocity(0.0, xs, seen).tolist()
    [[0.0, 0.5]]
    """

    alpha: Float[Array, ""] = eqx.field(converter=checks.floating, default=1.0)

    def velocity(self, t: Number, xs: Float[Array, "m d"], seen: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The tangent part of the direction of what attention says, times the step and the radius that stays."""
        return self.alpha * _sizes(xs) * _along(xs, seen / _sizes(seen))


@final
class SqrtDepth(AbstractScheme):
    """Directions slowed by the root of the depth: `u' = P_u A / sqrt(1 + t)`.

    >>> xs, seen = jnp.array([[2.0, 0.0]]), jnp.array([[3.0, 4.0]])
    >>> [mf.SqrtDepth().velocity(t, xs, seen).tolist() for t in (0.0, 3.0)]
    [[[0.0, 8.0]], [[0.0, 4.0]]]
    """

    def velocity(self, t: Number, xs: Float[Array, "m d"], seen: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The velocity of Post-LN over the root of the depth."""
        return PostNorm().velocity(t, xs, seen) / jnp.sqrt(1 + jnp.asarray(t, xs.dtype))


@final
class Normalised(AbstractField):
    """A field seen through a normalisation: attention acts on normalised tokens, the scheme sets the speed.

    >>> mu = mf.Particles(mf.Euclidean(2), 2 * np.eye(2))
    >>> field = mf.Normalised(mf.SoftmaxAttention.isotropic(2, beta=0.0), mf.PostNorm())
    >>> field(0.0, mu.points, mu).round(3).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """

    field: AbstractField
    scheme: AbstractScheme
    norm: AbstractNorm = Unit()

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity of the scheme, from the field at the normalised tokens."""
        if not isinstance(mu, AbstractCloud):
            raise TypeError(f"`Normalised` needs tokens; got {type(mu).__name__}.")
        seen = self.field(t, jax.vmap(self.norm)(xs), mu.push(self.norm))
        return self.scheme.velocity(t, xs, seen)


def directions(mu: AbstractCloud) -> Float[Array, "n d"]:
    """The directions of the tokens."""
    return mu.push(Unit()).points


def radii(mu: AbstractCloud) -> Float[Array, " n"]:
    """The radii of the tokens."""
    return jnp.linalg.norm(mu.points, axis=-1)
