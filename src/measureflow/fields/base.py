"""What a field is, and the vector space that fields form."""

import abc
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow import checks, precision
from measureflow.annotations import Number
from measureflow.measures import AbstractMeasure, Gaussian


class Part(NamedTuple):
    """A velocity `e^{g(x)} w(x)`; without `exponent` it is `w`."""

    velocity: Callable[[Float[Array, "m d"]], Float[Array, "m d"]]
    exponent: Callable[[Float[Array, "m d"]], Float[Array, " m"]] | None = None


Rates = tuple[Float[Array, " d"], Float[Array, "d d"]]
"""Of the mean and the root of a Gaussian."""


class AbstractField(eqx.Module):
    """A velocity at each point, given the time and the measure: `v = field(t, xs, mu)` in ambient coordinates.

    `exponential` tells whether it looks at the measure through `attend` alone, perhaps reweighted: only then `Causal` has
    the past in blocks, and else row by row.
    """

    exponential: ClassVar[bool] = False

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        precision.keep(cls, "__call__", "parts", "project", around=checks.sized)

    @abc.abstractmethod
    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocities of a batch of points; the tangent projection is left to the measure's `transport`."""

    def parts(self, t: Number, mu: AbstractMeasure) -> tuple[Part, ...]:
        """The velocity as a sum in which exponentials stand apart: a Gaussian averages them in closed form."""
        return (Part(lambda xs: self(t, xs, mu)),)

    def project(self, t: Number, part: Gaussian, mu: AbstractMeasure) -> Rates:
        """The rates of mean and root of a Gaussian under the affine velocity nearest to the field's on it: `E v`, `E[v z^T]`.

        `part` is what moves and `mu` what the field sees: the Gaussian itself, or a mixture it belongs to.
        """
        # Only of one Gaussian the exponents are quadratic.
        parts = self.parts(t, mu) if isinstance(mu, Gaussian) else AbstractField.parts(self, t, mu)
        return _total([part.project(*piece) for piece in parts])

    def __repr__(self) -> str:
        return eqx.tree_pformat(self, width=10_000)  # on one line

    def __add__(self, other: "AbstractField") -> "AbstractField":
        return Sum((self, other))

    def __mul__(self, factor: Number) -> "AbstractField":
        return Scaled(self, factor)

    __rmul__ = __mul__

    def __neg__(self) -> "AbstractField":
        return Scaled(self, -1.0)

    def __sub__(self, other: "AbstractField") -> "AbstractField":
        return Sum((self, -other))


class Sum(AbstractField):
    """The sum of several fields."""

    terms: tuple[AbstractField, ...]

    @property
    def exponential(self) -> bool:
        """Whether all terms are."""
        return all(term.exponential for term in self.terms)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """Add the velocities of the terms."""
        first, *rest = (term(t, xs, mu) for term in self.terms)
        return sum(rest, start=first)

    def parts(self, t: Number, mu: AbstractMeasure) -> tuple[Part, ...]:
        """Those of the terms."""
        return tuple(part for term in self.terms for part in term.parts(t, mu))

    def project(self, t: Number, part: Gaussian, mu: AbstractMeasure) -> Rates:
        """Add the rates that the terms give."""
        return _total([term.project(t, part, mu) for term in self.terms])


class Scaled(AbstractField):
    """A field multiplied by a number.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.Scaled(mf.SoftmaxAttention.isotropic(2, beta=np.log(3)), 2.0)
    >>> field(0.0, mu.points, mu).round(3).tolist()
    [[1.5, 0.5], [0.5, 1.5]]
    """

    field: AbstractField
    factor: Float[Array, ""] = eqx.field(converter=checks.floating)

    @property
    def exponential(self) -> bool:
        """Whether the field is."""
        return self.field.exponential

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """Multiply the velocities by the factor."""
        return self.factor.astype(xs.dtype) * self.field(t, xs, mu)

    def parts(self, t: Number, mu: AbstractMeasure) -> tuple[Part, ...]:
        """Those of the field, each multiplied by the factor."""
        return tuple(
            part._replace(velocity=lambda xs, v=part.velocity: self.factor.astype(xs.dtype) * v(xs))
            for part in self.field.parts(t, mu)
        )

    def project(self, t: Number, part: Gaussian, mu: AbstractMeasure) -> Rates:
        """Multiply the rates by the factor."""
        mean, root = self.field.project(t, part, mu)
        return self.factor.astype(mean.dtype) * mean, self.factor.astype(root.dtype) * root


def _total(rates: Sequence[Rates]) -> Rates:
    means, roots = zip(*rates, strict=True)
    return jnp.stack(means).sum(0), jnp.stack(roots).sum(0)
