"""Learning-rate profiles: how the speed of training changes over physical time."""

import abc
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from measureflow import checks
from measureflow.annotations import Number


class AbstractProfile(eqx.Module):
    """A learning-rate profile over physical time."""

    @abc.abstractmethod
    def __call__(self, t: Number) -> Float[Array, ""]:
        """The rate at a time."""

    @abc.abstractmethod
    def elapsed(self, t: Real[ArrayLike, "*s"]) -> Float[Array, "*s"]:
        """The training time that has passed: the integral of the rate from zero."""

    @property
    @abc.abstractmethod
    def largest(self) -> float:
        """The largest rate."""

    @property
    @abc.abstractmethod
    def least(self) -> float:
        """What the rate never goes below."""

    @property
    @abc.abstractmethod
    def lipschitz(self) -> float:
        """How fast the rate can change."""

    @property
    @abc.abstractmethod
    def diverges(self) -> bool:
        """Whether the elapsed training time grows without bound."""


@final
class Constant(AbstractProfile):
    """The same rate for ever."""

    level: Float[Array, ""] = eqx.field(converter=checks.floating, default=1.0)

    def __call__(self, t: Number) -> Float[Array, ""]:
        """The level."""
        return self.level

    def elapsed(self, t: Real[ArrayLike, "*s"]) -> Float[Array, "*s"]:
        """The level times the time."""
        return self.level * jnp.asarray(t, self.level.dtype)

    @property
    def largest(self) -> float:
        """The level."""
        return float(self.level)

    @property
    def least(self) -> float:
        """The level."""
        return float(self.level)

    @property
    def lipschitz(self) -> float:
        """Zero, since the rate is constant."""
        return 0.0

    @property
    def diverges(self) -> bool:
        """It does unless the level is zero."""
        return float(self.level) > 0


@final
class InverseTime(AbstractProfile):
    """A rate that falls like the inverse of time: `1 / (1 + t / scale)`, whose integral still diverges."""

    scale: Float[Array, ""] = eqx.field(converter=checks.floating, default=2.0)

    def __call__(self, t: Number) -> Float[Array, ""]:
        """One at the start, a half at the scale."""
        return 1 / (1 + jnp.asarray(t, self.scale.dtype) / self.scale)

    def elapsed(self, t: Real[ArrayLike, "*s"]) -> Float[Array, "*s"]:
        """The logarithm `scale log(1 + t / scale)`."""
        return self.scale * jnp.log1p(jnp.asarray(t, self.scale.dtype) / self.scale)

    @property
    def largest(self) -> float:
        """One, at the start."""
        return 1.0

    @property
    def least(self) -> float:
        """Zero, which the rate approaches as time goes on."""
        return 0.0

    @property
    def lipschitz(self) -> float:
        """Its slope at the start."""
        return 1 / float(self.scale)

    @property
    def diverges(self) -> bool:
        """It does, like a logarithm."""
        return True
