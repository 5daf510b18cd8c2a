"""The kind of a rest point, against closed forms."""

import numpy as np
import pytest

import measureflow as mf
from measureflow.diagnostics import index


def on_circle(angles, weights=None):
    return mf.Particles(mf.Sphere(2), np.stack([np.cos(angles), np.sin(angles)], 1), weights)


def test_eigenvalues_of_a_polygon_are_those_of_its_waves():
    q, beta = 5, 2.0
    kind = index(mf.InteractionEnergy(beta), on_circle(2 * np.pi * np.arange(q) / q))
    angles = 2 * np.pi * np.arange(q) / q
    slope = np.exp(beta * np.cos(angles)) * (np.cos(angles) - beta * np.sin(angles) ** 2)
    waves = [slope @ (np.cos(k * angles) - 1) / q for k in range(q)]
    np.testing.assert_allclose(kind.eigenvalues, np.sort(waves), atol=1e-12)
    assert (kind.ascents, kind.descents, kind.flat, kind.rotations) == (4, 0, 0, 1)
    assert kind.residual < 1e-14


@pytest.mark.parametrize("weights", [None, [0.7, 0.2, 0.1]])
def test_consensus_is_a_maximum_in_any_dimension(weights):
    d, beta = 4, 1.5
    mu = mf.Particles(mf.Sphere(d), np.tile(np.eye(d)[0], (3, 1)), weights)
    kind = index(mf.InteractionEnergy(beta), mu)
    # All differences contract at e^beta whatever the weights, and the common place is free: rotations of a point of S^3.
    np.testing.assert_allclose(kind.eigenvalues, [-np.exp(beta)] * 6 + [0.0] * 3, atol=1e-12)
    assert (kind.ascents, kind.descents, kind.flat, kind.rotations) == (0, 6, 0, 3)


def test_directions_are_motions_with_the_curvature_of_their_eigenvalue():
    weights = np.array([0.5, 0.3, 0.2])
    mu, energy = on_circle(np.array([0.0, 0.0, np.pi]), weights), mf.InteractionEnergy(1.0)
    kind = index(energy, mu)
    way, h = kind.directions[-1], 1e-3
    np.testing.assert_allclose(weights @ (way**2).sum(1), 1.0, rtol=1e-12)  # a unit of L^2(mu)
    moved = np.asarray(mu.points) + h * way
    there = mf.Particles(mu.space, moved / np.linalg.norm(moved, axis=1, keepdims=True), weights)
    np.testing.assert_allclose(float(energy(there) - energy(mu)), h**2 * kind.eigenvalues[-1] / 2, rtol=1e-5)  # O(h^2)


def test_flat_directions_are_told_from_rotations():
    """Two pairs at right angles at beta = 0: only the mean counts, which is the same for any two opposite pairs."""
    kind = index(mf.InteractionEnergy(0.0), on_circle(np.pi / 2 * np.arange(4)))
    assert kind.rotations == 1
    assert kind.flat == 1
    assert "2 up, 0 down, 1 flat, 1 rotations" in repr(kind)


def test_a_cloud_that_moves_is_told_by_its_residual():
    assert index(mf.InteractionEnergy(1.0), on_circle(np.array([0.0, 1.0]))).residual > 0.1


@pytest.mark.parametrize("weights", [None, [0.1, 0.2, 0.3, 0.25, 0.15]])
def test_the_rates_of_a_field_that_ascends_the_energy_are_its_eigenvalues(weights):
    beta = 2.0
    # With other weights a polygon does not rest, but opposite clusters do.
    mu = on_circle(2 * np.pi * np.arange(5) / 5 if weights is None else np.pi * (np.arange(5) % 2), weights)
    rising, moving = index(mf.InteractionEnergy(beta), mu), index(mf.UnnormalisedAttention.isotropic(2, beta), mu)
    np.testing.assert_allclose(moving.eigenvalues, rising.eigenvalues, atol=1e-11)
    assert moving.residual < 1e-14


def test_softmax_contracts_at_rate_one_at_consensus():
    kind = index(mf.SoftmaxAttention.isotropic(3, 4.0), mf.Particles(mf.Sphere(3), np.tile(np.eye(3)[0], (4, 1))))
    np.testing.assert_allclose(kind.eigenvalues, [-1.0] * 6 + [0.0] * 2, atol=1e-12)
