import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.theory.synchronization import attention, attention_tau, criterion, kernel, polygon, polygon_threshold


def of(beta):
    return lambda x: attention(x, beta)


def with_second_wave(a):
    return lambda x: jnp.sin(x) + a * jnp.sin(2 * x)


def test_the_sine_synchronizes_with_margin_five_minus_pi():
    found = criterion(jnp.sin)
    np.testing.assert_allclose(found, [np.pi / 2, 1.0, 2.0, 5 - np.pi], rtol=1e-13)  # rounding
    assert found.holds
    assert "holds, with the margin 1.858" in str(found)


@pytest.mark.parametrize("beta", [-0.5, -0.1, 0.5, 3.0, 30.0])
def test_tau_of_attention_has_a_closed_form(beta):
    assert float(criterion(of(beta)).tau) == pytest.approx(float(attention_tau(beta)), abs=1e-12)  # rounding


@pytest.mark.parametrize("a", [-0.3, 0.1])
def test_a_second_wave_has_a_margin_by_hand(a):
    """f''' = -cos x - 8a cos 2x: with c = cos x, f' = 4ac^2 + c - 2a, and f'' = -sin x - 4a sin 2x at the roots of f'''."""
    cosines = np.roots([16 * a, 1, -8 * a])
    turns = np.arccos(cosines[np.abs(cosines) < 1])
    x = np.sort(np.concatenate([[0.0, np.pi], turns]))
    second = -np.sin(x) - 4 * a * np.sin(2 * x)
    rise = 2 * np.maximum(np.diff(second), 0).sum()
    zeros = np.roots([4 * a, 1, -2 * a])
    tau = np.arccos(zeros[np.abs(zeros) < 1].min())
    found = criterion(with_second_wave(a))
    np.testing.assert_allclose([found.tau, found.rise], [tau, rise], rtol=1e-12)  # rounding
    np.testing.assert_allclose(found.margin, 4 * (1 + tau / (2 * np.pi)) - tau * rise / (1 + 2 * a), rtol=1e-11)


def test_without_an_arc_there_is_no_margin_and_a_sentence_says_so():
    found = criterion(with_second_wave(0.6))  # f' = -1 + 1.2 at the antipode
    assert not found.holds
    assert np.isnan(found.margin)
    assert "no arc outside of which f' is negative" in str(found)


def test_a_finite_range_is_no_arc():
    """Tokens out of reach of each other never meet, though f' is nowhere positive out there."""

    def bump(x):
        x = jnp.mod(x + jnp.pi, 2 * jnp.pi) - jnp.pi
        inside = jnp.abs(x) < 1
        return jnp.where(inside, x * (1 - jnp.where(inside, x, 0.0) ** 2) ** 4, 0.0)

    assert np.isnan(criterion(bump).tau)


def test_margins_compile_once_over_beta():
    margins = jax.jit(jax.vmap(lambda beta: criterion(of(beta)).margin))(jnp.array([-0.2, -0.16, 1.0, 10.0]))
    np.testing.assert_allclose(margins, [-0.1177, 0.4473, 1.4295, 0.7608], atol=5e-5)  # digits printed


@pytest.mark.parametrize("corners", [1, 2, 3, 4, 7])
def test_polygon_eigenvalues_are_those_of_the_velocities(corners):
    f, copies = of(-1.3), 3
    n = copies * corners
    angles = jnp.repeat(2 * jnp.pi * jnp.arange(float(corners)) / corners, copies)

    def turning(angles):
        return jax.vmap(jax.vmap(f))(angles[None, :] - angles[:, None]).mean(1)

    found = polygon(f, corners)
    expected = np.sort([0.0, *np.asarray(found.between), *[float(found.within)] * (n - corners)])
    np.testing.assert_allclose(np.linalg.eigvalsh(jax.jacfwd(turning)(angles)), expected, atol=1e-13)  # rounding


def test_thresholds_of_odd_polygons_are_where_they_begin_to_attract():
    assert float(polygon_threshold(3)) == pytest.approx(-2 / 3, abs=1e-15)
    for corners in (3, 5, 9):
        edge = float(polygon_threshold(corners))
        assert polygon(of(edge - 1e-6), corners).top < 0 < polygon(of(edge + 1e-6), corners).top
    assert np.isnan(polygon_threshold(6))


def test_the_kernel_of_an_interaction_moves_tokens_by_it():
    f = with_second_wave(0.3)
    mu = mf.Particles.iid(mf.Sphere(2), 7, key=1)
    v = mu.transport(lambda xs: mf.KernelAttention(kernel(f))(0.0, xs, mu)).points
    turning = mu.points[:, 0] * v[:, 1] - mu.points[:, 1] * v[:, 0]
    angles = jnp.arctan2(mu.points[:, 1], mu.points[:, 0])
    expected = jax.vmap(jax.vmap(f))(angles[None, :] - angles[:, None]).mean(1)
    np.testing.assert_allclose(turning, expected, atol=1e-13)  # rounding


@pytest.mark.parametrize("beta", [-1.0, 0.0, 5.0])
def test_the_kernel_of_attention_is_exponential_up_to_its_ends(beta):
    score = jnp.array([-1.0, -1 + 1e-13, -1 + 1e-9, -0.3, 0.0, 0.7, 1 - 1e-11, 1.0])
    # Next to an end the kernel is replaced by its limit, wrong by beta 1e-12.
    np.testing.assert_allclose(kernel(of(beta))(score), jnp.exp(beta * score), rtol=1e-11)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (jnp.cos, "`f` must be odd"),
        (lambda x: x, "`f` must have the period 2π"),
        (lambda x: -jnp.sin(x), "`f` must attract near tokens"),
        (lambda x: jnp.exp(1e4 * jnp.cos(x)) * jnp.sin(x), "`f` is not finite"),
    ],
)
def test_what_is_no_attracting_interaction_is_refused(f, words):
    for function in (criterion, kernel, lambda f: polygon(f, 3)):
        with pytest.raises(ValueError, match=words):
            function(f)


def test_a_polygon_needs_corners():
    with pytest.raises(ValueError, match=r"`corners` must be a whole number, at least 1; got 0"):
        polygon(jnp.sin, 0)
    with pytest.raises(ValueError, match=r"`corners` must be a whole number, at least 3; got 2"):
        polygon_threshold(2)
