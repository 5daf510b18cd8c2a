"""Risks as energies: convex losses of linear features of a measure, and the weight decay that may be added to them.

What particles learn is an objective: an energy with data that can be drawn. If it is a convex loss of `z = ∫ phi dmu` it is a
risk, whose first variation is `Psi(theta; mu) = sum_s share_s <phi_s(theta), l'(z_s, y_s)>`, and all that certifies heads
certifies every family: gap, support condition, best responses. For `N` equal particles `N dR/dtheta_i = grad Psi(theta_i; mu)`.
"""

import abc
from typing import Any, NamedTuple, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from measureflow import checks
from measureflow.energies import AbstractEnergy, EnergySum
from measureflow.measures import AbstractMeasure
from measureflow.precision import keep_all
from measureflow.training.families import AbstractFamily, ByBlock, Theta
from measureflow.training.landscape import AbstractLandscape
from measureflow.training.losses import AbstractLoss


class Baselines(NamedTuple):
    """Risks that need no particles: of predictions zero, which give classes equal chances; of the best constant prediction, the
    frequencies of labels; and, for text, of those after each character."""

    uniform: float
    unigram: float
    bigram: float | None = None


Risk = TypeVar("Risk", bound="AbstractRisk")


class AbstractObjective(AbstractEnergy):
    """What particles learn: an energy with data that can be drawn, and a `family` that says what their parameters mean."""

    family: eqx.AbstractVar[AbstractFamily]

    @property
    @abc.abstractmethod
    def quality(self) -> str:
        """What `judged` measures, in words."""

    @abc.abstractmethod
    def judged(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """How good the predictions of a measure are, at most one."""

    @abc.abstractmethod
    def baselines(self) -> Baselines:
        """Risks to hold against that of a measure."""


class AbstractRisk(AbstractObjective):
    """A convex loss of linear features of a measure: `R(mu) = sum_s share_s l(z_s, y_s)` with `z = ∫ phi dmu`.

    Convex in the measure, with the first variation `Psi(theta; mu) = sum_s share_s <phi_s(theta), l'(z_s, y_s)>`, not shifted to
    mean zero. `shares` say how much each datum counts.
    """

    criterion: eqx.AbstractVar[AbstractLoss]
    targets: eqx.AbstractVar[Float[Array, "*s V"]]
    shares: eqx.AbstractVar[Float[Array, "*s"]]

    @abc.abstractmethod
    def features(self, theta: Theta) -> Float[Array, "*s V"]:
        """The predictions of one particle."""

    @abc.abstractmethod
    def logits(self, mu: AbstractMeasure) -> Float[Array, "*s V"]:
        """The average of the features over the measure: `z = ∫ phi dmu`."""

    @abc.abstractmethod
    def against(self, cotangents: Array, xs: Float[Array, "m D"]) -> Float[Array, " m"]:
        """The pairing of what particles compute with given cotangents."""

    @abc.abstractmethod
    def data(self) -> tuple[Any, Any, Any]:
        """What there is of each datum: its input, its target and its share."""

    def draw(self: Risk, key: PRNGKeyArray, size: int) -> Risk:
        """The risk of a random batch of data, drawn with replacement; its expectation is this risk."""
        inputs, targets, shares = self.data()
        chosen = jax.random.randint(key, (size,), 0, len(inputs))
        batch = inputs[chosen], targets[chosen], shares[chosen] * (len(inputs) / size)
        return eqx.tree_at(lambda risk: risk.data(), self, batch)

    def best_output(self, cotangents: Array, radii: ByBlock, decay: ByBlock, theta: Theta) -> Theta:
        """The particle with the outputs, within radii, that make `Psi` least; `decay` is the ridge on blocks that have one.

        Families without linear blocks have none to choose.
        """
        return theta

    def landscape(self, cotangents: Array, radii: ByBlock) -> AbstractLandscape | None:
        """What branch and bound searches for a proved best response, if it can."""
        return None

    def located(self, point: Float[Array, " k"], radii: ByBlock) -> Theta:
        """The particle at a point of the landscape, whose output is still to choose."""
        return point

    @property
    def provable(self) -> str:
        """For which particles there is a landscape, in words."""
        return "a family with a landscape, which this one has not"

    @property
    def quality(self) -> str:
        """That of the loss."""
        return self.criterion.quality

    def judged(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """The quality of the predictions."""
        return self.judged_by(self.logits(mu))

    def judged_by(self, logits: Float[Array, "*s V"]) -> Float[Array, ""]:
        """The quality of given predictions."""
        z, V = logits, logits.shape[-1]
        y, shares = self.targets.astype(z.dtype), self.shares.astype(z.dtype)
        return self.criterion.judged(z.reshape(-1, V), y.reshape(-1, V), shares.ravel())

    def baselines(self) -> Baselines:
        """The risk of predictions zero, and that of the best constant one."""
        shares, targets = np.asarray(self.shares, float), np.asarray(self.targets, float)
        least = self.criterion.constant(targets.reshape(-1, targets.shape[-1]), shares.ravel())
        return Baselines(float(self.loss(jnp.zeros_like(self.targets))), least)

    def pulled(self, residuals: Float[Array, "*s V"]) -> Array:
        """Residuals as cotangents of what particles compute; the same unless a fixed map follows the particles."""
        return residuals

    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """The loss of the predictions of a measure."""
        return self.loss(self.logits(mu))

    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """What a particle would add to the risk: `Psi(theta; mu) = sum_s share_s <phi_s(theta), l'(z_s, y_s)>`."""
        return self.against(self.cotangents(mu), xs)

    def loss(self, logits: Float[Array, "*s V"]) -> Float[Array, ""]:
        """The risk of given predictions."""
        z = logits
        return jnp.sum(self.shares.astype(z.dtype) * self.criterion(z, self.targets.astype(z.dtype)))

    def floor(self) -> Float[Array, ""]:
        """What no predictions can go below."""
        return jnp.sum(self.shares * self.criterion.floor(self.targets))

    def residuals(self, mu: AbstractMeasure) -> Float[Array, "*s V"]:
        """The gradient of the loss in the predictions of a measure, with the share of each datum in the risk."""
        return self.residuals_of(self.logits(mu))

    def residuals_of(self, logits: Float[Array, "*s V"]) -> Float[Array, "*s V"]:
        """The gradient of the loss in given predictions."""
        z = logits
        return self.shares.astype(z.dtype)[..., None] * self.criterion.residual(z, self.targets.astype(z.dtype))

    def cotangents(self, mu: AbstractMeasure) -> Array:
        """The residuals of a measure, pulled back to what particles compute."""
        return self.pulled(self.residuals(mu))


@final
class Ridge(AbstractEnergy):
    """Weight decay: `∫ sum_k (strength_k / 2) (theta_k - anchor_k)^2 dmu`, linear in the measure.

    `strength` is one number or one for each coordinate (`heads.by_block(value=0.1, output=0.1)`).
    """

    strength: Float[Array, "*D"] = eqx.field(converter=checks.floating)
    anchor: Float[Array, "*D"] = eqx.field(converter=checks.floating, default=0.0)

    def __check_init__(self):
        checks.finite("strength", self.strength)
        if checks.concrete(self.strength) and (np.asarray(self.strength) < 0).any():
            raise ValueError(f"`strength` must not be negative; got {np.asarray(self.strength).min():g}.")

    def by_block(self, family: AbstractFamily) -> dict[str, Float[Array, ""]] | None:
        """The strength on each block, if it is one number there and pulls to zero; nothing if any block is not so."""
        full = [np.broadcast_to(np.asarray(value, float), (family.size,)) for value in (self.strength, self.anchor)]
        strength, anchor = (family.unfold(jnp.asarray(value)) for value in full)
        if any(np.ptp(strength[name]) > 0 or np.any(anchor[name]) for name in family.shapes):
            return None
        return {name: block.ravel()[0] for name, block in strength.items()}

    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """The average of the penalty."""
        return mu.integrate(lambda xs: self.variation(mu, xs))

    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The penalty itself."""
        return self.penalty(xs)

    def penalty(self, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """What each particle pays, whatever the others do."""
        strength, anchor = (jnp.broadcast_to(v.astype(xs.dtype), xs.shape[-1:]) for v in (self.strength, self.anchor))
        return (xs - anchor[None]) ** 2 @ strength / 2


def parts(energy: AbstractEnergy) -> tuple[AbstractRisk, Ridge | None]:
    """A risk and the weight decay that is added to it, if there is one; other energies have no certificate here."""
    terms = energy.terms if isinstance(energy, EnergySum) else (energy,)
    risks = [term for term in terms if isinstance(term, AbstractRisk)]
    ridges = [term for term in terms if isinstance(term, Ridge)]
    if len(risks) != 1 or len(ridges) != len(terms) - 1 or len(ridges) > 1:
        names = " + ".join(type(term).__name__ for term in terms)
        raise ValueError(
            f"`risk` must be a risk that is convex in the measure, or one `+ Ridge(...)` with all its strengths; got {names}."
        )
    return risks[0], ridges[0] if ridges else None


keep_all(globals())
