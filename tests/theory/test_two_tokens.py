import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from measureflow.theory.equiangular import softmax, unnormalised
from measureflow.theory.two_tokens import overlap, tempered_overlap, time_to

MODELS = pytest.mark.parametrize("model", [softmax, unnormalised])


def test_orthogonal_tokens_reach_three_fifths_at_log_two():
    assert overlap(jnp.log(2.0)) == pytest.approx(0.6, abs=1e-15)  # rounding


def test_the_tangent_of_half_the_angle_decays_exponentially():
    times, angle = np.linspace(0, 4, 9), 2.5
    expected = np.cos(2 * np.arctan(np.exp(-times) * np.tan(angle / 2)))
    np.testing.assert_allclose(overlap(times, np.cos(angle)), expected, rtol=0, atol=1e-15)  # rounding


@pytest.mark.parametrize("start", [-0.9, -0.3, 0.0, 0.7])
@MODELS
def test_without_temperature_the_law_is_a_hyperbolic_tangent(start, model):
    times = np.linspace(-1, 5, 7)
    ours = tempered_overlap(times, 0.0, start, model=model)
    np.testing.assert_allclose(ours, overlap(times, start), rtol=0, atol=1e-15)  # rounding


@pytest.mark.parametrize("beta", [-2.0, 0.5, 5.0])
@MODELS
def test_the_tempered_law_solves_its_equation(beta, model):
    def slope(_, rho):
        pull = 2 / (1 + np.exp(beta * (1 - rho))) if model is softmax else np.exp(beta * rho)
        return pull * (1 - rho**2)

    times = np.linspace(0, 1.5, 7)
    solution = solve_ivp(slope, (0, 1.5), [-0.3], "DOP853", times, rtol=1e-12, atol=1e-14)
    # The solver's tolerance 1e-12 at each of some ten decisive steps.
    np.testing.assert_allclose(tempered_overlap(times, beta, -0.3, model=model), solution.y[0], rtol=0, atol=1e-11)


@pytest.mark.parametrize("beta", [-2.0, 0.0, 5.0])
@MODELS
def test_time_to_an_overlap_inverts_the_law(beta, model):
    rhos = np.linspace(-0.8, 0.99, 7)
    t = time_to(rhos, beta, -0.3, model=model)
    ours = tempered_overlap(t, beta, -0.3, model=model)
    # Thirty roundings of t, times the rate: their product is below 16.
    np.testing.assert_allclose(ours, rhos, rtol=0, atol=1e-13)
