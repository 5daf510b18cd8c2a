"""Laws that pictures of sweeps are held against."""

import numpy as np
import pytest

from measureflow.sweeps import overlays
from measureflow.sweeps.overlays import critical, meeting
from measureflow.theory import equiangular
from measureflow.words import InputError

SETTINGS = {"attention": "softmax", "n": 6, "time": 3.0, "init": "equiangular"}


def test_the_law_of_meeting_is_that_of_orthogonal_tokens():
    betas = np.linspace(0.0, 4.0, 5)
    law = meeting(SETTINGS, {"beta": betas, "time": np.linspace(0.0, 3.0, 4)})
    assert (law.y[0], law.y[-1]) == (0.0, 4.0)
    np.testing.assert_allclose(law.x, equiangular.time_to(0.999, 6, law.y), rtol=1e-12)


def test_over_another_axis_the_law_is_the_beta_up_to_which_tokens_have_met_by_the_end():
    betas = np.linspace(0.0, 40.0, 5)
    settings = SETTINGS | {"time": 30.0}
    law = meeting(settings, {"beta": betas, "dim": np.array([2, 4])})
    assert law.x[0] == law.x[1]
    # The law is interpolated between 200 values of beta.
    assert float(equiangular.time_to(0.999, 6, law.x[0])) == pytest.approx(30.0, rel=1e-2)
    other = meeting(settings, {"dim": np.array([2, 4]), "beta": betas})
    np.testing.assert_array_equal((other.x, other.y), (law.y, law.x))


def test_the_critical_exponent_is_one_over_one_minus_the_overlap():
    law = critical(SETTINGS, {"n": np.array([4, 64]), "gamma": np.array([0.5, 4.0])})
    np.testing.assert_allclose(law.y, 2.0, rtol=1e-15)
    np.testing.assert_array_equal(law.x, [2.0, 128.0])


def test_a_law_says_nothing_of_other_axes_and_an_unknown_one_is_refused():
    assert meeting(SETTINGS, {"dim": np.array([2, 4])}) is None
    assert critical(SETTINGS, {"beta": np.array([1.0])}) is None
    with pytest.raises(InputError, match=r"must be one of meeting, critical; got 'meting' .did you mean 'meeting'"):
        overlays.check("meting")
