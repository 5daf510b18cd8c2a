"""The page of a training run shows what was measured."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from measureflow.plotting import Record, TimeSeries
from measureflow.plotting.training import draw_particles, draw_spectra, training_figure

RNG = np.random.default_rng(0)
TIMES, RISK, LOST = np.linspace(0, 1, 5), np.linspace(3, 1, 5), np.geomspace(1, 1e-4, 5)


def line(figure, name):
    return next(found for ax in figure.axes for found in ax.lines if found.get_gid() == name)


def test_the_page_has_risk_limit_dissipation_heads_and_spectra():
    series = {"risk": TimeSeries(RISK, "risk"), "dissipation": TimeSeries(LOST, "dissipation")}
    run = Record(SimpleNamespace(times=TIMES, stats={}), series, "a run")
    spectra = {"splitting": [-1.0, 2.0], "translation": [0.5]}
    more = {"limit": RISK - 0.1, "many": 99, "baselines": {"unigram": 2.5}}
    figure = training_figure(run, invariants=RNG.normal(size=(2, 6, 4)), **spectra, **more)
    np.testing.assert_array_equal(line(figure, "risk").get_ydata(), RISK)
    np.testing.assert_array_equal(line(figure, "limit").get_ydata(), RISK - 0.1)
    np.testing.assert_array_equal(line(figure, "unigram").get_ydata(), [2.5, 2.5])
    assert [text.get_text() for text in figure.axes[0].texts] == ["unigram"]
    np.testing.assert_array_equal(line(figure, "dissipation").get_ydata(), LOST)
    end = next(c for ax in figure.axes for c in ax.collections if c.get_gid() == "end")
    places = np.asarray(end.get_offsets())
    # Two principal components of centred heads: uncorrelated, and the first one the wider.
    np.testing.assert_allclose(places.T @ places - np.diag(np.sum(places**2, 0)), 0.0, atol=1e-12)
    assert places[:, 0].std() >= places[:, 1].std()
    assert any("99 heads" in text.get_text() for text in figure.axes[0].get_legend().get_texts())


def test_negative_eigenvalues_stand_out():
    ax = Figure().subplots()
    assert draw_spectra(ax, [-1.0, 2.0], [0.5]) is ax
    rows = {found.get_gid(): found.get_colors() for found in ax.collections}
    assert not np.allclose(rows["H"][0], rows["H"][1])
    np.testing.assert_allclose(rows["H"][1], rows["H_tr"][0])


def test_zero_up_to_rounding_is_not_unstable():
    ax = Figure().subplots()
    draw_spectra(ax, [-3e-17, 1.0], [1.0])
    colours = next(found.get_colors() for found in ax.collections if found.get_gid() == "H")
    np.testing.assert_allclose(colours[0], colours[-1])


def test_heads_are_joined_from_start_to_end():
    first, last = RNG.normal(size=(2, 8, 3))
    ax = draw_particles(Figure().subplots(), first, last)
    found = {part.get_gid(): part for part in ax.collections}
    ways = np.stack(found["ways"].get_segments())
    np.testing.assert_allclose(ways[:, 0], found["start"].get_offsets(), atol=1e-14)
    np.testing.assert_allclose(ways[:, 1], found["end"].get_offsets(), atol=1e-14)


def test_a_head_far_out_does_not_set_the_scale_and_is_told():
    first, last = RNG.normal(size=(2, 20, 3))
    near = draw_particles(Figure().subplots(), first, last)
    last[0] = [1e4, -1e4, 0.0]
    ax = draw_particles(Figure().subplots(), first, last)
    # The other heads decide, in components of their own: about the same width, and not four orders more.
    assert np.ptp(ax.get_xlim()) < 2 * np.ptp(near.get_xlim())
    assert ax.get_legend().get_title().get_text() == "1 of 20 end outside"
    assert near.get_legend().get_title().get_text() == ""


@pytest.mark.parametrize("top", [1.0, 1e3, 1e12, 1e40])
def test_ticks_of_spectra_do_not_collide(top):
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    ax = draw_spectra(figure.subplots(), [-1e-3, 1e-3, 2e-3, top], [-2e-3, -1e-3, 1e-3])
    figure.draw_without_rendering()
    low, high = ax.get_xlim()
    assert low < -2e-3 < top < high
    ticks = [tick.label1.get_window_extent() for tick in ax.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    assert len(ticks) > 2
    assert all(a.x1 < b.x0 for a, b in pairwise(sorted(ticks, key=lambda box: box.x0)))
