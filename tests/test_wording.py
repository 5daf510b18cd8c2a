"""Results in words: rounding is zero, and the words of a table are explained."""

import numpy as np
import pytest

from measureflow.wording import Note, Report, number, rounding


def test_numbers_below_rounding_are_zero():
    zero = rounding("float64", 1.2, -3.0)
    assert zero == pytest.approx(300 * np.finfo(float).eps)
    assert [number(value, zero) for value in (1e-17, -3e-17, -0.0, zero)] == ["0"] * 4
    assert number(-3e-17) == "-3e-17"  # nothing is known of its size
    assert number(1e-12, zero) == "1e-12"
    assert number(1 / 3, zero, ".2g") == "0.33"
    # A number that float64 knows well is noise in float32.
    assert number(1e-5, rounding(np.dtype("float32"), 3.0)) == "0"
    assert number(float("nan"), zero) == "nan"


def test_a_report_aligns_its_rows_and_explains_its_words():
    report = Report((("gap", "1 < 2"), ("risk", "3")), (Note("gap", "how far.", "gap = a < b."),))
    assert str(report) == "gap   1 < 2\nrisk  3\ngap: how far."
    assert report.explanation(full=True) == ["gap: how far. gap = a < b."]
    shown = report._repr_html_()
    for part in ("<td>1 &lt; 2</td>", "<summary><b>gap</b>: how far.</summary>gap = a &lt; b.</details>"):
        assert part in shown
    assert str(report + Report((("seconds", "4"),))).splitlines()[2] == "seconds  4"
