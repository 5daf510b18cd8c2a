"""Propagation of chaos: how fast n tokens drawn from a law approach the flow of the law itself.

The limit is the flow of a measure that needs no tokens (a density, a Gaussian); the tokens are samples of its start, moved
by the same field. Their distance falls like a power of n, for averages of smooth functions like `n^{-1/2}`. The power is
fitted in every run on its own, so that the scatter of the runs gives an interval of confidence.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from measureflow import checks
from measureflow.annotations import Numbers, RandomKey
from measureflow.fields import AbstractField
from measureflow.flows import AbstractNoise, AbstractSolver, Outcome, evolve
from measureflow.measures import AbstractMeasure, AbstractSampled
from measureflow.measures.cloud import as_key
from measureflow.precision import keep_all

Distance = Callable[[AbstractMeasure, AbstractMeasure], Float[Array, ""]]


class ChaosRate(NamedTuple):
    """How the distance to the limit falls with the number of tokens: like `n^{-rate}`."""

    ns: np.ndarray
    """The numbers of tokens."""
    errors: np.ndarray
    """The distances at the last time, `(runs, numbers)`."""
    rate: float
    """The exponent, the mean of those of the runs."""
    interval: tuple[float, float]
    """Where the exponent lies with the confidence asked for."""

    @property
    def rms(self) -> np.ndarray:
        """The root mean square distance for each number of tokens."""
        return np.sqrt((self.errors**2).mean(0))


def moment_distance(mu: AbstractMeasure, nu: AbstractMeasure) -> Float[Array, ""]:
    """How far two measures are apart in their means and second moments: `sqrt(|Δ∫x|² + |Δ∫xx^T|²)`."""
    first = mu.expect(lambda x: x) - nu.expect(lambda x: x)
    second = mu.expect(lambda x: jnp.outer(x, x)) - nu.expect(lambda x: jnp.outer(x, x))
    return jnp.sqrt((first**2).sum() + (second**2).sum())


def chaos_rate(
    field: AbstractField,
    law: AbstractMeasure,
    ns: Sequence[int],
    times: Numbers = (0.0, 1.0),
    solver: AbstractSolver | None = None,
    *,
    runs: int = 16,
    key: RandomKey = 0,
    noise: AbstractNoise | None = None,
    distance: Distance = moment_distance,
    confidence: float = 0.95,
) -> ChaosRate:
    """Compare systems of n tokens with the flow of their law, at the last of the times.

    `solver` and `noise` are those of the tokens; the limit has the same noise and is always solved adaptively. `distance`
    takes tokens and limit. For example `chaos_rate(SoftmaxAttention.isotropic(2, 1.0), density, [100, 400, 1600])` has a
    rate near 1/2.
    """
    if not isinstance(law, AbstractSampled):
        raise TypeError(
            f"`law` must be a measure that tokens can be drawn from, such as `CircleDensity`; got {type(law).__name__}."
        )
    _check(ns, runs, confidence)
    limit = evolve(field, law, times, noise=noise)
    _arrived(limit.outcome, law)

    @eqx.filter_jit
    def errors(n: int, keys: Key[Array, " runs"]) -> tuple[Float[Array, " runs"], Outcome]:
        def one(key):
            draw, kick = jax.random.split(key)
            tokens = law.sample(n, key=draw)
            path = evolve(field, tokens, times, solver, noise=noise, key=kick)
            return distance(path.final, limit.final), path.outcome

        return jax.lax.map(one, keys)  # one after the other: clouds may be large

    columns = []
    for n, keys in zip(ns, jax.random.split(as_key(key), (len(ns), runs)), strict=True):
        column, outcomes = errors(n, keys)
        _arrived(outcomes, law)
        columns.append(np.asarray(column))
    table = np.stack(columns, axis=1)
    rate, margin = fitted_rate(np.asarray(ns), table, confidence)
    return ChaosRate(np.asarray(ns), table, rate, (rate - margin, rate + margin))


def fitted_rate(ns: np.ndarray, errors: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """The exponent of `errors ~ n^{-rate}` and half the width of its interval, by least squares in every run."""
    if not (errors > 0).all():
        raise ValueError("`errors` vanish in some runs, so they have no power of n; take another `distance`.")
    x = np.log(ns) - np.log(ns).mean()
    rates = -(np.log(errors) @ x) / (x @ x)
    runs = len(rates)
    from scipy.stats import t as student  # it takes half a second to load

    margin = student.ppf((1 + confidence) / 2, runs - 1) * rates.std(ddof=1) / np.sqrt(runs)
    return float(rates.mean()), float(margin)


def _arrived(outcome: Outcome, law: AbstractMeasure) -> None:
    if not np.all(outcome.ok):
        raise ValueError(f"A flow of {type(law).__name__} or its tokens did not reach the last of `times`: {outcome}")


def _check(ns: Sequence[int], runs: int, confidence: float) -> None:
    if len(ns) < 2:
        raise ValueError(f"`ns` needs at least two numbers of tokens to fit a rate; got {list(ns)}.")
    checks.increasing("ns", np.asarray(ns, float))
    if ns[0] < 1:
        raise ValueError(f"`ns` must count at least one token; got {ns[0]}.")
    if runs < 2:
        raise ValueError(f"`runs` must be at least 2 to know how far they scatter; got {runs}.")
    if not 0 < confidence < 1:
        raise ValueError(f"`confidence` must lie between 0 and 1; got {confidence:g}.")


keep_all(globals())
