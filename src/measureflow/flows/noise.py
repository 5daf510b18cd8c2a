"""Langevin tokens: Brownian motion inside the space, on top of the flow; for limits, the diffusion of their law."""

import abc
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from measureflow import checks
from measureflow.flows.diffusion import fokker_planck
from measureflow.flows.solvers import AbstractSolver, Euler
from measureflow.flows.stepping import AbstractMethod, NoisyEuler
from measureflow.measures import AbstractCloud, AbstractDiffusive, AbstractMeasure


class AbstractNoise(eqx.Module):
    """What shakes a flow."""

    @abc.abstractmethod
    def method(
        self, mu: AbstractMeasure, times: Float[Array, " k"], solver: AbstractSolver, key: PRNGKeyArray | None
    ) -> AbstractMethod:
        """The steps of a solver with this noise added, for a flow through given times."""


@final
class Langevin(AbstractNoise):
    """Noise at a temperature: `dX = v dt + sqrt(2 temperature) dB`, so that the law diffuses with `temperature` times the
    Laplacian of the space. The inverse temperature is the kappa of the papers.

    >>> still = 0.0 * mf.SoftmaxAttention.isotropic(1)
    >>> mu = mf.Gaussian([0.0], [[1.0]])
    >>> path = mf.evolve(still, mu, [0.0, 1.0], noise=mf.Langevin(temperature=0.5))
    >>> path.final.cov.round(3).tolist()  # 1 + 2 temperature t
    [[2.0]]
    """

    temperature: Float[Array, ""] = eqx.field(converter=checks.floating)

    def __check_init__(self):
        checks.finite("temperature", self.temperature)
        checks.positive("temperature", self.temperature)

    def method(
        self, mu: AbstractMeasure, times: Float[Array, " k"], solver: AbstractSolver, key: PRNGKeyArray | None
    ) -> AbstractMethod:
        """Euler steps along geodesics with kicks, or those of the law.

        For particles one Brownian path over the whole run, finer than every step between frames; a measure that knows how
        to diffuse follows the Fokker-Planck equation, which needs neither a key nor a particular solver.
        """
        if isinstance(mu, AbstractDiffusive):
            mu.admit_noise()
            return fokker_planck(mu, self.temperature, solver)
        if not isinstance(mu, AbstractCloud):
            raise TypeError(f"`noise` moves tokens and measures that diffuse; got {type(mu).__name__}.")
        if not isinstance(solver, Euler):
            raise ValueError(f"`noise` needs fixed Euler steps, `solver=Euler(dt)`; got {type(solver).__name__}.")
        if key is None:
            raise ValueError("`noise` needs a `key`: a JAX key or an integer seed.")
        import diffrax as dfx

        shape = jax.ShapeDtypeStruct(mu.points.shape, mu.points.dtype)
        finest = jnp.minimum(solver.dt, jnp.diff(times).min()) / 4
        path = dfx.VirtualBrownianTree(times[0], times[-1], tol=finest, shape=shape, key=key)
        return NoisyEuler(path, jnp.sqrt(2 * self.temperature).astype(mu.points.dtype))
