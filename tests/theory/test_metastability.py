"""Laws of clusters that wait, against the equation of two clusters and against each other."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from measureflow.theory import metastability
from measureflow.theory.metastability import closing_speed, merge_place, merge_time, softmax, unnormalised

MODELS = pytest.mark.parametrize("model", [softmax, unnormalised])
MASSES = np.array([0.3, 0.7])


def speeds(angles, beta, model):
    """Attention of two clusters on the circle, term by term."""
    away = angles[None] - angles[:, None]
    kernel = MASSES * np.exp(beta * (np.cos(away) - 1))
    pull = (kernel * np.sin(away)).sum(1)
    return pull / kernel.sum(1) if model is softmax else pull


@MODELS
def test_the_closing_speed_is_that_of_attention(model):
    for angle in (0.1, 1.2, 3.0):
        first, second = speeds(np.array([0.0, angle]), 4.0, model)
        np.testing.assert_allclose(closing_speed(angle, 4.0, *MASSES, model=model), first - second, rtol=1e-13)


@MODELS
def test_clusters_meet_when_and_where_the_law_says(model):
    beta, angle = 16.0, 1.2
    scale = float(merge_time(angle, beta, *MASSES, model=model))
    near = lambda _, angles: angles[1] - angles[0] - 0.01  # noqa: E731
    near.terminal = True
    path = solve_ivp(
        lambda _, angles: scale * speeds(angles, beta, model),
        (0, 3),
        [0.0, angle],
        "Radau",
        events=near,
        rtol=1e-9,
        atol=1e-12,
    )
    # Laplace's method leaves out a part of order 1/beta; the place of softmax one of order beta^-1/2.
    np.testing.assert_allclose(path.t_events[0], 1.0, rtol=1.5 / beta)
    place = MASSES**2 @ [0.0, angle] / (MASSES**2).sum() if model is softmax else MASSES @ [0.0, angle]
    np.testing.assert_allclose(merge_place(0.0, angle, *MASSES, model=model), place, rtol=1e-14)
    np.testing.assert_allclose(path.y_events[0][0], place, atol=0.3 / np.sqrt(beta) if model is softmax else 0.01)


def test_the_staircase_has_its_reference_values():
    stairs = metastability.staircase(np.array([0.0, 0.35, 1.05, 1.95, 2.9]), 400.0)
    np.testing.assert_allclose(stairs.levels, [0.2, 0.28, 0.44, 0.52, 1.0], rtol=1e-14)
    np.testing.assert_allclose(stairs.jumps, [0.0493, 0.3431, 0.4026, 1.467], atol=5.1e-4)  # digits as printed
    # By hand: squared masses put the first three tokens at 0.35, and the other two meet at 2.425.
    np.testing.assert_allclose(stairs.limits, 1 - np.cos([0.35, 0.875, 0.95, 2.075]), rtol=1e-12)


def test_the_staircase_does_not_depend_on_the_order_or_the_place_of_tokens():
    angles, masses = np.array([0.0, 0.35, 1.05, 1.95]), np.array([0.1, 0.2, 0.3, 0.4])
    one = metastability.staircase(angles, 100.0, masses)
    order = [2, 0, 3, 1]
    other = metastability.staircase(angles[order] + 0.5, 100.0, masses[order])
    for part, same in zip(one, other, strict=True):
        np.testing.assert_allclose(part, same, rtol=1e-12)


def test_the_window_of_time_has_its_reference_values():
    alpha = np.cos(np.pi - 2 * np.arccos(0.98))
    np.testing.assert_allclose(metastability.separation(alpha, 4, 10.0, 0.01), 1.034, atol=5.1e-4)
    np.testing.assert_allclose(metastability.gathering_time(4, 10.0, 0.01), 139, atol=0.5)
    np.testing.assert_allclose(metastability.persistence_time(alpha, 4, 10.0, 0.01), 5.5e5, rtol=0.01)


def test_laws_broadcast():
    assert merge_time(jnp.array([1.0, 1.2]), jnp.array([[20.0], [40.0], [80.0]]), *MASSES).shape == (3, 2)
