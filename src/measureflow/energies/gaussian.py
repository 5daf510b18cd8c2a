"""The gradient-flow structure that attention has on Gaussians.

On centred Gaussians softmax attention sees scores to second order only, so with `V = A` symmetric it ascends the energy
`¼ tr((AΣ)^2)` of squared scores. With another value matrix the flow is one of the same energy for a twisted metric
`W_G^2 = min ∫ <G(x - y), x - y> dπ`, `G = A V^{-1}`. castin:25
"""

from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Number
from measureflow.energies.base import AbstractEnergy, GradientFlow
from measureflow.fields import AbstractField
from measureflow.measures import AbstractMeasure


@final
class ScoreEnergy(AbstractEnergy):
    """How large the scores are: `E(mu) = ¼ ∬ <Ax, y>^2 dmu(x) dmu(y) = ¼ tr((AS)^2)` with `S` the second moment.

    Linear attention with value `V = A` symmetric ascends it on every measure, softmax attention on centred Gaussians.

    >>> round(float(mf.ScoreEnergy(np.eye(2))(mf.Gaussian([0.0, 0.0], 3 * np.eye(2)))), 3)
    4.5
    """

    form: Float[Array, "d d"] = eqx.field(converter=checks.floating)

    def __check_init__(self):
        d = jnp.shape(self.form)[-1]
        checks.shaped("form", self.form, (d, d), "Scores <Ax, y> need a square matrix.")
        checks.symmetric("form", self.form)

    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """A quarter of the trace."""
        AS = self.form @ _second_moment(mu)
        return jnp.trace(AS @ AS) / 4

    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Half of the squared scores that a point sees: `½ <x, ASAx>`."""
        a = xs @ self.form
        return ((a @ _second_moment(mu)) * a).sum(-1) / 2


@final
class TwistedFlow(AbstractField):
    """The gradient flow of an energy for a twisted metric: `v(x) = -G^{-1} grad (dE/dmu)(x)`.

    Energy falls at the rate `∫ <G v, v> dmu`. With `G = I` it is `GradientFlow`.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.TwistedFlow(-mf.InteractionEnergy(beta=np.log(3)), metric=np.diag([1.0, 2.0]))
    >>> field(0.0, mu.points, mu).round(3).tolist()
    [[1.5, 0.25], [0.5, 0.75]]
    """

    energy: AbstractEnergy
    metric: Float[Array, "d d"] = eqx.field(converter=checks.floating)

    def __check_init__(self):
        d = jnp.shape(self.metric)[-1]
        checks.shaped("metric", self.metric, (d, d), "It measures velocities.")
        checks.symmetric("metric", self.metric)
        if checks.concrete(self.metric) and (least := np.linalg.eigvalsh(self.metric)[0]) <= 0:
            raise ValueError(f"`metric` must be positive definite; its least eigenvalue is {least:.3g}.")

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity of steepest descent where lengths are `<G v, v>`."""
        return jnp.linalg.solve(self.metric, GradientFlow(self.energy)(t, xs, mu).T).T


def _second_moment(mu: AbstractMeasure) -> Float[Array, "d d"]:
    return mu.integrate(lambda ys: ys[:, :, None] * ys[:, None, :])
