"""Runs made of arrays, for figures."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from measureflow.plotting import TimeSeries


@dataclass
class Arrays:
    """A run of tokens from arrays: points `(k, n, dim)` and curves by name."""

    times: Any
    points: Any
    space: Any
    series: dict = field(default_factory=dict)
    title: str = ""
    weights: Any = None
    stats: dict = field(default_factory=dict)
    look: Any = None
    word_name: str = "particles"

    def __post_init__(self):
        self.times, self.points = np.asarray(self.times, float), np.asarray(self.points, float)
        if self.weights is None:
            self.weights = np.full(self.points.shape[1], 1 / self.points.shape[1])

    def at(self, i):
        return SimpleNamespace(points=self.points[i], space=self.space, weights=self.weights)


@pytest.fixture(scope="session")
def recorded():
    """A function that makes a run of tokens from arrays; energy and clusters are curves."""

    def make(times, points, space, *, title="", energy=None, clusters=None):
        series = {}
        if energy is not None:
            series["energy"] = TimeSeries(np.asarray(energy), "interaction energy E")
        if clusters is not None:
            series["clusters"] = TimeSeries(np.asarray(clusters), "number of clusters", counts=True)
        return Arrays(times, points, space, series, title)

    return make
