"""A small sweep that several tests look at, computed once."""

import pytest

import measureflow as mf
from measureflow.sweeps import cells


@pytest.fixture(scope="session")
def base():
    """The settings that all cells of the small sweep share."""
    return {"n": 6, "dim": 3, "time": 1.0, "solver": "rk4", "dt": 0.25, "frames": 5, "series": ["met", "overlap"]}


@pytest.fixture(scope="session")
def swept(base, tmp_path_factory):
    """A small sweep that keeps its series, which nobody changes."""
    axes = {"beta": [0.5, 4.0], "seed": [0, 1, 2]}
    return mf.runs.sweep(base, axes, tmp_path_factory.mktemp("sweeps") / "small", keep="series")


@pytest.fixture
def computed(monkeypatch):
    """The cells of commands that are computed from now on."""
    seen = []
    rows = cells.CommandWork.rows

    def count(self, chunk):
        seen.extend(chunk.cells)
        return rows(self, chunk)

    monkeypatch.setattr(cells.CommandWork, "rows", count)
    return seen
