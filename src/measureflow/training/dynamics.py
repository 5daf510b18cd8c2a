"""How heads move in training: gradient flow, stochastic descent, momentum and Adam, all as fields of the library.

In physical time `t = k eps` the descent `theta <- theta - 2 eps xi(t) grad Psi(theta; mu)` is the Euler method of the
field `Descent`, and one-sample descent that of `StochasticDescent`, whose sample depends on the step alone: so `evolve`,
legs and run folders work for training, and a run resumes to the same bits. Momentum and Adam move heads together with
their velocities or averages, as points of a larger space (`extended`).
"""

import abc
from typing import Protocol, final, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PRNGKeyArray, Real

from measureflow import checks
from measureflow.annotations import Number, RandomKey
from measureflow.energies import AbstractEnergy, GradientFlow
from measureflow.fields import AbstractField
from measureflow.flows import Euler, Langevin, Trajectory, evolve
from measureflow.measures import AbstractMeasure, Gaussian, Particles
from measureflow.measures.cloud import as_key
from measureflow.precision import keep_all
from measureflow.spaces import Euclidean

FACTOR = 2.0
"""The factor in front of the gradient, a convention of the mean-field literature."""


class AbstractProfile(eqx.Module):
    """A learning-rate profile over physical time."""

    @abc.abstractmethod
    def __call__(self, t: Number) -> Float[Array, ""]:
        """The rate at a time."""

    @abc.abstractmethod
    def elapsed(self, t: Real[ArrayLike, "*s"]) -> Float[Array, "*s"]:
        """The training time that has passed: the integral of the rate from zero."""

    @property
    @abc.abstractmethod
    def largest(self) -> float:
        """The largest rate."""

    @property
    @abc.abstractmethod
    def least(self) -> float:
        """What the rate never goes below."""

    @property
    @abc.abstractmethod
    def lipschitz(self) -> float:
        """How fast the rate can change."""

    @property
    @abc.abstractmethod
    def diverges(self) -> bool:
        """Whether training time goes on for ever."""


@final
class Constant(AbstractProfile):
    """The same rate for ever."""

    level: Float[Array, ""] = eqx.field(converter=checks.floating, default=1.0)

    def __call__(self, t: Number) -> Float[Array, ""]:
        """The level."""
        return self.level

    def elapsed(self, t: Real[ArrayLike, "*s"]) -> Float[Array, "*s"]:
        """The level times the time."""
        return self.level * jnp.asarray(t, self.level.dtype)

    @property
    def largest(self) -> float:
        """The level."""
        return float(self.level)

    @property
    def least(self) -> float:
        """The level."""
        return float(self.level)

    @property
    def lipschitz(self) -> float:
        """It never changes."""
        return 0.0

    @property
    def diverges(self) -> bool:
        """Unless the level is zero."""
        return float(self.level) > 0


@final
class InverseTime(AbstractProfile):
    """A rate that falls like the inverse of time: `1 / (1 + t / scale)`, whose integral still diverges."""

    scale: Float[Array, ""] = eqx.field(converter=checks.floating, default=2.0)

    def __call__(self, t: Number) -> Float[Array, ""]:
        """One at the start, a half at the scale."""
        return 1 / (1 + jnp.asarray(t, self.scale.dtype) / self.scale)

    def elapsed(self, t: Real[ArrayLike, "*s"]) -> Float[Array, "*s"]:
        """The logarithm `scale log(1 + t / scale)`."""
        return self.scale * jnp.log1p(jnp.asarray(t, self.scale.dtype) / self.scale)

    @property
    def largest(self) -> float:
        """One, at the start."""
        return 1.0

    @property
    def least(self) -> float:
        """Nothing, in the end."""
        return 0.0

    @property
    def lipschitz(self) -> float:
        """Its slope at the start."""
        return 1 / float(self.scale)

    @property
    def diverges(self) -> bool:
        """Like a logarithm."""
        return True


@final
class Descent(AbstractField):
    """Training by gradient flow: `v = -2 xi(t) grad Psi(theta; mu)`, the characteristics of the mean-field equation."""

    energy: AbstractEnergy
    profile: AbstractProfile = Constant()
    factor: Float[Array, ""] = eqx.field(converter=checks.floating, default=FACTOR)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """Minus the gradient of the first variation, times the factor and the rate."""
        return self.speed(t).astype(xs.dtype) * GradientFlow(self.energy)(t, xs, mu)

    def project(self, t: Number, part: Gaussian, mu: AbstractMeasure) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        """Those of the gradient flow, times the factor and the rate."""
        return (self.speed(t).astype(part.mean.dtype) * GradientFlow(self.energy)).project(t, part, mu)

    def speed(self, t: Number) -> Float[Array, ""]:
        """The factor in front of the gradient at a time."""
        rate = self.profile(t)
        return self.factor.astype(rate.dtype) * rate


@runtime_checkable
class Source(Protocol):
    """Data that can be drawn: a finite set, a stream or a text."""

    def draw(self, key: PRNGKeyArray, size: int) -> AbstractEnergy:
        """The risk of a random batch."""
        ...


@final
class StochasticDescent(AbstractField):
    """Training on samples: `v = -2 xi(t) G` with the gradient `G` of a batch that all heads share.

    Step `k` of length `step` draws the batch of `fold_in(key, k)`; `evolve(field, mu, times, Euler(step))` is stochastic
    gradient descent when frames lie on multiples of the step. `penalty` is not sampled.
    """

    source: Source
    key: PRNGKeyArray = eqx.field(converter=as_key)
    step: Float[Array, ""] = eqx.field(converter=checks.floating)
    batch: int = eqx.field(static=True, default=1)
    profile: AbstractProfile = Constant()
    penalty: AbstractEnergy | None = None
    factor: Float[Array, ""] = eqx.field(converter=checks.floating, default=FACTOR)

    def __check_init__(self):
        checks.positive("step", self.step)
        if self.batch < 1:
            raise ValueError(f"`batch` must be at least 1; got {self.batch}.")

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The descent of the risk of this step's batch."""
        return Descent(self.sampled(t), self.profile, self.factor)(t, xs, mu)

    def project(self, t: Number, part: Gaussian, mu: AbstractMeasure) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        """Those of the descent of this step's batch."""
        return Descent(self.sampled(t), self.profile, self.factor).project(t, part, mu)

    def sampled(self, t: Number) -> AbstractEnergy:
        """The risk of the batch of the step that contains a time, with the penalty."""
        step = self.step
        k: Int[Array, ""] = jnp.round(jnp.asarray(t, step.dtype) / step).astype(int)
        risk = self.source.draw(jax.random.fold_in(self.key, k), self.batch)
        return risk if self.penalty is None else risk + self.penalty


@final
class HeavyBall(AbstractField):
    """Momentum: heads with velocities, `theta' = v`, `v' = -friction v + f(theta)`, for a field `f` of heads.

    It moves measures made by `extended(mu, 1)`. The risk plus `∫ |v|^2 dmu / (2 speed)` falls at the rate of the friction.
    """

    field: AbstractField
    friction: Float[Array, ""] = eqx.field(converter=checks.floating)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocities, and what changes them."""
        theta, v = jnp.split(xs, 2, axis=-1)
        force = self.field(t, theta, marginal(mu, 2))
        return jnp.concatenate([v, force - self.friction.astype(v.dtype) * v], axis=-1)


@final
class Adam(AbstractField):
    """Adam in continuous time: averages `m' = (g - m) / memory`, `s' = (g^2 - s) / memory_squares`, and the motion
    `theta' = m / (sqrt(s) + epsilon)`, for the descent `g` of heads.

    It moves measures made by `extended(mu, 2)`. The gradient is that of the mean-field risk, `N` times the one of a head, so
    that `epsilon` means the same for every number of heads. Averages start from zero without a correction of their bias.
    """

    field: AbstractField
    memory: Float[Array, ""] = eqx.field(converter=checks.floating)
    memory_squares: Float[Array, ""] = eqx.field(converter=checks.floating)
    epsilon: Float[Array, ""] = eqx.field(converter=checks.floating, default=1e-8)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The motion of heads and of both averages."""
        theta, m, s = jnp.split(xs, 3, axis=-1)
        g = self.field(t, theta, marginal(mu, 3))
        tau, tau2, e = (c.astype(g.dtype) for c in (self.memory, self.memory_squares, self.epsilon))
        # Squares are averaged by exact arithmetic but may round below zero.
        return jnp.concatenate([m / (jnp.sqrt(jnp.maximum(s, 0.0)) + e), (g - m) / tau, (g**2 - s) / tau2], axis=-1)


def extended(mu: Particles, extra: int) -> Particles:
    """Heads with `extra` more vectors each, zero at the start."""
    n, d = mu.points.shape
    points = jnp.concatenate([mu.points, jnp.zeros((n, extra * d), mu.points.dtype)], axis=-1)
    space = Euclidean((1 + extra) * d)
    return eqx.tree_at(lambda m: (m.space, m.points), mu, (space, points))


def marginal(mu: AbstractMeasure, parts: int) -> Particles:
    """The law of the heads alone, from one of heads with further vectors."""
    if not isinstance(mu, Particles):
        raise ValueError(f"Momentum and Adam move particles; got {type(mu).__name__}.")
    d = mu.points.shape[-1] // parts
    return eqx.tree_at(lambda m: (m.space, m.points), mu, (Euclidean(d), mu.points[..., :d]))


def langevin(inverse_temperature: Number, level: Number = 1.0) -> Langevin:
    """The noise of mean-field Langevin training, `sqrt(4 xi / beta) dW`, for a constant profile at a level.

    The law then descends the free energy `R + Ent / beta`.
    """
    checks.positive("inverse_temperature", inverse_temperature)
    return Langevin(FACTOR * checks.floating(level) / checks.floating(inverse_temperature))


def sgd(
    source: Source,
    mu: Particles,
    step: float,
    steps: int,
    *,
    key: RandomKey,
    batch: int = 1,
    every: int = 1,
    profile: AbstractProfile | None = None,
    penalty: AbstractEnergy | None = None,
) -> Trajectory[Particles]:
    """Stochastic gradient descent, `theta <- theta - 2 eps xi(k eps) G`, with a frame every few steps.

    One batch is shared by all heads in a step, and the gradient has no factor `1/N`. A step beyond the stability limit of
    the start is refused, where the data are finite.
    """
    if steps < 1 or every < 1 or steps % every:
        raise ValueError(f"`steps` must be a positive multiple of `every`; got {steps} and {every}.")
    profile = Constant() if profile is None else profile
    field = StochasticDescent(source, key, step, batch, profile, penalty)
    if isinstance(source, AbstractEnergy):
        check_step(Descent(source if penalty is None else source + penalty, profile), mu, step)
    times = np.arange(0, steps + 1, every) * float(field.step)
    return evolve(field, mu, times, Euler(field.step))


def check_step(field: Descent | HeavyBall, mu: Particles, step: float, t: float = 0.0) -> None:
    """Refuse a step beyond the stability limit of the explicit method."""
    limit = step_limit(field, mu, t)
    if step > limit:
        raise ValueError(
            f"`step` {step:.4g} is beyond the stability limit {limit:.4g} of explicit descent at t = {t:.4g}; "
            "take a shorter step, or integrate the flow with `Adaptive()`."
        )


def step_limit(field: Descent | HeavyBall, mu: Particles, t: float = 0.0) -> float:
    """The longest stable step of the Euler method, from the largest curvature `k = 2 xi lambda` of the risk of the heads.

    `2/k` for descent. With friction `g` the modes are the roots of `z^2 + g z + k`: the limit is `g/k` where they oscillate,
    and `2/|z|` for the faster one where they do not.
    """
    if isinstance(field, Descent):
        return 2 / _curvature(field, mu, t)
    if not isinstance(field.field, Descent):
        raise TypeError(f"`field` must have a descent of known curvature; got {type(field.field).__name__}.")
    k, half = _curvature(field.field, marginal(mu, 2), t), float(field.friction) / 2
    return 2 * half / k if half**2 < k else 2 / (half + (half**2 - k) ** 0.5)


def _curvature(field: Descent, mu: Particles, t: float) -> float:
    return max(float(field.speed(t)) * stiffness(field.energy, mu), float(np.finfo(float).tiny))


def stiffness(energy: AbstractEnergy, mu: Particles, iterations: int = 30) -> float:
    """The largest eigenvalue of the Hessian of `N R_N`, by Lanczos with Hessian-vector products.

    For weights `w_i` it is that of `h -> d/ds grad Psi(theta_i + s h_i; mu_s)`, self-adjoint in the weighted product.
    """
    return float(_stiffness(energy, mu, iterations))


@eqx.filter_jit
def _stiffness(energy: AbstractEnergy, mu: Particles, iterations: int) -> Float[Array, ""]:
    root = jnp.sqrt(mu.weights)[:, None]

    def descent(points):
        return -GradientFlow(energy)(0.0, points, eqx.tree_at(lambda m: m.points, mu, points))

    def curvature(h):
        return root * jax.jvp(descent, (mu.points,), (h / root,))[1]

    start = jax.random.normal(jax.random.key(0), mu.points.shape, mu.points.dtype)
    alphas, betas = lanczos(curvature, start, min(iterations, mu.points.size))
    return jnp.linalg.eigvalsh(jnp.diag(alphas) + jnp.diag(betas, 1) + jnp.diag(betas, -1))[-1]


def lanczos(operator, start: Float[Array, "*s"], iterations: int) -> tuple[Float[Array, " k"], Float[Array, " l"]]:
    """The tridiagonal matrix of a symmetric operator in a Krylov space, with full reorthogonalisation."""
    tiny = jnp.finfo(start.dtype).eps

    def step(carry, k):
        basis, q, q_old, beta = carry
        basis = basis.at[k].set(q.ravel())
        w = operator(q) - beta * q_old
        alpha = jnp.vdot(q, w)
        w = (w - alpha * q).ravel()
        for _ in range(2):  # twice is enough
            w = w - basis.T @ (basis @ w)
        length = jnp.linalg.norm(w)
        # An invariant space is reached: the rest of the matrix is zero and adds no eigenvalue above the largest.
        new = jnp.where(length > 100 * tiny * jnp.abs(alpha), w / jnp.where(length > 0, length, 1.0), 0.0)
        return (basis, new.reshape(q.shape), q, jnp.where(length > 100 * tiny * jnp.abs(alpha), length, 0.0)), (
            alpha,
            length,
        )

    q = start / jnp.linalg.norm(start.ravel())
    basis = jnp.zeros((iterations, start.size), start.dtype)
    carry = (basis, q, jnp.zeros_like(q), jnp.zeros((), start.dtype))
    _, (alphas, betas) = jax.lax.scan(step, carry, jnp.arange(iterations))
    return alphas, betas[:-1]


keep_all(globals())
