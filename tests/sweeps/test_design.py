"""Which cells a sweep has: grids, rows that go together, draws and formulas, in files and from Python."""

import math
import tomllib
from pathlib import Path

import numpy as np
import pytest

from measureflow import memory
from measureflow.sweeps import Design
from measureflow.sweeps.executor import work_of
from measureflow.words import InputError


def cells(axes, **base):
    return list(Design.of(axes, base).cells())


def test_a_grid_has_every_combination_and_the_last_axis_runs_fastest():
    assert cells({"beta": [1.0, 2.0], "seed": [0, 1]}) == [
        {"beta": 1.0, "seed": 0}, {"beta": 1.0, "seed": 1}, {"beta": 2.0, "seed": 0}, {"beta": 2.0, "seed": 1},
    ]  # fmt: skip


def test_rows_of_a_zip_go_together_and_multiply_the_grid():
    found = cells({"grid": {"seed": [0, 1]}, "zip": {"n": [4, 8], "time": [1.0, 2.0]}})
    assert [(one["n"], one["time"], one["seed"]) for one in found] == [
        (4, 1.0, 0),
        (4, 1.0, 1),
        (8, 2.0, 0),
        (8, 2.0, 1),
    ]


def test_ranges_have_both_ends_and_round_numbers():
    found = [one["beta"] for one in cells({"beta": {"from": 0.1, "to": 0.5, "count": 5}})]
    assert found == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert [one["n"] for one in cells({"n": {"from": 2, "to": 5}})] == [2, 3, 4, 5]
    assert [one["x"] for one in cells({"x": {"from": 0.0, "to": 0.3, "step": 0.1}})] == [0.0, 0.1, 0.2, 0.3]
    logs = [one["x"] for one in cells({"x": {"from": 0.01, "to": 100.0, "count": 5, "scale": "log"}})]
    assert logs == [0.01, 0.1, 1.0, 10.0, 100.0]


def test_draws_lie_in_their_ranges_and_more_rows_or_names_leave_the_others():
    drawn = {
        "beta": {"from": 1.0, "to": 3.0},
        "noise": {"from": 1e-4, "to": 1.0, "scale": "log"},
        "n": {"from": 2, "to": 9},
    }
    few, many = (cells({"random": {"count": count, "seed": 7, **drawn}}) for count in (50, 400))
    assert many[:50] == few
    alone = cells({"random": {"count": 50, "seed": 7, "beta": drawn["beta"]}})
    assert [one["beta"] for one in alone] == [one["beta"] for one in few]
    beta, noise, n = (np.array([one[name] for one in many]) for name in drawn)
    # Means of 400 uniform draws scatter by 2/sqrt(12)/20 = 0.03 and, in logarithms, by 9.2/sqrt(12)/20 = 0.13.
    assert abs(beta.mean() - 2) < 0.12
    assert abs(np.log(noise).mean() - math.log(1e-2)) < 0.55
    assert set(n.tolist()) == set(range(2, 10))
    assert cells({"random": {"count": 50, "seed": 8, **drawn}}) != few


def test_formulas_see_the_cell_and_the_base_and_nothing_else():
    found = cells({"grid": {"gamma": [2.0]}, "derived": {"beta": "gamma * log(n)", "dim": "n + 1"}}, n=7)
    assert found == [{"gamma": 2.0, "beta": 2 * math.log(7), "dim": 8}]


def test_a_design_is_read_back_from_its_own_text(tmp_path):
    axes = {
        "grid": {"beta": {"from": 0.1, "to": 0.5, "count": 5}, "attention": ["softmax", "l2"], "verify": [True, False]},
        "zip": {"n": [4, 8], "time": [1.0, 2.5]},
        "random": {"count": 3, "seed": 5, "noise": {"from": 0.1, "to": 1.0}},
        "derived": {"dim": "n + 1"},
    }
    design = Design.of(axes, {"frames": 3, "series": ["met"]}, command="simulate", title='of "it"', keep="series")
    (tmp_path / "sweep.toml").write_text(design.to_toml())
    again = Design.read(tmp_path / "sweep.toml")
    assert list(again.cells()) == list(design.cells())
    assert len(again) == len(list(again.cells())) == 5 * 2 * 2 * 2 * 3
    assert (again.base, again.section) == (design.base, design.section)


def test_names_and_titles_of_any_letters_are_read_back_in_their_order(tmp_path):
    axes = {"grid": {"γ": {"from": 1, "to": 2}, "n": [4], "a b": [1]}, "derived": {"dim": "n"}}
    design = Design.of(axes, {"frames": 3}, title='two\nlines "\x1b"')
    (tmp_path / "sweep.toml").write_text(design.to_toml(), "utf-8")
    again = Design.read(tmp_path / "sweep.toml")
    assert again.names == design.names == ("γ", "n", "a b", "dim")
    assert (again.section, list(again.cells())) == (design.section, list(design.cells()))


@pytest.mark.parametrize(
    ("axes", "sentence"),
    [
        ({}, "Nothing varies"),
        ({"beta": []}, "`sweep.grid.beta` is empty"),
        ({"beta": 3.0}, "`sweep.grid.beta` takes a list of values or a range"),
        ({"beta": [1.0, 1.0]}, "has 1.0 twice"),
        ({"beta": {"from": 0.0, "to": 1.0}}, "give it a `count` or a `step`"),
        ({"beta": {"from": 1.0, "to": 0.0, "count": 2}}, "below `from`"),
        ({"beta": {"from": 0.0, "to": 1.0, "count": 3, "scale": "log"}}, "begins above zero"),
        ({"beta": {"from": 0.0, "to": 1.0, "count": 3, "step": 0.1}}, "give one of them"),
        ({"beta": {"from": 0.0, "too": 1.0}}, "`sweep.grid.beta` takes a list of values or a range"),
        ({"zip": {"a": [1], "b": [1, 2]}}, "one length; got 1 for `a`, 2 for `b`"),
        ({"random": {"beta": {"from": 0.0, "to": 1.0}}}, "needs `count`"),
        ({"random": {"count": 3}}, "draws nothing"),
        ({"random": {"count": 3, "beta": 1.0}}, "`sweep.random.beta` takes a list"),
        ({"grid": {"x": [1]}, "zip": {"x": [1]}}, "`x` is in `.sweep.grid.` and in `.sweep.zip.`"),
    ],
)
def test_bad_designs_get_a_sentence(axes, sentence):
    with pytest.raises(InputError, match=sentence):
        Design.of(axes)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("n = 3", "has no section `.sweep.`"),
        ("n = ", "is not a TOML file"),
        ("[sweep]\ngird = 3\n", "`sweep.gird` is no part of a sweep; known are command, title"),
        (
            "[sweep]\nkeep = 'all'\n[sweep.grid]\nbeta = [1.0]",
            "`sweep.keep` must be one of final, series, runs; got 'all'",
        ),
    ],
)
def test_bad_files_get_a_sentence(tmp_path, text, sentence):
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(InputError, match=sentence):
        Design.read(tmp_path / "sweep.toml")
    with pytest.raises(InputError, match=r"cannot be read: No such file"):
        Design.read(tmp_path / "nowhere.toml")


def test_published_diagrams_are_designs_of_full_size_whose_cells_can_be_described():
    folder = Path(__file__).parents[2] / "examples" / "sweeps"
    sizes = {}
    for file in sorted(folder.glob("*.toml")):
        design = Design.read(file)
        work = work_of(design, folder)
        asked = work.asked(
            Design({**design.base}, design.section.model_copy(update={"grid": ends(design.section.grid)}))
        )
        assert not any(one.problem for one in asked), file
        sizes[file.stem] = len(design)
    assert sizes == {"meeting": 90 * 64, "dimensions": 60 * 13 * 16, "long_context": 71 * 15}
    base = tomllib.loads((folder / "meeting.toml").read_text())
    assert (base["n"], base["frames"]) == (32, 200)


def ends(grid):
    """The first and last value of each axis."""
    listed = {name: values.values() if hasattr(values, "values") else values for name, values in grid.items()}
    return {name: [values[0], values[-1]] for name, values in listed.items()}


HUGE = {
    "a long range": {"grid": {"n": {"from": 0, "to": 10**10}}},
    "a short step": {"grid": {"x": {"from": 0.0, "to": 1.0, "step": 1e-12}}},
    "a step below all others": {"grid": {"x": {"from": 0.0, "to": 1e308, "step": 1e-300}}},
    "a large count": {"grid": {"x": {"from": 0.0, "to": 1.0, "count": 10**12}}},
    "a large zip": {"zip": {"x": {"from": 0.0, "to": 1.0, "count": 10**12}}},
    "many draws": {"random": {"count": 10**12, "x": {"from": 0.0, "to": 1.0}}},
    "many combinations": {"grid": {name: {"from": 0, "to": 999} for name in ("n", "dim", "seed")}},
}


@pytest.mark.parametrize("name", HUGE)
def test_more_cells_than_fit_into_memory_are_refused_before_they_are_listed(name, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 1e10)  # two million cells
    with pytest.raises(InputError, match=r"`sweep.*` of .* cells would need about .* TB of memory, and 10 GB are free"):
        Design.of(HUGE[name])


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ({"from": 0, "to": 10**400}, "must be finite"),
        ({"from": 0, "to": 2**63}, "must be below 2.63"),
        ({"from": 0.0, "to": 1.0, "step": math.nan}, "`step` must be positive and finite"),
        ({"from": 0.0, "to": 1.0, "step": math.inf}, "`step` must be positive and finite"),
    ],
)
def test_ends_and_steps_that_no_number_reaches_are_refused(ends, sentence):
    with pytest.raises(InputError, match=sentence):
        Design.of({"grid": {"x": ends}})
    with pytest.raises(InputError, match=r"`sweep.random.x` takes a list of values or a range"):
        Design.of({"random": {"count": 3, "x": ends}})
