"""Checks as pictures: measured numbers over what was predicted, with what is allowed as a band."""

from types import SimpleNamespace

import numpy as np
import pytest

from measureflow.plotting import Figure, add_rows, checks_figure, draw_agreement, panels
from measureflow.plotting.agreement import draw_differences, draw_rows


def check(relation, predicted, measured, tolerance=0.0, what="number"):
    return SimpleNamespace(what=what, relation=relation, predicted=predicted, measured=measured, tolerance=tolerance)


def of_kind(ax, gid):
    return ax.findobj(lambda artist: artist.get_gid() == gid)


def places(ax):
    return {
        "good" if len(dots.get_paths()[0].vertices) > 15 else "bad": np.asarray(dots.get_offsets())
        for dots in of_kind(ax, "found")
    }


def test_measured_numbers_stand_over_predicted_ones_and_those_not_allowed_are_crosses():
    _, (ax,) = panels()
    draw_agreement(ax, check("equal", [1.0, 2.0, 3.0], [1.1, 2.0, 3.9], 0.2))
    dots = places(ax)
    np.testing.assert_allclose(dots["good"], [[1.0, 1.1], [2.0, 2.0]])
    np.testing.assert_allclose(dots["bad"], [[3.0, 3.9]])
    (law,), (band,) = of_kind(ax, "law"), of_kind(ax, "band")
    np.testing.assert_allclose(law.get_xydata(), [[1, 1], [2, 2], [3, 3]])
    corners = band.get_paths()[0].vertices
    assert (corners[:, 1] - corners[:, 0]).min() >= -0.2 - 1e-12


@pytest.mark.parametrize(("relation", "sign"), [("at most", 1), ("at least", -1)])
def test_a_bound_allows_one_side(relation, sign):
    _, (ax,) = panels()
    draw_agreement(ax, check(relation, 2.0, 2.0 - sign * np.array([0.5, 1.0, -0.5])))
    dots = places(ax)
    assert len(dots["good"]) == 2
    np.testing.assert_allclose(dots["bad"], [[3.0, 2.0 + sign * 0.5]])


def test_differences_too_small_to_see_have_a_panel_of_their_own():
    thin, wide = (
        check("equal", [1.0, 2.0, 3.0], [1.0, 2.0 + 1e-12, 3.0], 1e-9),
        check("equal", [1.0, 2.0, 3.0], [1.0, 2.2, 3.0], 0.5),
    )
    assert [len(checks_figure([each]).axes) for each in (thin, wide)] == [2, 1]
    _, (ax,) = panels()
    draw_differences(ax, thin)
    assert ax.get_yscale() == "log"
    np.testing.assert_allclose(sorted(places(ax)["good"][:, 1])[-1], 1e-12, rtol=1e-3)
    low, high = ax.get_ylim()
    assert low < 1e-15 < 1e-9 < high


def test_single_numbers_are_rows_in_units_of_what_is_allowed():
    _, (ax,) = panels()
    rows = [
        check("equal", 2.0, 2.05, 0.1),
        check("at most", 1.0, 0.5),
        check("at least", 1.0, 0.5),
        check("equal", [0.0, 1.0], [5.0, 1.0], 0.5),
    ]
    draw_rows(ax, rows)
    found = sorted(tuple(np.round(place, 6)) for dots in of_kind(ax, "found") for place in dots.get_offsets())
    assert found == sorted([(0.5, 0.0), (-0.5, 1.0), (-0.5, 2.0), (1.2, 3.0), (0.0, 3.0)])
    assert [len(dots) for dots in places(ax).values()]
    assert [text.get_text() for text in ax.texts] == [
        "number:  = 2 ± 0.1,  measured 2.05",
        "number:  ≤ 1,  measured 0.5",
        "number:  ≥ 1,  measured 0.5",
        "number:  2 numbers, each = its own ± 0.5",
    ]


def test_rows_are_added_below_what_a_figure_shows():
    figure, (ax,) = panels()
    before = figure.get_size_inches()[1]
    assert add_rows(figure, [check("equal", 1.0, 1.0, 0.1)]) is figure
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    rows = figure.axes[-1]
    assert figure.get_size_inches()[1] > before
    assert rows.get_position().y1 < ax.get_position().y0
