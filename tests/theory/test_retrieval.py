import jax
import numpy as np
import pytest
import scipy.special
from scipy.integrate import quad

from measureflow.theory import retrieval


def test_rates_are_those_of_the_kernel():
    k = np.arange(1, 6)
    np.testing.assert_allclose(retrieval.published_rates(2.0, 5), k**2 * scipy.special.iv(k, 2.0), rtol=1e-12)


@pytest.mark.parametrize("slope", [0.0, 1.0, -2.0])
def test_a_query_looks_at_its_past_with_total_weight_one(slope):
    total = quad(lambda u: float(retrieval.weight(0.7, u, slope)), 0, 0.7)[0]
    assert total == pytest.approx(1.0, rel=1e-10)


@pytest.mark.parametrize("slope", [0.0, 1.0])
def test_the_response_solves_its_equation(slope):
    """middle:26: the time derivative of the answer at 1 to u is a times the answers of what it looks at, and its look at u."""
    t, u, a = 0.8, 0.3, 1.7

    def answer(s):
        return float(retrieval.response(t, s, u, a, slope) * retrieval.weight(1.0, s, slope))

    rate = jax.grad(retrieval.response)(t, 1.0, u, a, slope)
    passed_on = quad(answer, u, 1.0)[0]
    assert rate == pytest.approx(a * (passed_on + float(retrieval.weight(1.0, u, slope))), rel=1e-8)


def test_critical_times_of_the_paper():
    found = [float(retrieval.critical_time(retrieval.published_rates(beta, 20), 1.0, 8.0)) for beta in (2.0, 3.0)]
    assert found == pytest.approx([0.600716, 0.174018], abs=1e-6)  # printed digits
    assert retrieval.critical_time(retrieval.published_rates(2.0, 20), 0.0, 8.0) == 0


def test_the_profile_is_flat_at_the_end_at_the_critical_time():
    rates = retrieval.published_rates(2.0, 20)
    critical = float(retrieval.critical_time(rates, 1.0, 8.0))

    def rise(t):
        near, end = (float(retrieval.profile(t, u, rates, 1.0, 8.0)) for u in (1 - 1e-5, 1.0))
        return (end - near) / 1e-5 / end

    assert rise(0.99 * critical) > 1e-3
    assert abs(rise(critical)) < 1e-4  # the step of the quotient
    assert rise(1.01 * critical) < -1e-3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: retrieval.critical_time(np.array([1.0]), 1.0, 0.0), "`width` must be positive; got 0"),
        (lambda: retrieval.profile(1.0, 0.5, np.array([1.0]), 1.0, -1.0), "`width` must be positive; got -1"),
        (lambda: retrieval.critical_time(np.zeros(0), 1.0, 8.0), "`rates` must list the growth rates"),
    ],
)
def test_bad_input_is_refused_by_name(call, words):
    with pytest.raises(ValueError, match=words):
        call()
