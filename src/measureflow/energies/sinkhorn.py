"""The entropic energy whose gradient flow is Sinkhorn attention."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.energies.base import AbstractEnergy
from measureflow.fields import SinkhornAttention
from measureflow.fields.sinkhorn import level
from measureflow.measures import AbstractMeasure


@final
class SinkhornEnergy(AbstractEnergy):
    """The energy `F(mu) = -∫ f dmu` with `f` the potential of the symmetric form `<Sx, y>`.

    Its first variation is `-f`, and its gradient flow is Sinkhorn attention with interaction `S` and value `-S`. sander:22

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> energy = mf.SinkhornEnergy(np.log(3) * np.eye(2))
    >>> round(2 * float(energy(mu)), 3), round(float(np.log(2)), 3)
    (0.693, 0.693)
    """

    form: Float[Array, "d d"] = eqx.field(converter=checks.floating)

    def __check_init__(self):
        d = jnp.shape(self.form)[-1]
        checks.shaped("form", self.form, (d, d), "Scores <Sx, y> need a square matrix.")
        checks.symmetric("form", self.form)

    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """Minus the average of the potential."""
        return mu.integrate(lambda xs: self.variation(mu, xs))

    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Minus the potential, `-f(x) = log ∫ e^{<Sx, y> + f(y)} dmu(y)`."""
        pair = SinkhornAttention(self.form, self.form, symmetric=True).potentials(mu)
        # The two potentials differ by a constant that depends on where the sweeps started; their average does not.
        both = level(mu, pair.query - pair.key) / 2
        return mu.weigh(pair.key).attend(xs @ self.form.T).log_mass + both
