"""Energies: functionals of a measure with a first variation, and the field that descends them."""

import abc
from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from measureflow import checks, precision
from measureflow.annotations import Number
from measureflow.fields import AbstractField
from measureflow.measures import AbstractMeasure, Gaussian


class AbstractEnergy(eqx.Module):
    """A functional of measures; energies add and scale like vectors."""

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        precision.keep(cls, "__call__", "variation", "average", around=checks.sized)

    @abc.abstractmethod
    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """The value of the energy."""

    @abc.abstractmethod
    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The first variation at a batch of points: how the energy answers to a little mass put there.

        It is fixed up to a constant: `d/de E(mu + e (nu - mu)) = ∫ variation d(nu - mu)` at `e = 0`.
        """

    def draw(self, key: PRNGKeyArray, size: int) -> "AbstractEnergy":
        """The energy on so many random data, with this energy as its mean; an energy without data is itself."""
        return self

    def average(self, mu: AbstractMeasure, nu: AbstractMeasure) -> Float[Array, ""]:
        """The first variation at `mu`, averaged over `nu`; energies that have it in closed form say so here."""
        return nu.integrate(lambda xs: self.variation(mu, xs))

    @property
    def label(self) -> str:
        """Its name in pictures."""
        return "energy E"

    def __add__(self, other: "AbstractEnergy") -> "AbstractEnergy":
        return EnergySum((self, other))

    def __mul__(self, factor: Number) -> "AbstractEnergy":
        return ScaledEnergy(self, factor)

    __rmul__ = __mul__

    def __neg__(self) -> "AbstractEnergy":
        return ScaledEnergy(self, -1.0)

    def __sub__(self, other: "AbstractEnergy") -> "AbstractEnergy":
        return EnergySum((self, -other))


@final
class EnergySum(AbstractEnergy):
    """The sum of several energies."""

    terms: tuple[AbstractEnergy, ...]

    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """Add the values of the terms."""
        first, *rest = (term(mu) for term in self.terms)
        return sum(rest, start=first)

    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Add the variations of the terms."""
        first, *rest = (term.variation(mu, xs) for term in self.terms)
        return sum(rest, start=first)

    def draw(self, key: PRNGKeyArray, size: int) -> AbstractEnergy:
        """Draw the data of each term."""
        return EnergySum(tuple(term.draw(key, size) for term in self.terms))

    def average(self, mu: AbstractMeasure, nu: AbstractMeasure) -> Float[Array, ""]:
        """Add the averages of the terms."""
        first, *rest = (term.average(mu, nu) for term in self.terms)
        return sum(rest, start=first)


@final
class ScaledEnergy(AbstractEnergy):
    """An energy multiplied by a number."""

    energy: AbstractEnergy
    factor: Float[Array, ""] = eqx.field(converter=checks.floating)

    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """Multiply the value by the factor."""
        value = self.energy(mu)
        return self.factor.astype(value.dtype) * value

    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Multiply the variation by the factor."""
        return self.factor.astype(xs.dtype) * self.energy.variation(mu, xs)

    def draw(self, key: PRNGKeyArray, size: int) -> AbstractEnergy:
        """Draw the data of the energy."""
        return ScaledEnergy(self.energy.draw(key, size), self.factor)

    def average(self, mu: AbstractMeasure, nu: AbstractMeasure) -> Float[Array, ""]:
        """Multiply the average by the factor."""
        value = self.energy.average(mu, nu)
        return self.factor.astype(value.dtype) * value


@final
class GradientFlow(AbstractField):
    """The Wasserstein gradient flow of an energy: it always descends, `v(x) = -grad (dE/dmu)(x)`.

    Tokens ascend their interaction energy: `GradientFlow(-InteractionEnergy(beta))` is unnormalised attention.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.GradientFlow(-mf.InteractionEnergy(beta=np.log(3)))
    >>> field(0.0, mu.points, mu).round(3).tolist()
    [[1.5, 0.5], [0.5, 1.5]]
    """

    energy: AbstractEnergy

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """Minus the gradient of the first variation, by automatic differentiation."""
        return -jax.grad(lambda points: self.energy.variation(mu, points).sum())(xs)

    def project(self, t: Number, part: Gaussian, mu: AbstractMeasure) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        """Minus the gradients of the averaged variation in mean and root, which are `E v` and `E[v z^T]`."""
        average = lambda mean, root: self.energy.average(mu, part.unit(mean, root))  # noqa: E731
        mean, root = jax.grad(average, (0, 1))(part.mean, part.root)
        return -mean, -root
