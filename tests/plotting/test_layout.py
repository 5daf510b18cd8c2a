"""Figure functions draw into the figure that they are given: one of pyplot, a plain one, or a subfigure."""

import importlib
import inspect
import pkgutil

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import measureflow as mf
from measureflow import plotting
from measureflow.plotting import Curve, curves_figure, label_axes, panels, run_figure

matplotlib.use("agg")

FIGURES = {
    f"{module.name}.{name}": function
    for module in pkgutil.iter_modules(plotting.__path__)
    for name, function in vars(importlib.import_module(f"measureflow.plotting.{module.name}")).items()
    if name.endswith("_figure") and inspect.isfunction(function) and function.__module__.endswith(f".{module.name}")
}


@pytest.fixture
def pyplot():
    """Pyplot, whose figures are closed again."""
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.fixture
def run(recorded):
    points = np.random.default_rng(0).normal(size=(4, 9, 2))
    return recorded(
        np.arange(4.0), points, mf.Euclidean(2), title="a few tokens", energy=np.arange(4.0), clusters=[9, 5, 2, 1]
    )


def drawn(figure):
    """The numbers of all curves and markers of a figure."""
    axes = figure.findobj(Axes)
    curves = [line.get_xydata() for ax in axes for line in ax.lines]
    markers = [found.get_offsets() for ax in axes for found in ax.collections if found.get_gid() == "tokens"]
    return np.concatenate([np.ravel(part) for part in (*curves, *markers)])


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_function_takes_a_figure(name):
    assert inspect.signature(FIGURES[name]).parameters["figure"].default is None


def test_a_given_figure_has_what_a_new_one_has(run, pyplot):
    left, right = Figure(figsize=(24, 7)).subfigures(1, 2)
    expected = drawn(run_figure(run))
    for given in (pyplot.figure(), Figure(figsize=(12, 7)), left, right):
        assert run_figure(run, figure=given) is given
        np.testing.assert_array_equal(drawn(given), expected)
        assert given.get_suptitle() == "a few tokens"


def test_only_the_given_part_of_a_figure_is_drawn_into():
    whole = Figure(layout="constrained")
    left, right = whole.subfigures(1, 2)
    curves_figure([Curve("", [0.0, 1.0], [2.0, 3.0])], "x", "y", figure=right)
    assert not left.axes
    np.testing.assert_array_equal(right.axes[0].lines[0].get_ydata(), [2.0, 3.0])


@pytest.mark.parametrize("part", [False, True], ids=["figure", "subfigure"])
def test_words_are_inside_a_given_figure_without_a_layout(run, pyplot, part):
    whole = pyplot.figure(figsize=(9, 6))
    run_figure(run, labels=np.arange(9) % 2, figure=whole.subfigures(1, 1) if part else whole)
    whole.draw_without_rendering()
    for ax in whole.axes:
        box = ax.get_tightbbox()
        assert whole.bbox.x0 <= box.x0 < box.x1 <= whole.bbox.x1
        assert whole.bbox.y0 <= box.y0 < box.y1 <= whole.bbox.y1


def test_a_layout_that_was_chosen_stays():
    given = Figure(layout="tight")
    engine = given.get_layout_engine()
    panels(2, figure=given)
    assert given.get_layout_engine() is engine


def test_panels_are_row_by_row_and_have_their_size():
    figure, axes = panels(3, 2, width=2.0, height=1.5)
    assert tuple(figure.get_size_inches()) == (6.0, 3.0)
    assert [ax.get_subplotspec().num1 for ax in axes] == list(range(6))


def test_labels_of_axes():
    (ax,) = panels()[1]
    assert label_axes(ax, "time", "risk", "a title") is ax
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("time", "risk", "a title")
    assert not ax.spines["top"].get_visible()
