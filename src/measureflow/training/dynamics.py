"""How particles move in training: gradient flow, descent on samples, momentum and Adam, all as fields of the library.

In physical time `t = k eps` the descent `theta <- theta - 2 eps xi(t) grad Psi(theta; mu)` is the Euler method of the
field `Descent`, and one-sample descent that of `StochasticDescent`, whose sample depends on the step alone: so `evolve`,
legs and run folders work for training, and a run resumes to the same bits.

An optimiser (`AbstractOptimiser`) is a field that moves particles along a descent. Momentum and Adam remember a velocity or
averages of each particle: these are further coordinates, so that such optimisers move points of a larger space.
"""

import abc
from typing import ClassVar, Protocol, final, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from measureflow import checks
from measureflow.annotations import Number, RandomKey
from measureflow.energies import AbstractEnergy, GradientFlow
from measureflow.fields import AbstractField
from measureflow.flows import Euler, Langevin, Trajectory, evolve
from measureflow.measures import AbstractMeasure, Gaussian, Particles
from measureflow.measures.cloud import as_key
from measureflow.precision import keep_all
from measureflow.spaces import Euclidean
from measureflow.training.curvature import stiffness
from measureflow.training.profiles import AbstractProfile, Constant

FACTOR = 2.0
"""The factor in front of the gradient, a convention of the mean-field literature."""


class AbstractOptimiser(AbstractField):
    """A field that trains: it moves particles, and what it remembers of each of them, along the descent of an energy.

    `vectors` is the number of vectors that a particle holds: its parameters and, for instance, a velocity. They lie one after
    the other in the coordinates of a point.
    """

    vectors: ClassVar[int] = 1

    @property
    @abc.abstractmethod
    def descent(self) -> "Descent":
        """The descent along which particles move."""

    @abc.abstractmethod
    def along(self, descent: AbstractField) -> AbstractField:
        """The same optimiser along another descent, such as one on samples."""

    def step_limit(self, mu: Particles, t: float = 0.0) -> float:
        """The longest stable step of the Euler method at a measure; infinite unless an optimiser knows one."""
        return float("inf")

    def check_step(self, mu: Particles, step: float, t: float = 0.0) -> None:
        """Refuse a step beyond the stability limit of the explicit method."""
        limit = self.step_limit(mu, t)
        if step > limit:
            raise ValueError(
                f"`step` {step:.4g} is beyond the stability limit {limit:.4g} of explicit descent at t = {t:.4g}; "
                "take a shorter step, or integrate the flow with `Adaptive()`."
            )

    def start(self, mu: Particles) -> Particles:
        """Particles with all vectors that the optimiser needs; those beyond the parameters are zero."""
        n, d = mu.points.shape
        if self.vectors == 1:
            return mu
        points = jnp.concatenate([mu.points, jnp.zeros((n, (self.vectors - 1) * d), mu.points.dtype)], axis=-1)
        return eqx.tree_at(lambda m: (m.space, m.points), mu, (Euclidean(self.vectors * d), points))

    def particles(self, mu: AbstractMeasure) -> Particles:
        """The law of the parameters alone, from one of particles with all their vectors."""
        if not isinstance(mu, Particles):
            raise ValueError(f"Optimisers move particles; got {type(mu).__name__}.")
        if self.vectors == 1:
            return mu
        d = mu.points.shape[-1] // self.vectors
        return eqx.tree_at(lambda m: (m.space, m.points), mu, (Euclidean(d), mu.points[..., :d]))


@final
class Descent(AbstractOptimiser):
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

    @property
    def descent(self) -> "Descent":
        """The field itself."""
        return self

    def along(self, descent: AbstractField) -> AbstractField:
        """The other descent itself, since nothing is remembered."""
        return descent

    def speed(self, t: Number) -> Float[Array, ""]:
        """The factor in front of the gradient at a time."""
        rate = self.profile(t)
        return self.factor.astype(rate.dtype) * rate

    def curvature(self, mu: Particles, t: float) -> float:
        """The largest curvature of what particles descend, `2 xi(t) lambda`."""
        return max(float(self.speed(t)) * stiffness(self.energy, mu), float(np.finfo(float).tiny))

    def step_limit(self, mu: Particles, t: float = 0.0) -> float:
        """Two over the largest curvature."""
        return 2 / self.curvature(mu, t)


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


class AbstractTransformation(AbstractOptimiser):
    """An optimiser that transforms a descent, and may remember further vectors of each particle: `rates` is its formula.

    A class of one's own has the descent as its first field, `field: AbstractField`, and says how many `vectors` there are.
    """

    field: eqx.AbstractVar[AbstractField]

    @abc.abstractmethod
    def rates(self, g: Float[Array, "m d"], *vectors: Float[Array, "m d"]) -> tuple[Float[Array, "m d"], ...]:
        """The rates of change of the parameters and of each further vector, given the descent `g` and all of them."""

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The rates of all vectors of a batch of particles."""
        vectors = jnp.split(xs, self.vectors, axis=-1)
        return jnp.concatenate(self.rates(self.field(t, vectors[0], self.particles(mu)), *vectors), axis=-1)

    @property
    def descent(self) -> Descent:
        """The descent within."""
        if not isinstance(self.field, Descent):
            raise TypeError(f"`field` must be a `Descent`, whose energy is known; got {type(self.field).__name__}.")
        return self.field

    def along(self, descent: AbstractField) -> AbstractField:
        """The same with another descent within."""
        return eqx.tree_at(lambda optimiser: optimiser.field, self, descent)


@final
class HeavyBall(AbstractTransformation):
    """Momentum: particles with velocities, `theta' = v`, `v' = g - friction v`, for a descent `g`.

    The risk plus `∫ |v|^2 dmu / (2 speed)` falls at the rate of the friction.
    """

    vectors: ClassVar[int] = 2
    field: AbstractField
    friction: Float[Array, ""] = eqx.field(converter=checks.floating)

    def rates(self, g: Float[Array, "m d"], *vectors: Float[Array, "m d"]) -> tuple[Float[Array, "m d"], ...]:
        """The velocities, and what changes them."""
        _, v = vectors
        return v, g - self.friction.astype(v.dtype) * v

    def step_limit(self, mu: Particles, t: float = 0.0) -> float:
        """From the modes `z^2 + friction z + k`, with the largest curvature `k`.

        The limit is `friction / k` where they oscillate, and `2 / |z|` for the faster one where they do not.
        """
        root, half = self.descent.curvature(self.particles(mu), t) ** 0.5, float(self.friction) / 2
        return 2 * half / root**2 if half < root else 2 / (half + (half - root) ** 0.5 * (half + root) ** 0.5)


@final
class Adam(AbstractTransformation):
    """Adam in continuous time: averages `m' = (g - m) / memory`, `s' = (g^2 - s) / memory_squares`, and the motion
    `theta' = m / (sqrt(s) + epsilon)`, for a descent `g`.

    The gradient is that of the mean-field risk, `N` times the one of a particle, so that `epsilon` means the same for every
    number of particles. Averages start from zero without a correction of their bias.
    """

    vectors: ClassVar[int] = 3
    field: AbstractField
    memory: Float[Array, ""] = eqx.field(converter=checks.floating)
    memory_squares: Float[Array, ""] = eqx.field(converter=checks.floating)
    epsilon: Float[Array, ""] = eqx.field(converter=checks.floating, default=1e-8)

    @classmethod
    def over(cls, field: AbstractField, memory: float) -> "Adam":
        """Gradients are averaged over a time, and their squares over ten times that."""
        return cls(field, memory, 10 * memory)

    def rates(self, g: Float[Array, "m d"], *vectors: Float[Array, "m d"]) -> tuple[Float[Array, "m d"], ...]:
        """The motion of particles and of both averages."""
        _, m, s = vectors
        tau, tau2, e = (c.astype(g.dtype) for c in (self.memory, self.memory_squares, self.epsilon))
        # Squares are averaged by exact arithmetic but may round below zero.
        return m / (jnp.sqrt(jnp.maximum(s, 0.0)) + e), (g - m) / tau, (g**2 - s) / tau2


def langevin(beta: Number, level: Number = 1.0) -> Langevin:
    """The noise of mean-field Langevin training at an inverse temperature, `sqrt(4 xi / beta) dW`, for a constant profile.

    The law then descends the free energy `R + Ent / beta`.
    """
    checks.positive("beta", beta)
    return Langevin(FACTOR * checks.floating(level) / checks.floating(beta))


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
        Descent(source if penalty is None else source + penalty, profile).check_step(mu, step)
    times = np.arange(0, steps + 1, every) * float(field.step)
    return evolve(field, mu, times, Euler(field.step))


keep_all(globals())
