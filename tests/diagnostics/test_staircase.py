"""Plateaus and jumps of curves that are known."""

import numpy as np
import pytest

from measureflow.diagnostics import plateaus

TIMES = np.linspace(0.0, 10.0, 1001)
STEPS = np.tanh(5 * (TIMES - 2)) + 2 * np.tanh(5 * (TIMES - 6))


def test_smooth_steps_have_their_heights_and_jumps():
    found = plateaus(TIMES, STEPS)
    np.testing.assert_allclose(found.heights, [-3, -1, 3], atol=0.02 * 6)
    np.testing.assert_allclose(found.jumps, [2, 6], atol=1e-3)
    # The ends of a plateau share a fiftieth of 6: where the tails 2 e^{-10s} and 4 e^{-10s} of the steps are half of that.
    inner = 4 - (np.log(2 / 0.06) + np.log(4 / 0.06)) / 10
    np.testing.assert_allclose(found.ends[1] - found.starts[1], inner, atol=0.02)  # two steps of the times


def test_units_of_time_and_of_values_do_not_matter():
    found, other = plateaus(TIMES, STEPS), plateaus(60 * TIMES + 5, 7 - 3 * STEPS)
    np.testing.assert_allclose(other.heights, 7 - 3 * found.heights, rtol=1e-6)
    np.testing.assert_allclose(other.jumps, 60 * found.jumps + 5, rtol=1e-6)
    np.testing.assert_allclose(other.ends, 60 * found.ends + 5, atol=0.7)  # a step, where rounding decides


def test_counts_of_clusters_stand_still_exactly():
    counts = np.repeat([32, 5, 4, 2, 1], [1, 10, 30, 1, 58])
    found = plateaus(np.arange(100.0), counts, tolerance=0.0)
    assert found.heights.tolist() == [5, 4, 1]
    assert found.starts.tolist() == [1, 11, 42]
    assert found.ends.tolist() == [10, 40, 99]


def test_a_wait_is_long_in_logarithms_of_time():
    times = np.geomspace(1e-2, 1e8, 2001)
    values = (times > 1.0).astype(float) + (times > 1e5)
    found = plateaus(times, values, log=True)
    np.testing.assert_allclose(found.heights, [0, 1, 2])
    np.testing.assert_allclose(np.log10(found.jumps), [0, 5], atol=0.01)
    assert plateaus(times, values).heights.tolist() == [2]  # on the clock itself all but the last is short


def test_a_curve_that_never_rests_has_none_and_one_that_never_moves_has_one():
    assert len(plateaus(TIMES, TIMES).heights) == 0
    flat = plateaus(TIMES, np.full(1001, 3.0))
    assert (flat.starts.item(), flat.ends.item(), flat.heights.item(), len(flat.jumps)) == (0, 10, 3, 0)


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((TIMES, STEPS[1:]), {}, "two lists of one length"),
        ((TIMES, np.where(TIMES > 5, np.nan, STEPS)), {}, "`values` must be finite"),
        ((TIMES[::-1], STEPS), {}, "`times` must not decrease"),
        ((TIMES, STEPS), {"log": True}, "`times` must be positive where their logarithms are taken; got 0 first"),
        ((TIMES, STEPS), {"tolerance": 2.0}, "got 2 and 0.05"),
    ],
)
def test_bad_input_gets_a_sentence(arguments, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        plateaus(*arguments, **options)
