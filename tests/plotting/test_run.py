"""A run on one page shows its tokens, its series, its marked times and readable words."""

from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib._pylab_helpers import Gcf
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

import measureflow as mf
from measureflow import plotting
from measureflow.plotting import draw_steps, key_frames, run_figure
from measureflow.plotting.captions import caption, clock_times, short_times
from measureflow.plotting.time_series import draw_energy

SPACES = [mf.Sphere(2), mf.Sphere(3), mf.Sphere(8), *(mf.Euclidean(d) for d in (1, 2, 3, 6))]
NAMES = [f"{type(space).__name__}{space.dim}" for space in SPACES]
numbers = st.floats(-1e300, 1e300) | st.sampled_from([np.inf, -np.inf, np.nan, 0.0, 1.0])


@pytest.fixture
def a_run(recorded):
    """A function that makes tokens move straight to one of three places."""

    def make(space, k=12, n=30, title="", scale=None):
        rng = np.random.default_rng(0)
        start, ends = rng.normal(size=(n, space.dim)), 2 * rng.normal(size=(3, space.dim))
        part = np.linspace(0, 1, k)[:, None, None] if k > 1 else np.zeros((1, 1, 1))
        points = (1 - part) * start + part * ends[np.arange(n) % 3]
        if isinstance(space, mf.Sphere):
            points /= np.linalg.norm(points, axis=-1, keepdims=True)
        points = points if scale is None else points[:1] * scale
        energy, clusters = np.linspace(1, 5, k) ** 2, np.linspace(n, 3, k).round()
        return recorded(np.linspace(0, 20, k), points, space, title=title, energy=energy, clusters=clusters)

    return make


LABELS = np.arange(30) % 3


def words(figure):
    """The texts that are drawn, with their boxes."""
    figure.draw_without_rendering()
    seen = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    for ax in figure.axes:
        for axis, (low, high) in ((ax.xaxis, sorted(ax.get_xlim())), (ax.yaxis, sorted(ax.get_ylim()))):
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                room = 1e-9 * (high - low)
                if not ax.axison or not low - room <= tick.get_loc() <= high + room:
                    seen = [text for text in seen if text not in (tick.label1, tick.label2)]
    return [(text.get_text(), text.get_window_extent()) for text in seen]


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
def test_words_are_inside_the_figure_and_do_not_overlap(space, a_run):
    figure = run_figure(a_run(space, title="Softmax attention,  n = 30,  β = 9"), labels=LABELS)
    boxes = words(figure)
    assert len(boxes) > 15
    for text, box in boxes:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, text
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1, text
    for (one, a), (other, b) in combinations(boxes, 2):
        assert not a.overlaps(b), (one, other)


def test_long_title_is_broken_and_dollars_are_letters(a_run):
    figure = run_figure(a_run(mf.Sphere(2), title="a price of $5 and $6, " + "parameter = value, " * 12))
    for text, box in words(figure):
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1, text


@pytest.mark.parametrize("k", [1, 2, 3, 4, 9])
def test_panels_tokens_and_marked_times(k, a_run):
    run = a_run(mf.Sphere(3), k)
    figure = run_figure(run, labels=LABELS)
    *row, energy, clusters = figure.axes
    shown = key_frames(run.series["energy"].values)
    view = plotting.view_of(run.points[list(shown)], mf.Sphere(3), labels=LABELS)
    for ax, i in zip(row, shown, strict=True):
        places = np.concatenate([found.get_offsets() for found in ax.collections if found.get_gid() == "tokens"])
        expected = view.place(run.points[i])[:, :2]
        np.testing.assert_allclose(np.sort(places, axis=0), np.sort(expected, axis=0), atol=1e-12)
    assert [ax.get_title() for ax in row] == [f"t = {name}" for name in short_times(run.times[list(shown)])]
    for ax in (energy, clusters):
        marks = [line.get_xdata()[0] for line in ax.lines if line.get_gid() == "marked"]
        assert marks == pytest.approx(run.times[list(shown)])
        assert ax.get_xlabel() == "time t"
    assert energy.get_ylabel() == "interaction energy E"


def test_curves_are_the_numbers_given(a_run):
    run = a_run(mf.Euclidean(2))
    figure = run_figure(run)
    for ax, name in zip(figure.axes[-2:], ("energy", "clusters"), strict=True):
        (curve,) = (line for line in ax.lines if line.get_gid() == name)
        assert np.array_equal(curve.get_ydata(), run.series[name].values)
        assert np.array_equal(curve.get_xdata(), run.times)
    assert figure.axes[-1].lines[0].get_drawstyle() == "steps-post"


def test_large_ranges_have_logarithmic_axes():
    times = np.arange(4.0)
    row = Figure().subplots(1, 4)
    assert draw_energy(row[0], times, [1.0, 10.0, 1e3, 1e6]).get_yscale() == "log"
    assert draw_energy(row[1], times, [-1.0, 10.0, 1e3, 1e6]).get_yscale() == "linear"
    assert draw_steps(row[2], times, [512, 100, 10, 3], "clusters").get_yscale() == "log"
    assert draw_steps(row[3], times, [5, 4, 4, 3], "clusters").get_yscale() == "linear"
    low, high = draw_steps(Figure().subplots(), times, [0, 0, 0, 0], "clusters").get_ylim()
    assert low < 0 < 1 < high  # a dot at zero is not cut
    assert draw_energy(Figure().subplots(), times, [1.0, 2.0, np.inf, np.nan]).get_ylim()[1] < 3


def test_energies_up_to_overflow_are_drawn():
    figure = Figure()
    ax = draw_energy(figure.subplots(), np.arange(4.0), np.array([1e-5, 1e100, 1.7e308, np.inf]))
    figure.draw_without_rendering()
    assert ax.get_yscale() == "log"
    assert 0 < ax.get_ylim()[0] < 1e-5
    assert 1e299 < ax.get_ylim()[1] < np.inf


def test_png_is_written_at_its_size_without_pyplot(tmp_path, a_run):
    run_figure(a_run(mf.Sphere(3))).savefig(tmp_path / "run.png")
    with Image.open(tmp_path / "run.png") as image:
        image.load()
        assert image.size == (1800, 1050)
        assert len(image.convert("RGB").getcolors(1800 * 1050)) > 100
    assert Gcf.get_all_fig_managers() == []
    sources = [file.read_text() for file in Path(plotting.__file__).parent.glob("*.py")]
    assert len(sources) > 4
    assert not any("import pyplot" in text or "matplotlib.pyplot" in text for text in sources)


def test_frames_can_be_chosen(a_run):
    run = a_run(mf.Sphere(2))
    figure = run_figure(run, frames=(0, 3, 11))
    assert [ax.get_title() for ax in figure.axes[:-2]] == ["t = 0", "t = 5.45", "t = 20"]
    for frames in ((), (0, 12), (-1, 2), (0, 1, 2, 3, 4)):
        with pytest.raises(ValueError, match="`frames` must be one to four indices"):
            run_figure(run, frames=frames)


def test_a_curve_of_ones_own_joins_the_others(a_run):
    run = a_run(mf.Sphere(2))
    run.series["radius"] = plotting.TimeSeries(np.linspace(1, 2, 12), "largest norm")
    run.series["hidden"] = plotting.TimeSeries(np.ones(12), "hidden", drawn=False)
    assert [ax.get_ylabel() for ax in run_figure(run).axes[-3:]] == [
        "interaction energy E", "number of clusters", "largest norm",
    ]  # fmt: skip


def test_a_blow_up_is_in_the_title_and_on_every_curve(a_run):
    figure = run_figure(a_run(mf.Sphere(2), title="tokens"), blow_up_time=20.5)
    assert figure.get_suptitle() == "tokens: blow-up at t = 20.5"
    for ax in figure.axes[-2:]:
        (line,) = (line for line in ax.lines if line.get_gid() == "blow-up")
        assert line.get_xdata()[0] == 20.5 < ax.get_xlim()[1]
    assert not any(line.get_gid() == "blow-up" for ax in run_figure(a_run(mf.Sphere(2))).axes for line in ax.lines)


def test_tokens_on_a_line_are_drawn_over_time(a_run):
    run = a_run(mf.Euclidean(1))
    above, *below = run_figure(run, labels=LABELS, letter="z").axes
    assert [ax.get_ylabel() for ax in below] == ["interaction energy E", "number of clusters"]
    (ways,) = (found for found in above.collections if found.get_gid() == "ways")
    drawn = np.stack(ways.get_segments())
    np.testing.assert_allclose(drawn[..., 0], np.tile(run.times, (30, 1)))
    np.testing.assert_allclose(drawn[..., 1], run.points[..., 0].T)
    np.testing.assert_allclose(ways.get_colors()[:, :3], plotting.cluster_colours(LABELS))
    assert above.get_ylabel() == "z"
    assert above.get_yscale() == "linear"


def test_a_line_that_grows_by_decades_is_logarithmic_with_words_apart(a_run):
    figure = run_figure(a_run(mf.Euclidean(1), scale=np.geomspace(1, 1e9, 12)[:, None, None]))
    assert figure.axes[0].get_yscale() == "symlog"
    boxes = words(figure)
    for (one, a), (other, b) in combinations(boxes, 2):
        assert not a.overlaps(b), (one, other)


def test_a_frame_of_ones_own_is_named_on_axes_and_below(a_run):
    figure = run_figure(a_run(mf.Euclidean(2)), letter="z", note="In another frame.")
    assert figure.axes[0].get_xlabel() == "z₁"
    assert figure.get_supxlabel().endswith("In another frame.")


def test_growing_clouds_get_their_own_limits_and_shrinking_ones_do_not(a_run):
    size = np.geomspace(1, 1000, 12)[:, None, None]

    def widths(scale):
        return [np.ptp(ax.get_xlim()) for ax in run_figure(a_run(mf.Euclidean(2), scale=scale)).axes[:-2]]

    assert np.ptp(widths(1 / size)) < 1e-12
    first, *_, last = widths(size)
    assert last == pytest.approx(1000 * first)


def test_a_path_is_shown_with_its_curves():
    path = mf.evolve(mf.SoftmaxAttention.isotropic(2, 1.0), mf.Particles.iid(mf.Sphere(2), 4, key=0), [0.0, 0.5, 1.0])
    order = np.asarray(path.map(mf.diagnostics.order_parameter))
    figure = run_figure(plotting.Record(path, {"order": plotting.TimeSeries(order, "order parameter")}, "four tokens"))
    (curve,) = (line for line in figure.axes[-1].lines if line.get_gid() == "order")
    np.testing.assert_array_equal(curve.get_ydata(), order)
    assert [ax.get_title() for ax in figure.axes[:-1]] == ["t = 0", "t = 0.5", "t = 1"]


@given(st.lists(numbers, max_size=30))
@settings(deadline=None, max_examples=60)
def test_telling_frames_increase_from_the_first_to_the_last(series):
    frames = key_frames(np.array(series))
    assert len(frames) == min(len(series), 4)
    assert all(a < b for a, b in pairwise(frames))
    assert not frames or (frames[0], frames[-1]) == (0, len(series) - 1)


def test_telling_frames_are_at_thirds_of_the_change():
    assert key_frames([0, 1, 2, 3, 3, 3]) == (0, 1, 2, 5)
    assert key_frames(np.linspace(5, 8, 301)) == (0, 100, 200, 300)
    assert key_frames(np.linspace(8, 5, 301)) == (0, 100, 200, 300)
    assert key_frames(np.geomspace(1, 1e6, 301)) == (0, 100, 200, 300)
    assert key_frames(np.ones(10)) == (0, 3, 6, 9)
    assert key_frames(np.r_[np.zeros(50), np.ones(50)]) == (0, 50, 51, 99)


def test_times_are_told_apart():
    assert short_times([0.0, 1.8333333, 20.0]) == ["0", "1.83", "20"]
    assert short_times([1.0001, 1.0002]) == ["1.0001", "1.0002"]
    assert clock_times(np.linspace(0, 2, 5)) == ["0.0", "0.5", "1.0", "1.5", "2.0"]
    for times in (np.linspace(0, 20, 121), np.geomspace(1e-9, 1e12, 50), 1e12 + np.arange(9.0)):
        assert len(set(clock_times(times))) == len(times)


def test_caption_says_what_is_grey():
    assert "20" not in caption(np.arange(20), mf.Sphere(2))
    assert "10 largest of 20; the others grey" in caption(np.arange(40) % 20, mf.Sphere(2))
    assert "Colour" not in caption(None, mf.Sphere(2))
    assert "grey: 1 token in none" in caption([0, 0, 1, 1, -1], mf.Sphere(2))
    assert "No cluster stands out" in caption([-1, -1], mf.Sphere(2))
    assert "Area" not in caption([0, 1], mf.Euclidean(1))
