"""From descent with finitely many heads to the mean-field flow: the error, taken apart.

Three errors separate stochastic descent of `N` heads from the limit: that of the empirical measure, like `N^{-1/2}`; that
of the time step, like `eps`; and that of the samples, like `sqrt(eps / batch)`, which no number of heads removes because
all heads see one sample. Each is isolated by coupled runs that share their initial heads. Errors are measured on heads,
on the risk and on a fixed test function; distances between laws are not, since they fall only like `N^{-1/D}`.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from scipy.stats import t as student

from measureflow.annotations import Number, RandomKey
from measureflow.flows import AbstractSolver, Euler, Trajectory, evolve
from measureflow.measures import Particles
from measureflow.measures.cloud import as_key
from measureflow.precision import keep_all
from measureflow.training.dynamics import Descent, StochasticDescent
from measureflow.training.families import Theta
from measureflow.training.risk import AbstractRisk


class Errors(NamedTuple):
    """The largest errors over the frames of coupled runs: of the worst head, of heads in the mean square, of the risk and
    of the test function, each averaged over repetitions."""

    worst: Array
    heads: Array
    risk: Array
    test: Array


class Power(NamedTuple):
    """A fitted law `constant x^exponent` with the 95% interval of its exponent."""

    exponent: float
    constant: float
    interval: tuple[float, float]


def power_law(x: np.ndarray, y: np.ndarray) -> Power:
    """A power law through positive points, by least squares in logarithms."""
    if len(x) < 3:
        raise ValueError(f"`x` needs at least three points to fit an exponent with an interval; got {len(x)}.")
    lx, ly = np.log(np.asarray(x, float)), np.log(np.asarray(y, float))
    slope, intercept = np.polyfit(lx, ly, 1)
    residual = ly - slope * lx - intercept
    error = np.sqrt(residual @ residual / (len(lx) - 2) / np.sum((lx - lx.mean()) ** 2))
    half = float(student.ppf(0.975, len(lx) - 2) * error)
    return Power(float(slope), float(np.exp(intercept)), (float(slope) - half, float(slope) + half))


def wave(theta: Theta) -> Float[Array, ""]:
    """The usual test function, `sin(<1, theta> / sqrt(D))`, of Lipschitz constant one."""
    return jnp.sin(jnp.sum(theta) / jnp.sqrt(jnp.asarray(len(theta), theta.dtype)))


def difference(
    field: Descent, one: Trajectory[Particles], other: Trajectory[Particles], test: Callable[[Theta], Array] = wave
) -> Errors:
    """How far two coupled runs are apart, head by head, in risk and in the average of a test function."""
    a, b = one.measures.points, other.measures.points
    squares = jnp.sum((a - b) ** 2, -1)

    def apart(f):
        return jnp.abs(one.map(f) - other.map(f)).max()

    return Errors(
        jnp.sqrt(squares.max()),
        jnp.sqrt(squares.mean(-1).max()),
        apart(field.energy),
        apart(lambda mu: mu.expect(test)),
    )


def empirical_error(
    field: Descent,
    pool: Particles,
    count: int,
    times: np.ndarray,
    solver: AbstractSolver,
    *,
    blocks: int = 32,
    reference: Trajectory[Particles] | None = None,
    test: Callable[[Theta], Array] = wave,
) -> Errors:
    """The error of `count` heads: disjoint blocks of a large pool, each against its own heads in the flow of the pool."""
    whole = evolve(field, pool, times, solver) if reference is None else reference
    paths = whole.measures.points
    blocks = min(blocks, len(pool.points) // count)
    if blocks < 1:
        raise ValueError(f"`count` {count} is more than the {len(pool.points)} heads of the pool.")
    limit = whole.map(lambda mu: (field.energy(mu), mu.expect(test)))

    @eqx.filter_jit
    @jax.vmap
    def run(start, own):
        path = evolve(field, Particles(pool.space, start), times, solver)
        squares = jnp.sum((path.measures.points - own) ** 2, -1)
        values = path.map(lambda mu: (field.energy(mu), mu.expect(test)))
        gaps = [jnp.abs(a - b).max() for a, b in zip(values, limit, strict=True)]
        return Errors(jnp.sqrt(squares.max()), squares.mean(-1).max(), *gaps)

    chosen = paths[:, : blocks * count].reshape(len(times), blocks, count, -1).transpose(1, 0, 2, 3)
    found = run(chosen[:, 0], chosen)
    means = Errors(*(part.mean() for part in found))
    return means._replace(heads=jnp.sqrt(means.heads))


@eqx.filter_jit
def step_error(
    field: Descent,
    mu: Particles,
    step: Number,
    times: Float[ArrayLike, " k"],
    exact: Trajectory[Particles],
) -> Errors:
    """The error of the time step: full descent against the flow, from the same heads."""
    return difference(field, evolve(field, mu, times, Euler(step)), exact)


def sample_error(
    field: Descent,
    mu: Particles,
    step: float,
    times: np.ndarray,
    *,
    seeds: int = 16,
    batch: int = 1,
    key: RandomKey = 0,
) -> Errors:
    """The error of the samples: stochastic against full descent with the same step, averaged over seeds."""
    keys = jax.random.split(as_key(key), seeds)
    return _sampled(field, mu, jnp.asarray(times), jnp.asarray(step), keys, batch)


@eqx.filter_jit
def _sampled(field: Descent, mu: Particles, times, step, keys, batch: int) -> Errors:
    full = evolve(field, mu, times, Euler(step))

    def run(key):
        noisy = StochasticDescent(field.energy, key, step, batch, field.profile, factor=field.factor)
        found = difference(field, evolve(noisy, mu, times, Euler(step)), full)
        return found._replace(heads=found.heads**2)

    means = Errors(*(part.mean() for part in jax.vmap(run)(keys)))
    return means._replace(heads=jnp.sqrt(means.heads))


class ErrorLaw(NamedTuple):
    """The error of training as a function of heads, step, batch and confidence, with the three terms of the theory:

    `(a + a' z) N^{-1/2} + b eps + (c + c' z) sqrt(eps / batch)`, which a run exceeds with probability at most `2 exp(-z^2)`.

    At `z = 0` it is the sum of the mean errors. `a'` and `c'` are the root of two times the largest deviation over the run: by
    as much the largest value of a Gaussian process exceeds its mean with probability `exp(-z^2)`. Two terms are random.
    """

    empirical: float
    step: float
    sample: float
    empirical_spread: float = 0.0
    sample_spread: float = 0.0

    def parts(self, z: float = 0.0) -> tuple[float, float, float]:
        """The constants of the three terms at a confidence."""
        return self.empirical + z * self.empirical_spread, self.step, self.sample + z * self.sample_spread

    def error(self, heads: int, step: float, batch: int = 1, z: float = 0.0) -> float:
        """The sum of the three errors."""
        empirical, length, sample = self.parts(z)
        return empirical / heads**0.5 + length * step + sample * (step / batch) ** 0.5

    def deviation(self, heads: int, step: float, batch: int = 1) -> float:
        """The standard deviation of the error where it is largest, from the two random terms, which are independent."""
        return (0.5 * (self.empirical_spread**2 / heads + self.sample_spread**2 * step / batch)) ** 0.5

    def settings(self, error: float, batch: int = 1, z: float = 0.0) -> tuple[int, float]:
        """How many heads and which step keep the error below a bound, of which each part that there is has the same share."""
        if not error > 0:
            raise ValueError(f"`error` must be positive; got {error}.")
        empirical, length, sample = parts = self.parts(z)
        share = error / sum(part > 0 for part in parts)
        steps = (
            share / length if length else np.inf,
            batch * (share / sample) ** 2 if sample else np.inf,
        )
        return int(np.ceil((empirical / share) ** 2)), min(steps)


def confidence(chance: float) -> float:
    """The `z` at which a run exceeds the bound with at most this probability: `2 exp(-z^2) = chance`."""
    return float(np.sqrt(np.log(2 / chance)))


def error_law(heads: dict[int, float], steps: dict[float, float], samples: dict[float, float]) -> ErrorLaw:
    """The constants of the three laws, from measured errors by number of heads and by step, with the exponents of theory."""

    def constant(measured, exponent):
        x, y = (np.log(np.array(list(side), float)) for side in (measured.keys(), measured.values()))
        return float(np.exp(np.mean(y - exponent * x)))

    return ErrorLaw(constant(heads, -0.5), constant(steps, 1.0), constant(samples, 0.5))


def bias_coefficient(risk: AbstractRisk, mu: Particles) -> Float[Array, ""]:
    """What `N (E R(mu_N) - R(mu))` tends to for `N` heads drawn from `mu`: `E sum_t tr(S(p_t) Cov(phi_t)) / 2`.

    The risk is convex and smooth in the logits, so its bias falls like `1/N`, while it fluctuates like `N^{-1/2}`.
    """
    z = risk.logits(mu)

    def spread(theta):
        d = risk.features(theta) - z
        return jnp.sum(risk.shares * jnp.sum(d * risk.criterion.curved(z, risk.targets, d), -1)) / 2

    return mu.weights @ jax.lax.map(spread, mu.points, batch_size=256)


keep_all(globals())
