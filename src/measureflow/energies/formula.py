"""Energies by formula: a user writes the value, and the first variation follows by differentiation."""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow.energies.base import AbstractEnergy
from measureflow.measures import AbstractMeasure, Gaussian, Particles

LITTLE = 1e-20
"""The weight of a point at which a variation is asked for: too little to be seen, and the derivative in it has all digits."""


@final
class Energy(AbstractEnergy):
    """The energy of a formula in the measure, such as `Energy(lambda mu: mu.expect(lambda x: jnp.sum(x**4)))`.

    The formula is written with `expect`, `integrate`, `attend` and their kin, so that it sees the measure and not how it is
    stored. Its first variation is known on `Particles`, where it is the derivative in the weight of a point, and on a
    `Gaussian`, where it is the quadratic function whose gradient is that of the energy among Gaussians. `label` is its name in
    pictures.

    >>> energy = mf.Energy(lambda mu: mu.expect(lambda x: jnp.sum(x**4)))
    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> round(float(energy(mu)), 3)
    1.0
    >>> energy.variation(mu, jnp.array([[2.0, 0.0]])).round(3).tolist()
    [16.0]
    """

    formula: Callable[[Any], Any]
    called: str = eqx.field(static=True)

    def __init__(self, formula: Callable[[Any], Any], label: str = "energy E"):
        if not callable(formula):
            raise TypeError(f"`formula` must be a function of a measure; got {formula!r}.")
        self.formula, self.called = formula, label

    @property
    def label(self) -> str:
        """Its name in pictures."""
        return self.called

    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """The value of the formula."""
        value = jnp.asarray(self.formula(mu))
        if value.shape:
            raise ValueError(f"`formula` must give one number; got an array of shape {value.shape}.")
        return value

    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """How the formula answers to a little mass put at each of the points."""
        if isinstance(mu, Particles):
            return self._of_tokens(mu, xs)
        if isinstance(mu, Gaussian):
            return self._of_gaussian(mu, xs)
        raise TypeError(
            f"`Energy` knows its first variation on `Particles` and on a `Gaussian`; got {type(mu).__name__}. For others derive "
            "from `AbstractEnergy` and write `variation`."
        )

    def _of_tokens(self, mu: Particles, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        points = jnp.concatenate([mu.points, xs])

        def value(extra):
            log_weights = jnp.concatenate([mu.log_weights, jnp.log(jnp.asarray(LITTLE, xs.dtype)) + extra])
            return self(eqx.tree_at(lambda m: (m.points, m.log_weights), mu, (points, log_weights)))

        return jax.grad(value)(jnp.zeros(len(xs), xs.dtype)) / LITTLE

    def _of_gaussian(self, mu: Gaussian, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        def value(mean, cov):
            root = jnp.linalg.cholesky(cov, symmetrize_input=True)
            return self(eqx.tree_at(lambda m: (m.mean, m.root), mu, (mean, root)))

        along_mean, along_cov = jax.grad(value, argnums=(0, 1))(mu.mean, mu.cov)
        away = xs - mu.mean[None]
        return away @ along_mean + jnp.einsum("mi,ij,mj->m", away, along_cov, away)
