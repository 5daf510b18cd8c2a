"""The interaction energy that attention raises."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.energies.base import AbstractEnergy
from measureflow.measures import AbstractMeasure
from measureflow.measures.matrices import Multiple


@final
class InteractionEnergy(AbstractEnergy):
    """How much the tokens agree: `E(mu) = 1/(2 beta) ∬ e^{beta <x, y>} dmu(x) dmu(y)`.

    At `beta = 0` it is the regular part `½ ∬ <x, y> dmu dmu`. On the sphere it is largest, `e^beta / (2 beta)`, when
    all tokens coincide. geshkovski:25

    >>> energy = mf.InteractionEnergy(beta=1.0)
    >>> agreed, apart = (mf.Particles(mf.Sphere(2), points) for points in ([[1.0, 0.0]] * 2, np.eye(2)))
    >>> [round(float(value), 3) for value in (energy(agreed), energy.peak, energy(apart))]
    [1.359, 1.359, 0.93]
    """

    beta: Float[Array, ""] = eqx.field(converter=checks.floating)

    @property
    def label(self) -> str:
        """Its name in pictures."""
        return "interaction energy E"

    @property
    def peak(self) -> Float[Array, ""]:
        """The largest value on the unit sphere, `e^beta / (2 beta)`, which is that of consensus, and 1/2 at `beta = 0`."""
        return _peak(self.beta)

    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """The average over all pairs, which some measures have in closed form, and the regular part at `beta = 0`."""
        mean = mu.integrate(lambda xs: xs)
        beta = self.beta.astype(mean.dtype)
        flat = beta == 0
        return jnp.where(flat, mean @ mean, mu.pairing(Multiple(beta, len(mean))) / jnp.where(flat, 1.0, beta)) / 2

    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The potential `1/beta ∫ e^{beta <x, y>} dmu(y)`, and `<x, ∫ y dmu>` at `beta = 0`."""
        beta = self.beta.astype(xs.dtype)
        flat = beta == 0
        seen = mu.attend(beta * xs)
        return jnp.where(flat, (xs * seen.mean).sum(-1), jnp.exp(seen.log_mass) / jnp.where(flat, 1.0, beta))


@final
class BilinearEnergy(AbstractEnergy):
    """The interaction energy of a general form: `E(mu) = ½ ∬ e^{<Ax, y>} dmu(x) dmu(y)`.

    For symmetric `A`, unnormalised attention with value `V = A` ascends it. At `A = beta I` it is `beta` times
    `InteractionEnergy(beta)`. sander:22

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> round(float(mf.BilinearEnergy(np.log(3) * np.eye(2))(mu)), 3)
    1.0
    """

    interaction: Float[Array, "d d"] = eqx.field(converter=checks.floating)

    @property
    def peak(self) -> Float[Array, ""]:
        """A bound on the unit sphere, half of `e` to the norm of `A`; reached where an eigenvalue is the norm."""
        return jnp.exp(jnp.linalg.norm(self.interaction, 2)) / 2

    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """Half the average of `e^{<Ax, y>}` over all pairs."""
        return mu.pairing(self.interaction) / 2

    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Half of what a point sees plus half of how it is seen: `½ ∫ (e^{<Ax, y>} + e^{<Ay, x>}) dmu(y)`."""
        sees, seen = (mu.attend(xs @ matrix).log_mass for matrix in (self.interaction.T, self.interaction))
        return (jnp.exp(sees) + jnp.exp(seen)) / 2


@jax.jit
def _peak(beta: Float[Array, ""]) -> Float[Array, ""]:
    flat = beta == 0
    return jnp.where(flat, 1.0, jnp.exp(beta) / jnp.where(flat, 1.0, beta)) / 2
