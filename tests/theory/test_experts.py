import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from measureflow.theory.experts import bits, error_floor, least_dimension, router_dimension, subsets


def chosen(router, active):
    """The sets of experts that some input chooses, by a linear program for each."""
    found = set()
    for inside in itertools.combinations(range(len(router)), active):
        outside = [j for j in range(len(router)) if j not in inside]
        gaps = np.array([router[j] - router[i] for i in inside for j in outside])
        if linprog(np.zeros(router.shape[1]), A_ub=gaps, b_ub=-np.ones(len(gaps)), bounds=(None, None)).status == 0:
            found.add(inside)
    return found


def test_bits_are_logarithms_of_binomials_also_where_these_overflow():
    pairs = [(8, 1), (16, 2), (32, 4), (64, 8), (256, 8), (5000, 2500)]
    exact = [math.log2(math.comb(m, k)) for m, k in pairs]
    np.testing.assert_allclose(bits(*np.array(pairs).T), exact, rtol=1e-12)
    np.testing.assert_allclose(bits(10, np.array([0, 10])), 0.0, atol=1e-13)


def test_the_error_floor_is_attained_by_a_simplex_and_undercut_by_nobody():
    rng = np.random.default_rng(0)
    for points, tight in ((np.eye(6), True), (rng.normal(size=(6, 2)), False)):
        apart = min(np.linalg.norm(a - b) for a, b in itertools.combinations(points, 2))
        for count in range(1, 8):
            labels = np.array(list(itertools.product(range(min(count, 6)), repeat=6)))  # all clusterings, of 6 points
            hit = (labels[:, None] == np.arange(min(count, 6))[None, :, None]).astype(float)
            spread = (points**2).sum() - ((hit @ points) ** 2 / np.maximum(hit.sum(-1, keepdims=True), 1)).sum((1, 2))
            best, floor = spread.min() / 6, float(error_floor(count, 6, apart))
            assert best >= floor - 1e-12
            assert not tight or best == pytest.approx(floor, abs=1e-12)
    assert float(error_floor(3, 6, 2.0)) == 1.0


def test_orders_of_scores_in_the_plane_attain_the_bound():
    """Between the lines on which two scores are equal the order is one, so the directions in the middle find them all."""
    router = np.random.default_rng(1).normal(size=(6, 2))
    gaps = np.array([a - b for a, b in itertools.combinations(router, 2)])
    lines = np.sort(np.mod(np.arctan2(gaps[:, 0], -gaps[:, 1])[:, None] + np.array([0.0, np.pi]), 2 * np.pi).ravel())
    middle = (lines + np.append(lines[1:], lines[0] + 2 * np.pi)) / 2
    orders = np.argsort(-(np.stack([np.cos(middle), np.sin(middle)], 1) @ router.T), axis=1)
    assert len(np.unique(orders, axis=0)) == 30 == subsets(6, 1, 2) * 5  # m (m - 1) orders, of which one expert sees m
    assert subsets(20, 10, 2) == 2 * math.comb(20, 2)
    for k in (1, 2, 3):
        seen = {tuple(sorted(order[:k])) for order in orders}
        assert seen == chosen(router, k)
        assert len(seen) <= subsets(6, k, 2)


def test_the_bound_holds_for_all_sets_and_is_never_above_their_number():
    rng = np.random.default_rng(2)
    for m, k, d in ((5, 2, 1), (6, 3, 2), (6, 2, 3)):
        assert len(chosen(rng.normal(size=(m, d)), k)) <= subsets(m, k, d) <= math.comb(m, k)
    assert [subsets(16, 4, d) for d in (1, 2, 3)] == [2, 240, 1820]
    assert subsets(1, 1, 3) == 1
    assert subsets(2, 1, 5) == 2
    assert subsets(9, 4, 100) == math.comb(9, 4)


def test_the_moment_curve_in_the_least_dimension_chooses_every_set_and_nothing_does_below():
    m, k = 7, 2
    at, waves = 2 * np.pi * np.arange(m) / m, np.arange(1, k + 1)
    curve = np.concatenate([np.cos(at[:, None] * waves), np.sin(at[:, None] * waves)], 1)
    assert curve.shape[1] == least_dimension(k) == 4
    assert len(chosen(curve, k)) == math.comb(m, k)
    rng = np.random.default_rng(3)
    below = [curve[:, :3], *rng.normal(size=(4, m, 3))]
    assert all(len(chosen(router, k)) < math.comb(m, k) for router in below)


def test_the_rule_of_thumb_for_routers():
    np.testing.assert_allclose(router_dimension(np.array([16, 64]), np.array([4, 8])), [16.0, 48.0], rtol=1e-14)
