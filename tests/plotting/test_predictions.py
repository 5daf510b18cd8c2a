"""Pictures of what was found against what a law says."""

import numpy as np
import pytest

import measureflow as mf
from measureflow.plotting import (
    Curve,
    curve_within,
    curves_figure,
    draw_counts,
    draw_curves,
    draw_hull,
    draw_paths,
    draw_table,
    panels,
)
from measureflow.plotting.predictions import draw_ranges
from measureflow.plotting.transport import geodesic_and_mixture_figure

SQUARE = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.2, 0.1]])


def of_kind(ax, gid):
    return ax.findobj(lambda artist: artist.get_gid() == gid)


def test_few_places_are_dots_and_many_are_lines():
    few, many = np.arange(1.0, 6.0), np.linspace(1.0, 9.0, 60)
    (ax,) = curves_figure([Curve("few", few, few, few), Curve("many", many, many**2, many**2)], "x", "y").axes
    dots, line = of_kind(ax, "found")
    assert (dots.get_marker(), dots.get_linestyle()) == ("o", "None")
    assert (line.get_marker(), line.get_linestyle()) == ("None", "-")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["few", "many", "law"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")


def test_a_law_may_be_one_number():
    (ax,) = curves_figure([Curve("", [0.0, 1.0, 2.0], [3.0, 2.0, 1.5], 1.0)], "t", "energy", law="limit").axes
    (law,) = of_kind(ax, "law")
    assert np.array_equal(law.get_ydata(), [1.0, 1.0, 1.0])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["limit"]


def test_one_curve_without_a_law_has_no_legend():
    (ax,) = curves_figure([Curve("risk", [0.0, 1.0], [2.0, 1.0])], "t", "risk").axes
    assert ax.get_legend() is None


def test_short_logarithmic_directions_have_plain_numbers():
    figure, (short, long) = panels(2)
    draw_curves(short, [Curve("", [10.0, 40.0], [1.0, 30.0])], "n", "error", log="xy")
    draw_curves(long, [Curve("", [10.0, 1e5], [1.0, 1e-6])], "n", "error", log="xy")
    figure.draw_without_rendering()
    plain, powers = ([label.get_text() for label in ax.get_xticklabels() if label.get_text()] for ax in (short, long))
    assert {"10", "20"} <= set(plain)
    assert any("10^" in label for label in powers)


def test_a_curve_needs_one_number_for_each_place():
    with pytest.raises(ValueError, match="`found`"):
        curves_figure([Curve("", [0.0, 1.0], [1.0])], "x", "y")


def test_paths_start_and_end_where_the_tokens_do_and_hulls_have_their_corners():
    _, (ax,) = panels()
    assert draw_hull(draw_paths(ax, np.stack([SQUARE, SQUARE / 2])), SQUARE, filled=True) is ax
    (starts,), (ends,), (hull,) = (of_kind(ax, gid) for gid in ("starts", "ends", "hull"))
    assert np.allclose(starts.get_offsets(), SQUARE)
    assert np.allclose(ends.get_offsets(), SQUARE / 2)
    assert {tuple(corner) for corner in hull.get_xy()} == {tuple(corner) for corner in SQUARE[:4]}
    with pytest.raises(ValueError, match="`paths`"):
        draw_paths(ax, SQUARE)


def test_small_tables_show_their_numbers_and_leave_out_what_is_none():
    _, (small, large) = panels(2)
    draw_table(small, [[1.0, 0.25], [np.nan, 0.5]], "weights")
    draw_table(large, np.ones((9, 9)))
    assert [text.get_text() for text in small.texts] == ["1.00", "0.25", "0.50"]
    assert not large.texts


def test_counts_stand_side_by_side():
    _, (ax,) = panels()
    draw_counts(ax, range(3), {"one": [0, 2, 5], "other": [1, 1, 1]}, "rank")
    assert [bar.get_height() for bar in of_kind(ax, "bar")] == [0, 2, 5, 1, 1, 1]
    assert [text.get_text() for text in ax.texts if text.get_text()] == ["2", "5", "1", "1", "1"]


def test_a_geodesic_is_shown_against_a_mixture_with_a_curve_for_each():
    one, other = (mf.Particles(mf.Euclidean(2), SQUARE[:2] + shift) for shift in (0.0, 1.0))
    curves = [Curve(name, [0.0, 1.0], [0.0, 1.0]) for name in ("geodesic", "mixture")]
    figure = geodesic_and_mixture_figure([one, other], [one, other], [0.0, 1.0], curves, "energy")
    *frames, energies = figure.axes
    assert [ax.get_title() for ax in frames] == [f"{name}, t = {t}" for name in ("geodesic", "mixture") for t in (0, 1)]
    for ax, mu in zip(frames, (one, other, one, other), strict=True):
        (mass,) = (found for found in of_kind(ax, "mass") if len(found.get_offsets()))
        np.testing.assert_allclose(mass.get_offsets(), mu.points)
    assert [line.get_label() for line in of_kind(energies, "found")] == ["geodesic", "mixture"]


def test_a_tolerance_is_a_band_around_the_law():
    (ax,) = curves_figure([curve_within("", [0.0, 1.0], [2.0, 3.0], 2.5, [0.5, 1.0])], "x", "y").axes
    (band,) = of_kind(ax, "band")
    assert {tuple(corner) for corner in band.get_paths()[0].vertices} == {(0, 2), (0, 3), (1, 1.5), (1, 3.5)}


def test_ranges_are_shaded_and_named_above_the_axes():
    _, (ax,) = panels()
    draw_ranges(ax, {"open": (-1.0, 0.0), "proved": (0.0, 2.0)})
    assert [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in of_kind(ax, "range")] == [(-1, 0), (0, 2)]
    assert [text.get_text() for text in ax.texts] == ["open", "proved"]
