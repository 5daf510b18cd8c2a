"""How well samples estimate a distance, and what to make of the estimate.

Empirical measures approach their law at the rate `n^{-1/d}` in high dimension `d`, because tokens must fill space; below
`d = 2p` at `n^{-1/2p}` at worst. The distance of two samples is therefore too large, by a bias that goes at this rate, and
fluctuates by much less, `n^{-1/2}` in every dimension. Subsamples show both: smaller samples have a larger bias of the
same law, and disjoint ones fluctuate independently.
"""

import math
from typing import NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, PRNGKeyArray, Real
from scipy.stats import t as student

from measureflow.annotations import RandomKey
from measureflow.measures import AbstractMeasure, Particles
from measureflow.measures.cloud import as_key
from measureflow.precision import keep_all
from measureflow.transport.distances import wasserstein
from measureflow.transport.pairs import Order, comparable, order

SHARES = (16, 8, 4, 2)
"""Subsamples are these parts of the sample, and there are as many disjoint ones of each."""


def empirical_rate(n: Real[ArrayLike, "*s"], dim: float | int, p: Order = 2) -> Float[ArrayLike, "*s"]:
    """The rate of `E W_p(mu_n, mu)` for laws of bounded support and intrinsic dimension `dim`, at worst.

    `n^{-1/2p}` for `dim < 2p`, `n^{-1/2p} (log n)^{1/p}` for `dim = 2p`, `n^{-1/dim}` above (fournier:15). Two separate pieces
    of equal mass already have the first. Laws with a density bounded below on a connected set do better up to
    `dim = 2p`: on a cube `n^{-1/2}` for `dim = 1` and `(log n / n)^{1/2}` for `dim = 2`, whatever `p`.
    """
    order(p)
    if dim <= 0:
        raise ValueError(f"`dim` must be positive; got {dim:g}. A finite set has the rate of any dimension below 2p.")
    n = np.asarray(n, float)
    if dim > 2 * p:
        return n ** (-1 / dim)
    return n ** (-1 / (2 * p)) * (np.log(n) ** (1 / p) if dim == 2 * p else 1.0)


class Estimate(NamedTuple):
    """The distance of two samples, and the interval in which that of their laws lies.

    `bias` and `deviation` are those of the cost, the p-th power of the distance.
    """

    distance: float
    low: float
    high: float
    bias: float
    deviation: float


def estimate(
    mu: AbstractMeasure,
    nu: AbstractMeasure,
    p: Order = 2,
    *,
    dim: float | int | None = None,
    confidence: float = 0.95,
    key: RandomKey = 0,
) -> Estimate:
    """The distance `W_p` of the laws behind two samples, with an error bar from subsamples that knows the rate.

    The cost of subsamples of size `b` is fitted by `W_p^p + C empirical_rate(b)^p`. With the rate at its worst this gives the
    largest bias that the sample may have, by which the interval reaches down; to both sides it reaches by the deviation
    of disjoint subsamples times `(b / n)^{1/2}`. `dim` is the intrinsic dimension of the laws, by default that of the space.
    """
    mu, nu = comparable(mu, nu, p)
    n = _size(mu, nu)
    if not 0 < confidence < 1:
        raise ValueError(f"`confidence` must lie between 0 and 1; got {confidence:g}.")
    dim = mu.space.intrinsic_dim if dim is None else dim
    parts = [_disjoint(mu, nu, p, share, key) for share in SHARES]
    cost = float(wasserstein(mu, nu, p)) ** p
    rates = np.asarray(empirical_rate(np.array([n // share for share in SHARES] + [n]), dim, p)) ** p
    slope = np.polyfit(rates, [*(part.mean() for part in parts), cost], 1)[0]
    bias = max(float(slope * rates[-1]), 0.0)
    deviation = float(parts[0].std(ddof=1)) / math.sqrt(SHARES[0])
    reach = float(student.ppf((1 + confidence) / 2, SHARES[0] - 1)) * deviation
    distance, low, high = (max(c, 0.0) ** (1 / p) for c in (cost, cost - bias - reach, cost + reach))
    return Estimate(distance, low, high, bias, deviation)


def _size(mu: Particles, nu: Particles) -> int:
    for name, measure in (("mu", mu), ("nu", nu)):
        spread = np.ptp(np.asarray(measure.log_weights))
        if spread > 1e-5:
            raise ValueError(
                f"`{name}` has unequal weights, but an error bar needs samples: independent points of equal weight."
            )
    n = min(len(mu.points), len(nu.points))
    if n < 8 * SHARES[0]:
        raise ValueError(
            f"`mu` and `nu` need at least {8 * SHARES[0]} points for an error bar by subsampling; got {n}."
        )
    return n


def _disjoint(mu: Particles, nu: Particles, p: Order, share: int, key: RandomKey) -> np.ndarray:
    """The costs between disjoint subsamples, each a given part of the sample."""
    keys = jax.random.split(as_key(key))
    blocks = [_blocks(measure, share, k) for measure, k in zip((mu, nu), keys, strict=True)]
    return np.array([float(wasserstein(x, y, p)) ** p for x, y in zip(*blocks, strict=True)])


def _blocks(mu: Particles, share: int, key: PRNGKeyArray) -> list[Particles]:
    size = len(mu.points) // share
    # On the host, where a slice is not a program of its own.
    mixed = np.asarray(jax.random.permutation(key, mu.points))
    return [Particles(mu.space, mixed[i * size : (i + 1) * size]) for i in range(share)]


keep_all(globals())
