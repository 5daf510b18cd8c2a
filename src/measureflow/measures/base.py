"""What a measure must know so that a field can move it.

A field never asks what kind of measure it sees: it calls `attend` or `ridge` (how covectors see the measure), `weigh` and
`potential` (reweighting) and `integrate` (averages). The flow calls `transport`, the measure's own continuity equation, and
`settle`. What only some measures can do is told by the classes they derive from: `AbstractDiffusive` and `AbstractHeated`
here, `AbstractCloud` and `AbstractSampled` in `measures.cloud`.
"""

import abc
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from measureflow import precision
from measureflow.annotations import Number
from measureflow.measures.matrices import Matrix
from measureflow.spaces import AbstractSpace
from measureflow.sums import AbstractEngine, Attended

Measure = TypeVar("Measure", bound="AbstractMeasure")


class AbstractMeasure(eqx.Module):
    """A probability measure in motion."""

    space: eqx.AbstractVar[AbstractSpace]

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        precision.keep(
            cls, "attend", "ridge", "integrate", "pairing", "potential", "weigh", "transport", "drift", "sample"
        )

    @property
    def described(self) -> str:
        """The measure in a few words, such as "64 tokens on S²"."""
        return f"A measure on {self.space.symbol}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.described})"

    @abc.abstractmethod
    def attend(self, covectors: Float[Array, "m d"]) -> Attended:
        """How covectors see the measure: `L(a) = log ∫ e^{<a, y>} dmu(y)` and its gradient, the tilted mean."""

    @abc.abstractmethod
    def integrate(self, integrand: Callable[[Float[Array, "m d"]], Float[Array, "m *shape"]]) -> Float[Array, "*shape"]:
        """The average of a function that takes a batch of points, as kernel sums want them."""

    def expect(self, integrand: Callable[[Float[Array, " d"]], Float[Array, "*shape"]]) -> Float[Array, "*shape"]:
        """The average of a function of one point: `∫ f dmu`."""
        return self.integrate(jax.vmap(integrand))

    def pairing(self, form: Matrix) -> Float[Array, ""]:
        """The average of `e^{<Ax, y>}` over independent pairs of points."""
        return self.integrate(lambda xs: jnp.exp(self.attend(xs @ form.T).log_mass))

    @abc.abstractmethod
    def ridge(
        self, kernel: Callable[[Float[Array, "*s"]], Float[Array, "*s"]], covectors: Float[Array, "m d"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
        """Mass and moment for a kernel of the score: `∫ k(<a, y>) dmu(y)` and `∫ k(<a, y>) y dmu(y)`."""

    @abc.abstractmethod
    def potential(self, f: Callable[[Float[Array, "m d"]], Float[Array, " m"]]) -> Any:
        """What a function looks like on this measure, in the form that `weigh` takes."""

    @abc.abstractmethod
    def weigh(self, potential: Any) -> "AbstractMeasure":
        """The measure `e^g dmu`, kept in the log domain and not normalised."""

    @abc.abstractmethod
    def using(self: Measure, engine: AbstractEngine) -> Measure:
        """The measure with another engine for its kernel sums."""

    @property
    @abc.abstractmethod
    def engine_name(self) -> str:
        """What does the sums of the measure over itself, as one word."""

    @abc.abstractmethod
    def transport(self, velocity: Callable[[Float[Array, "m d"]], Float[Array, "m d"]]) -> "AbstractMeasure":
        """The rate of change of the measure's parameters when its points move with a velocity.

        The result has the shape of the measure but is a tangent to it, not a measure.
        """

    def moving(self) -> Any:
        """Which of its numbers flows change, as a truth value for all or a tree of them; methods step along those alone."""
        return True

    def drift(self, field: Any, t: Number) -> "AbstractMeasure":
        """The rate of change of the measure under a field, at a time."""
        return self.transport(lambda xs: field(t, xs, self))

    def admit(self, field: Callable[..., Array], t: Number) -> None:
        """Refuse, with a sentence, a field under which the measure leaves its kind; most measures take any."""

    @abc.abstractmethod
    def settle(self) -> "AbstractMeasure":
        """The measure put back on its space."""

    def coarser(self: Measure) -> Measure | None:
        """The measure less finely resolved, to see what its resolution costs; None where it has none but rounding."""
        return None

    def sound(self) -> Bool[Array, ""]:
        """Whether the numbers still stand for a measure; a flow ends when they do not."""
        return jnp.array(True)

    def resolved(self) -> Bool[Array, ""]:
        """Whether the numbers still tell all there is to tell; a flow that is followed changes their form when they do not."""
        return jnp.array(True)


class AbstractDiffusive(AbstractMeasure):
    """A measure that knows its rate under noise, the Fokker-Planck equation."""

    def admit_noise(self) -> None:
        """Refuse, with a sentence, a measure for which the rate has no bound; most have one."""

    @abc.abstractmethod
    def diffuse(self, temperature: Number) -> "AbstractDiffusive":
        """The rate of its numbers under the heat equation with generator `temperature` times the Laplacian."""


class AbstractHeated(AbstractDiffusive):
    """A measure whose numbers, and tangents to them, the heat equation moves linearly and in closed form."""

    @abc.abstractmethod
    def heat(self, span: Number) -> "AbstractHeated":
        """What is left after a span of time at unit temperature."""
