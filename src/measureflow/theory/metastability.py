"""Clusters that wait: how long they last, when two of them meet and where, and the staircase of the energy.

Two clusters on the circle at an angle `p`, with masses `w1` and `w2`, see each other through `e = e^{-beta (1 - cos p)}`. A model
of attention gives their speeds towards each other, divided by `e sin p`: pass `model=softmax` (SA, the default) or
`model=unnormalised` (USA, with the kernel `e^{beta (<x, y> - 1)}`). Masses add up to one.
Reference: koubbi:24 (arXiv 2410.06833) for the window of time; merge times and places are derived from the equation.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from typing_extensions import TypeAliasType

from measureflow.annotations import Numbers, Values

Model = TypeAliasType("Model", Callable[[Values, Values, Values], tuple[Values, Values]])


def softmax(first: Values, second: Values, e: Values) -> tuple[Values, Values]:
    """Speeds of two clusters under softmax attention: `w2 / (w1 + w2 e)` and `w1 / (w2 + w1 e)`."""
    return second / (first + second * e), first / (second + first * e)


def unnormalised(first: Values, second: Values, e: Values) -> tuple[Values, Values]:
    """Speeds of two clusters under unnormalised attention: `w2` and `w1`."""
    return second + 0 * e, first + 0 * e


def closing_speed(angle: Numbers, beta: Numbers, first: Numbers, second: Numbers, *, model: Model = softmax) -> Values:
    """How fast the angle between two clusters shrinks: `-p' = e sin p` times the sum of both speeds."""
    angle, beta, first, second = _floats(angle, beta, first, second)
    e = jnp.exp(-beta * (1 - jnp.cos(angle)))
    return e * jnp.sin(angle) * sum(model(first, second, e))


def merge_time(angle: Numbers, beta: Numbers, first: Numbers, second: Numbers, *, model: Model = softmax) -> Values:
    """The time in which two clusters meet, by Laplace's method: `e^{beta (1 - cos p)} / (beta kappa sin(p)^2)`.

    `kappa` is `w2/w1 + w1/w2` for softmax, and the mass of both unnormalised. Off by a part of order `1/beta`: 5% for masses .3
    and .7 at an angle of 1.2 and `beta` 20. For angles between 0 and pi.
    """
    angle, beta, first, second = _floats(angle, beta, first, second)
    kappa = sum(model(first, second, jnp.zeros_like(first)))
    return jnp.exp(beta * (1 - jnp.cos(angle))) / (beta * kappa * jnp.sin(angle) ** 2)


def merge_place(start: Numbers, end: Numbers, first: Numbers, second: Numbers, *, model: Model = softmax) -> Values:
    """Where two clusters at given angles meet: weighted by squared masses for softmax, by masses unnormalised.

    Heavy clusters hardly move under softmax, `w2/w1` against `w1/w2`: masses .3 and .7 meet at 0.84 of the way to the heavy one.
    Exact unnormalised, and up to a part of order `beta^{-1/2}` for softmax.
    """
    start, end, first, second = _floats(start, end, first, second)
    one, other = model(first, second, jnp.zeros_like(first))
    return start + (end - start) * one / (one + other)


class Staircase(NamedTuple):
    """The energy over `s = log(t) / beta`: it has the `levels` between the `jumps`, whose `limits` are those for large `beta`."""

    levels: np.ndarray
    jumps: np.ndarray
    limits: np.ndarray


def staircase(
    angles: np.ndarray, beta: float, masses: np.ndarray | None = None, *, model: Model = softmax
) -> Staircase:
    """The staircase of `sum_ij w_i w_j e^{beta (<x_i, x_j> - 1)}` for clusters on the circle, by mergers of the closest pair.

    A pair at distance `d` meets at `s = 1 - cos d - log(beta kappa sin(d)^2) / beta`, or at the time of the merger before if that
    is later. Clusters may not be farther apart than a quarter of a turn where they meet, or the last ones wait for ever.
    """
    places = np.sort(np.asarray(angles, float))
    weights = np.full(len(places), 1 / len(places)) if masses is None else np.asarray(masses, float)[np.argsort(angles)]
    levels, jumps, limits = [float(np.sum(weights**2))], [], []
    while len(places) > 1:
        gaps = np.diff(places, append=places[0] + 2 * np.pi)
        i = int(np.argmin(gaps))
        j, d, pair = (i + 1) % len(places), gaps[i], (weights[i], weights[(i + 1) % len(places)])
        time = float(jnp.log(merge_time(d, beta, *pair, model=model))) / beta
        jumps.append(max([time, *jumps[-1:]]))
        limits.append(max([1 - np.cos(d), *limits[-1:]]))
        places[i] = float(merge_place(places[i], places[i] + d, *pair, model=model))
        weights[i] = sum(pair)
        places, weights = np.delete(places, j), np.delete(weights, j)
        levels.append(float(np.sum(weights**2)))
    return Staircase(np.array(levels), np.array(jumps), np.array(limits))


def separation(alpha: Numbers, n: Numbers, beta: Numbers, eps: Numbers) -> Values:
    """The margin `1 - alpha - 8 eps - log(2 n^2 / eps) / beta`; caps of tokens are separated where it is positive.

    `alpha` is the largest overlap of points of two caps `<x, w> >= 1 - 2 eps` (koubbi:24).
    """
    alpha, n, beta, eps = _floats(alpha, n, beta, eps)
    return 1 - alpha - 8 * eps - jnp.log(2 * n**2 / eps) / beta


def gathering_time(n: Numbers, beta: Numbers, eps: Numbers, strength: Numbers = 1.0) -> Values:
    """A time by which separated tokens have gathered, `|x_i - x_j|^2 <= 2 e^{-strength beta}` in each cap, for `beta > 1`.

    `2 n e^{8 eps beta} + e n strength beta^2 / (beta - 1)`; softmax attention (koubbi:24).
    """
    n, beta, eps, strength = _floats(n, beta, eps, strength)
    return 2 * n * jnp.exp(8 * eps * beta) + jnp.e * n * strength * beta**2 / (beta - 1)


def persistence_time(alpha: Numbers, n: Numbers, beta: Numbers, eps: Numbers) -> Values:
    """A time up to which separated tokens stay in caps of twice the size: `(eps / n) e^{(1 - alpha) beta}` (koubbi:24)."""
    alpha, n, beta, eps = _floats(alpha, n, beta, eps)
    return eps / n * jnp.exp((1 - alpha) * beta)


def _floats(*numbers: Numbers) -> list[Values]:
    return jnp.broadcast_arrays(*(jnp.asarray(x, dtype=float) for x in numbers))
