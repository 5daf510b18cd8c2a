import jax
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from measureflow.theory import centres
from measureflow.theory.centres import PARKING


def test_caps_are_the_arcs_and_caps_one_knows():
    angles = np.array([0.0, 0.3, np.pi / 2, 2.0, np.pi])
    np.testing.assert_allclose(centres.cap(angles, 2), angles / np.pi, atol=1e-14)  # roundings
    np.testing.assert_allclose(centres.cap(angles, 3), (1 - np.cos(angles)) / 2, atol=1e-14)
    area = quad(lambda x: np.sin(x) ** 3, 0, 1.1)[0] / quad(lambda x: np.sin(x) ** 3, 0, np.pi)[0]
    assert centres.cap(1.1, 5) == pytest.approx(area, rel=1e-12)


def test_one_token_is_a_centre_and_many_are_as_the_catalogue_says():
    assert centres.strong_count(1, 0.5, 3) == pytest.approx(1.0, rel=1e-13)
    assert centres.strong_count(5000, 0.5, 2) == pytest.approx(2 * np.pi, rel=1e-12)
    assert centres.strong_count(800, 0.5, 3) == pytest.approx(16.34, abs=5e-3)  # its digits
    # The integral by quadrature of 64 nodes: all its digits.
    assert centres.renyi_count(np.inf, 0.5) == pytest.approx(PARKING * 4 * np.pi, rel=1e-13)
    assert centres.renyi_count(1e5, 0.1) == pytest.approx(
        PARKING * 20 * np.pi - np.exp(-2 * np.euler_gamma) * (20 * np.pi) ** 2 / 1e5, abs=1e-4
    )


def parked(n, separation, repeats, rng):
    """The mean number of Rényi centres of uniform tokens on the circle, and its standard error."""
    counts = []
    for _ in range(repeats):
        found = np.zeros(0)
        for angle in rng.uniform(0, 2 * np.pi, n):
            if (np.abs((found - angle + np.pi) % (2 * np.pi) - np.pi) > separation).all():
                found = np.append(found, angle)
        counts.append(len(found))
    return np.mean(counts), np.std(counts) / np.sqrt(repeats)


def test_few_tokens_park_as_the_law_for_few_says():
    mean, error = parked(25, 0.5, 600, np.random.default_rng(0))
    assert abs(mean - float(centres.renyi_count(25, 0.5))) < 4 * error + 0.01  # the correction left out
    assert abs(mean - PARKING * 4 * np.pi) > 20 * error


@pytest.mark.parametrize("beta", [0.5, 3.0, 64.0])
def test_the_pull_turns_where_its_slope_vanishes(beta):
    slope = jax.grad(centres.pull)
    for x in (0.0, 0.2, 1.0):
        assert centres.pull_slope(x, beta) == pytest.approx(float(slope(x, beta)), rel=1e-13)
    turn = brentq(lambda x: float(centres.pull_slope(x, beta)), 1e-3, 1.5, xtol=1e-14)
    assert centres.turning_angle(beta) == pytest.approx(turn, rel=1e-12)
    if beta >= 1:
        assert (beta + 0.5) ** -0.5 < turn < beta**-0.5


def test_a_centre_stays_as_long_as_its_pulls_allow():
    time = centres.drift_time(3, 0.1, 4.0, 64.0)
    pull = np.exp(64 * (np.cos(0.5) - 1)) * np.sin(0.5)
    assert time == pytest.approx(0.1 * 0.5 / (3 * pull), rel=1e-13)
    assert centres.drift_gap(0.1, 4.0, 64.0) == pytest.approx(0.6, rel=1e-14)
    assert centres.drift_limit(0.1, 4.0, 64.0) == pytest.approx(0.05, rel=1e-14)


def test_conditions_of_capture_at_the_example_of_the_paper():
    found = centres.capture(700, 0.1, 6.5, 14.0)
    assert (float(found.force), float(found.slope)) == pytest.approx((0.186, 0.0017), abs=5e-4)  # printed digits
    assert found.holds
    assert not centres.capture(4000, 0.1, 6.5, 14.0).holds
    assert centres.captured(0.1, 6.5) == pytest.approx(682.95, abs=5e-3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: centres.drift_time(1, -0.1, 4.0, 64.0), "`epsilon` must be positive; got -0.1"),
        (lambda: centres.drift_time(1, 0.1, 4.0, 0.0), "`beta` must be positive"),
        (lambda: centres.drift_time(0, 0.1, 4.0, 64.0), "`rank` counts tokens from 1; got 0"),
        (lambda: centres.drift_time(1, 0.1, 0.5, 64.0), "`c` must be beyond the strongest pull, above 0.99"),
        (lambda: centres.capture(10, 0.1, 1.1, 64.0), "`c` must be above 1 \\+ 2 `epsilon`"),
        (lambda: centres.capture(10, 0.1, 6.0, float("nan")), "`beta` must be positive; got nan"),
        (lambda: centres.captured(0.2, 8.0), "`epsilon` must be at most 0.1"),
        (lambda: centres.captured(0.1, 5.0), "`c` must be at least 5.5"),
    ],
)
def test_what_the_lemmas_do_not_cover_is_refused_by_name(call, words):
    with pytest.raises(ValueError, match=words):
        call()
