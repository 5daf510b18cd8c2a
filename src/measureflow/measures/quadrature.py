"""Averages over the standard normal law: nodes and weights that are constants of a computation.

In few dimensions a product of Gauss-Hermite rules, which is exact for polynomials of high degree and converges faster
than any power for analytic functions; in more than seven a rule of degree five with `2 d^2 + 1` nodes. No rule is exact for
exponentials, so each has a second opinion: where the two differ, neither is to be believed. Functions of one score get a
rule of their own, which also resolves a kink or a steep rise where the score is zero.
"""

import functools
from collections.abc import Callable

import numpy as np

Rule = Callable[[int], tuple[np.ndarray, np.ndarray]]
"""Nodes `(N, dim)` and weights `(N,)` in a number of dimensions."""
MOST_NODES = 4096
"""The size of a product rule; the number of nodes along each axis follows from it."""
REACH = 10.0
"""Where the normal law is cut: beyond ten standard deviations there is a mass of 1e-23."""


@functools.cache
def normal_rule(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes `(N, dim)` and weights `(N,)` for averages over the standard normal law in `dim` dimensions."""
    per_axis = min(64, int(MOST_NODES ** (1 / dim) + 1e-9))
    return _product(dim, per_axis) if per_axis >= 3 else _degree_five(dim)


@functools.cache
def second_rule(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Another rule for the same averages, to judge `normal_rule` by: a node less on each axis, or others of degree five."""
    per_axis = len(normal_rule(dim)[0]) ** (1 / dim)
    return _product(dim, round(per_axis) - 1) if dim < 7 else _spherical_five(dim)


def _product(dim: int, per_axis: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(per_axis)
    grid = np.stack(np.meshgrid(*[nodes] * dim, indexing="ij"), -1).reshape(-1, dim)
    products = functools.reduce(np.multiply.outer, [weights / weights.sum()] * dim)
    return grid, products.ravel()


def _degree_five(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The centre, `±sqrt(3)` on each axis and in each pair of axes: exact for polynomials of degree five."""
    axes = np.sqrt(3) * np.concatenate([np.eye(dim), -np.eye(dim)])
    i, j = np.triu_indices(dim, 1)
    pairs = np.concatenate([p * axes[i] + q * axes[j] for p in (1, -1) for q in (1, -1)])
    nodes = np.concatenate([np.zeros((1, dim)), axes, pairs])
    sizes = [1, 2 * dim, len(pairs)]
    return nodes, np.repeat([1 + dim * (dim - 7) / 18, (4 - dim) / 18, 1 / 36], sizes)


def _spherical_five(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The centre, and at distance `sqrt(d + 2)` each axis and each diagonal of two axes: exact for degree five as well."""
    axes = np.sqrt(dim + 2) * np.concatenate([np.eye(dim), -np.eye(dim)])
    i, j = np.triu_indices(dim, 1)
    pairs = np.concatenate([(p * axes[i] + q * axes[j]) / np.sqrt(2) for p in (1, -1) for q in (1, -1)])
    nodes = np.concatenate([np.zeros((1, dim)), axes, pairs])
    weights = np.array([2 / (dim + 2), (4 - dim) / (2 * (dim + 2) ** 2), 1 / (dim + 2) ** 2])
    return nodes, np.repeat(weights, [1, 2 * dim, len(pairs)])


@functools.cache
def end_rule(count: int = 128, cut: float = 3.3) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on `[0, 1]` that crowd at both ends doubly exponentially (tanh-sinh).

    A function may be steep or have a kink at an end: a logistic function 1000 times as steep as the normal law is wide
    is averaged to 1e-11.
    """
    t = np.linspace(-cut, cut, count)
    nodes = 1 / (1 + np.exp(-np.pi * np.sinh(t)))
    return nodes, (t[1] - t[0]) * np.pi * np.cosh(t) * nodes * (1 - nodes)
