"""A mixture of Gaussians that moves by projection.

Covectors see a mixture in closed form, as a sum over its components. Attention does not keep mixtures, so each component
follows the affine velocity nearest to the true one on it: its mean and root have the rates `E v` and `E[v z^T]`, and weights
stay. This is the flow projected to mixtures with the Bures-Wasserstein geometry on the components; the moments of each
component have their true rates, so their error grows with the square of time.
"""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from measureflow import checks
from measureflow.annotations import Number, Numbers, RandomKey
from measureflow.measures.base import AbstractDiffusive
from measureflow.measures.cloud import AbstractSampled, as_key
from measureflow.measures.gaussian import (
    COARSE,
    NOT_QUADRATIC,
    UNRESOLVED,
    Gaussian,
    Velocity,
    disagreement,
    leaves,
    square_root,
)
from measureflow.measures.matrices import Matrix
from measureflow.measures.particles import Particles
from measureflow.spaces import Euclidean
from measureflow.sums import AbstractEngine, Attended


@final
class GaussianMixture(AbstractDiffusive, AbstractSampled):
    """The law `sum_k w_k N(m_k, Σ_k)`; `parts` are its components, stacked, with log weights as their log masses.

    >>> mu = mf.GaussianMixture([1.0, 1.0], [[-1.0], [1.0]], [[[1.0]], [[1.0]]])
    >>> mu
    GaussianMixture(A Gaussian mixture on R)
    >>> mu.cov.round(3).tolist()
    [[2.0]]
    """

    parts: Gaussian

    def __init__(self, weights: Numbers, means: Numbers, covs: Numbers):
        means, covs, weights = checks.floating(means), checks.floating(covs), checks.floating(weights)
        checks.shaped("means", means, ("k", "d"), "Rows are the means of the components.")
        k, d = means.shape
        checks.shaped("covs", covs, (k, d, d), "There is one covariance for each component.")
        checks.shaped("weights", weights, (k,), "There is one weight for each component.")
        for name, value in (("means", means), ("covs", covs), ("weights", weights)):
            checks.finite(name, value)
        checks.positive("weights", weights)
        dtype = np.promote_types(means.dtype, covs.dtype)
        roots = jnp.stack([square_root(f"covs[{i}]", cov.astype(dtype)) for i, cov in enumerate(covs)])
        log_weights = jax.nn.log_softmax(jnp.log(weights.astype(dtype)))
        plain = Gaussian(jnp.zeros(d, dtype), jnp.zeros((d, d), dtype))
        self.parts = eqx.tree_at(leaves, plain, (means.astype(dtype), roots, log_weights))

    @staticmethod
    def from_roots(weights: Numbers, means: Numbers, roots: Numbers) -> "GaussianMixture":
        """The mixture of the laws of `means[k] + roots[k] z` with standard normal `z`."""
        means, roots = checks.floating(means), checks.floating(roots)
        checks.shaped("roots", roots, (*means.shape, means.shape[-1]), "There is one square root for each component.")
        checks.finite("roots", roots)
        plain = GaussianMixture(weights, means, jnp.zeros_like(roots))
        return eqx.tree_at(lambda mu: mu.parts.root, plain, roots.astype(plain.means.dtype))

    @property
    def described(self) -> str:
        """What, and where."""
        return f"A Gaussian mixture on {self.space.symbol}"

    @property
    def weights(self) -> Float[Array, "*frames k"]:
        """The masses of the components."""
        return jnp.exp(self.parts.log_mass)

    @property
    def means(self) -> Float[Array, "*frames k d"]:
        """The means of the components."""
        return self.parts.mean

    @property
    def covs(self) -> Float[Array, "*frames k d d"]:
        """The covariances of the components."""
        return self.parts.cov

    @property
    def mean(self) -> Float[Array, "*frames d"]:
        """The mean of the whole."""
        return jnp.einsum("...k,...kd->...d", self.weights, self.means)

    @property
    def cov(self) -> Float[Array, "*frames d d"]:
        """The covariance of the whole: the average within components and the spread of their means."""
        away = self.means - self.mean[..., None, :]
        spread = self.covs + away[..., :, None] * away[..., None, :]
        return jnp.einsum("...k,...kde->...de", self.weights, spread)

    @property
    def space(self) -> Euclidean:
        """The flat space on which the law lives."""
        return Euclidean(self.means.shape[-1])

    def attend(self, covectors: Float[Array, "m d"]) -> Attended:
        """The log mass of the sum, and the tilted means of the components by their shares in it."""
        each = self._each(lambda part: part.attend(covectors))
        share = jax.nn.softmax(each.log_mass, axis=0)
        return Attended(jax.nn.logsumexp(each.log_mass, axis=0), jnp.einsum("km,kmd->md", share, each.mean))

    def ridge(
        self, kernel: Callable[[Float[Array, "*s"]], Float[Array, "*s"]], covectors: Float[Array, "m d"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
        """The sum over the components."""
        mass, moment = self._each(lambda part: part.ridge(kernel, covectors))
        return mass.sum(0), moment.sum(0)

    def integrate(self, integrand: Callable[[Float[Array, "m d"]], Float[Array, "m *shape"]]) -> Float[Array, "*shape"]:
        """The sum over the components, each by its quadrature."""
        return self._each(lambda part: part.integrate(integrand)).sum(0)

    def pairing(self, form: Matrix) -> Float[Array, ""]:
        """The sum over all pairs of components, each in closed form."""
        return self._each(lambda x: self._each(lambda y: x.meeting(y, form))).sum()

    def potential(self, f: Callable[[Float[Array, "m d"]], Float[Array, " m"]]) -> Float[Array, "k s"]:
        """The coefficients of a quadratic function on each component."""
        rows = self._each(lambda part: part.potential(f))
        if checks.concrete(rows) and np.isnan(np.asarray(rows)).any():
            raise ValueError(NOT_QUADRATIC)
        return rows

    def weigh(self, potential: Float[Array, "k s"]) -> "GaussianMixture":
        """Every component reweighted."""
        return self._with(jax.vmap(lambda part, row: part.weigh(row))(self.parts, potential))

    def using(self, engine: AbstractEngine) -> "GaussianMixture":
        """There are no sums over tokens to compute."""
        raise ValueError(
            f"`engine` is for kernel sums over particles; a mixture has none. Got {type(engine).__name__}."
        )

    @property
    def engine_name(self) -> str:
        """Covectors see a mixture in closed form."""
        return "closed form"

    def transport(self, velocity: Velocity) -> "GaussianMixture":
        """The rates of the components under the affine velocities nearest to the given one on each; weights stay."""
        return self._with(self._each(lambda part: part.rate(*part.project(velocity))))

    def drift(self, field: Any, t: Number) -> "GaussianMixture":
        """The same under a field, which may know in closed form what it does to a component."""
        return self._with(self._each(lambda part: part.rate(*field.project(t, part, self))))

    def admit(self, field: Callable[..., Array], t: Number) -> None:
        """Refuse a field that reweights by more than a quadratic, or that quadrature does not resolve."""
        if not checks.concrete(field, t, self):
            return
        finite, off = _look(field, t, self)
        if not finite:
            raise ValueError(f"`field` gives this mixture no finite velocity. {NOT_QUADRATIC}")
        if off > COARSE:
            raise ValueError(UNRESOLVED.format(what="`field`", dim=self.space.dim, off=float(off)))

    def coarser(self) -> "GaussianMixture":
        """The same law with the second opinion of its quadrature."""
        return self._with(self._each(lambda part: part.coarser()))

    def admit_noise(self) -> None:
        """Refuse a component with a singular covariance."""
        self.parts.admit_noise()

    def diffuse(self, temperature: Number) -> "GaussianMixture":
        """The rate under the heat equation with generator `T` times the Laplacian, which widens each component alone."""
        return self._with(self._each(lambda part: part.diffuse(temperature)))

    def settle(self) -> "GaussianMixture":
        """Every mean and root is a Gaussian."""
        return self

    def sample(self, n: int, *, key: RandomKey) -> Particles:
        """Independent tokens from the law."""
        choice, normal = jax.random.split(as_key(key))
        which = jax.random.categorical(choice, self.parts.log_mass, shape=(n,))
        z = jax.random.normal(normal, (n, self.space.dim), self.means.dtype)
        points = self.means[which] + jnp.einsum("nde,ne->nd", self.parts.root[which], z)
        return Particles(self.space, points)

    def _each(self, f: Callable[[Gaussian], Any]) -> Any:
        return jax.vmap(f)(self.parts)

    def _with(self, parts: Gaussian) -> "GaussianMixture":
        return eqx.tree_at(lambda mu: mu.parts, self, parts)


@eqx.filter_jit
def _look(field: Callable[..., Array], t: Number, mu: GaussianMixture) -> tuple[Bool[Array, ""], Float[Array, ""]]:
    """Whether the rates are finite, and how far another quadrature gives other rates."""
    rates, others = (nu.drift(field, t).parts for nu in (mu, mu.coarser()))
    return jnp.isfinite(rates.mean).all(), disagreement(mu.parts, rates, others)
