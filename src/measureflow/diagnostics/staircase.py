"""Metastability read off a curve: the plateaus of an energy or of a number of clusters, and the jumps between them.

These functions look at numbers on the host.
"""

import itertools
from typing import NamedTuple

import numpy as np

from measureflow.annotations import Numbers
from measureflow.precision import keep_all


class Plateaus(NamedTuple):
    """Plateaus in the order of time: when each starts and ends, its height, and when the curve is halfway to the next."""

    starts: np.ndarray
    ends: np.ndarray
    heights: np.ndarray
    jumps: np.ndarray

    def __repr__(self) -> str:
        rows = zip(self.heights, self.starts, self.ends, strict=True)
        return "Plateaus(" + "; ".join(f"{height:.4g} for t = {a:.4g} to {b:.4g}" for height, a, b in rows) + ")"


def plateaus(
    times: Numbers, values: Numbers, *, tolerance: float = 0.02, least: float = 0.05, log: bool = False
) -> Plateaus:
    """The plateaus of a curve: longest stretches in which it stays within `tolerance` of its whole range.

    The longest stretch of all comes first, then the longest of what is left on both sides of it, and so on down to `least` of the
    time there is; with `log` in logarithms of time, which is how metastable clusters wait. With `tolerance=0` the curve must not
    change at all, as a number of clusters does not.

    >>> t = np.linspace(0.0, 10.0, 1001)
    >>> mf.diagnostics.plateaus(t, np.tanh(5 * (t - 2)) + 2 * np.tanh(5 * (t - 6)))
    Plateaus(-3 for t = 0 to 1.72; -1 for t = 2.33 to 5.56; 3 for t = 6.35 to 10)
    """
    times, values = np.asarray(times, float), np.asarray(values, float)
    if times.ndim != 1 or times.shape != values.shape or len(times) < 2:
        raise ValueError(
            f"`times` and `values` must be two lists of one length, at least 2; got shapes {times.shape} and {values.shape}."
        )
    if not np.isfinite(values).all() or not (np.diff(times) >= 0).all():
        raise ValueError("`values` must be finite, and `times` must not decrease.")
    if log and times[0] <= 0:
        raise ValueError(f"`times` must be positive where their logarithms are taken; got {times[0]:g} first.")
    if not (0 <= tolerance < 1 and 0 < least <= 1):
        raise ValueError(
            f"`tolerance` is a share of the range of the curve and `least` one of the time; got {tolerance:g} and {least:g}."
        )
    clock = np.log(times) if log else times
    found = sorted(_longest(clock, values, tolerance * np.ptp(values), least * np.ptp(clock), 0, len(times)))
    heights = np.array([np.median(values[first:last]) for first, last in found])
    gaps = [(last - 1, first) for (_, last), (first, _) in itertools.pairwise(found)]
    halfway = [
        _crossing(clock[a : b + 1], values[a : b + 1], (low + high) / 2)
        for (a, b), low, high in zip(gaps, heights[:-1], heights[1:], strict=True)
    ]
    return Plateaus(
        starts=np.array([times[first] for first, _ in found]),
        ends=np.array([times[last - 1] for _, last in found]),
        heights=heights,
        jumps=np.exp(halfway) if log else np.array(halfway),
    )


def _longest(
    clock: np.ndarray, values: np.ndarray, width: float, least: float, first: int, last: int
) -> list[tuple[int, int]]:
    """The longest stretch between two frames in which the curve stays within a width, and those on both sides of it."""
    best, length, begin = (first, first), 0.0, first
    low = high = values[first] if first < last else 0.0
    for end in range(first, last):
        low, high = min(low, values[end]), max(high, values[end])
        while high - low > width:
            begin += 1
            low, high = values[begin : end + 1].min(), values[begin : end + 1].max()
        if clock[end] - clock[begin] > length:
            best, length = (begin, end + 1), clock[end] - clock[begin]
    if length == 0 or length < least:
        return []
    before = _longest(clock, values, width, least, first, best[0])
    return [*before, best, *_longest(clock, values, width, least, best[1], last)]


def _crossing(clock: np.ndarray, values: np.ndarray, level: float) -> float:
    """When a curve first passes a level between two of its values."""
    above = values > level
    i = int(np.argmax(above != above[0]))
    if i == 0:  # it never does: the plateaus differ by less than rounding
        return float(clock.mean())
    share = (level - values[i - 1]) / (values[i] - values[i - 1])
    return float(clock[i - 1] + share * (clock[i] - clock[i - 1]))


keep_all(globals())
