"""How aligned a cloud is: pairs that have met, the mean overlap, and tokens that all meet at one overlap."""

import jax
import numpy as np
import pytest

import measureflow as mf
from measureflow.diagnostics import mean_overlap, share_of_met_pairs
from measureflow.theory import equiangular
from measureflow.words import initial_laws as laws


@pytest.mark.parametrize("dim", [2, 3, 9])
def test_pairs_are_counted_as_by_hand(dim):
    points = np.random.default_rng(dim).normal(size=(40, dim))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[5:9] = points[4]  # five together: 20 ordered pairs
    mu = mf.Particles(mf.Sphere(dim), points)
    scores = points @ points.T - 2 * np.eye(40)
    counted = np.count_nonzero(scores > 0.9)
    assert float(jax.jit(share_of_met_pairs, static_argnums=1)(mu, 0.9)) == counted / (40 * 39)
    assert counted >= 20
    away = scores[~np.eye(40, dtype=bool)]
    # Sums of 1600 numbers of size one.
    assert float(jax.jit(mean_overlap)(mu)) == pytest.approx(away.mean(), abs=1e-13)


def test_two_of_three_that_have_met_are_a_third_of_the_pairs():
    mu = mf.Particles(mf.Sphere(2), [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert float(share_of_met_pairs(mu)) == pytest.approx(1 / 3, abs=1e-15)
    assert float(mean_overlap(mu)) == pytest.approx(1 / 3, abs=1e-15)


@pytest.mark.parametrize(("n", "dim"), [(2, 2), (5, 9), (16, 16)])
def test_equiangular_tokens_have_one_overlap_and_unit_length(n, dim):
    points = np.asarray(laws.Equiangular().points(mf.Sphere(dim), n, jax.random.key(0)))
    np.testing.assert_allclose(points @ points.T, 0.5 + 0.5 * np.eye(n), atol=1e-14)


def test_equiangular_tokens_follow_the_closed_form(tmp_path):
    run = mf.runs.run(
        "simulate",
        out=str(tmp_path / "run"),
        init="equiangular",
        n=6,
        dim=6,
        beta=3.0,
        time=2.0,
        frames=5,
        series=["overlap"],
    )
    law = equiangular.overlap(run.times, 6, 3.0, 0.5)
    # The tolerance of the solver, 1e-8 a step, over some twenty steps.
    np.testing.assert_allclose(run.series["overlap"].values, law, atol=1e-7)
