"""How widely clouds are spread."""

import numpy as np
import pytest
from scipy.optimize import linprog

import measureflow as mf
from measureflow.diagnostics import effective_rank, hemisphere


def cloud(points, weights=None):
    return mf.Particles(mf.Euclidean(np.shape(points)[1]), np.asarray(points, float), weights)


def test_effective_rank_counts_directions():
    for rank in (1, 2, 5):
        np.testing.assert_allclose(effective_rank(cloud(np.eye(5)[:rank])), rank, rtol=1e-12)
    np.testing.assert_allclose(effective_rank(cloud([[1.0, 2.0], [-1.0, -2.0], [2.0, 4.0]])), 1.0, rtol=1e-12)
    p = np.array([0.7, 0.2, 0.1])
    np.testing.assert_allclose(effective_rank(cloud(np.eye(3), p)), np.exp(-(p * np.log(p)).sum()), rtol=1e-12)


def test_effective_rank_is_the_same_from_tokens_and_from_coordinates():
    x = np.random.default_rng(0).normal(size=(4, 9))
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(9, 9)))[0]
    by_svd = np.linalg.svd(x, compute_uv=False) ** 2
    p = by_svd / by_svd.sum()
    for points in (x, x @ turned, np.repeat(x, 4, axis=0)):
        np.testing.assert_allclose(effective_rank(cloud(points)), np.exp(-(p * np.log(p)).sum()), rtol=1e-10)


def test_hemispheres_by_hand():
    found = hemisphere(cloud(np.eye(2)))
    np.testing.assert_allclose(found.margin, np.sqrt(0.5), rtol=1e-12)
    np.testing.assert_allclose(found.pole, np.sqrt([0.5, 0.5]), rtol=1e-12)
    assert hemisphere(cloud([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])).margin <= 1e-9
    angles = 2 * np.pi * np.arange(3) / 3
    assert hemisphere(cloud(np.stack([np.cos(angles), np.sin(angles)], 1))).margin <= 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_a_hemisphere_is_found_exactly_where_linear_programming_finds_one(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(9, 4)) + rng.uniform(0, 1.2)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    # The largest t with <w, x_i> >= t and |w|_1 bounded: positive if and only if a hemisphere holds all.
    system = np.hstack([-rows, np.ones((9, 1))])
    best = -linprog([0, 0, 0, 0, -1], A_ub=system, b_ub=np.zeros(9), bounds=[(-1, 1)] * 4 + [(None, 1)]).fun
    assert (hemisphere(cloud(rows)).margin > 1e-9) == (best > 1e-9)
