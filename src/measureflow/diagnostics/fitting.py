"""How fast something decays: a rate with the window in which it was read and how sure it is.

A decay has a beginning that is not yet a law and an end that is rounding. The window is the longest one at the late end in which
the logarithm is straight: its slopes in both halves agree. These functions look at numbers on the host.
"""

from typing import NamedTuple

import numpy as np

from measureflow.annotations import Numbers
from measureflow.precision import keep_all

STRAIGHT = 0.02
"""The slopes of both halves of a window may differ by this part; else it begins later."""

FEWEST = 8
"""Values that a window needs."""


class Decay(NamedTuple):
    """A fitted rate: `values ~ e^{-rate t}`, or `t^{-rate}`, between the two times of the window.

    `low` and `high` enclose it: twice the standard error of the fit, and the difference of its halves.
    """

    rate: float
    low: float
    high: float
    window: tuple[float, float]

    def __repr__(self) -> str:
        first, last = self.window
        return f"Decay({self.rate:.6g}, between {self.low:.6g} and {self.high:.6g}, t = {first:.4g} to {last:.4g})"


def decay(
    times: Numbers,
    values: Numbers,
    *,
    law: str = "exponential",
    floor: float = 1e-12,
) -> Decay:
    """The rate at which positive values fall, exponentially or, with `law="power"`, like a power of time.

    Values below `floor` times the largest are taken for rounding and left out, with all that come after them.

    >>> t = np.linspace(0.0, 10.0, 101)
    >>> mf.diagnostics.decay(t, np.exp(-2 * t) + np.exp(-5 * t))  # the slower one is left
    Decay(2, between 2 and 2, t = 3.9 to 10)
    """
    times, values = np.asarray(times, float), np.asarray(values, float)
    if times.ndim != 1 or times.shape != values.shape:
        raise ValueError(
            f"`times` and `values` must be two lists of one length; got shapes {times.shape} and {values.shape}."
        )
    if law not in ("exponential", "power"):
        raise ValueError(f"`law` must be 'exponential' or 'power'; got {law!r}.")
    good = (values > floor * np.nanmax(values)) & ((times > 0) | (law == "exponential"))
    first = int(np.argmax(good))
    last = first + int(np.argmin(np.append(good[first:], False)))
    x, y = times[first:last] if law == "exponential" else np.log(times[first:last]), np.log(values[first:last])
    if len(x) < FEWEST:
        raise ValueError(f"`values` has {len(x)} entries above its floor, and a rate needs at least {FEWEST}.")
    begins = range(len(x) - FEWEST + 1)
    start = next((i for i in begins if _line(x[i:], y[i:]).straight), begins[-1])
    line = _line(x[start:], y[start:])
    off = 2 * line.error + line.bend
    return Decay(
        -line.slope, -line.slope - off, -line.slope + off, (float(times[first + start]), float(times[last - 1]))
    )


class _Line(NamedTuple):
    """A line through points: its slope with the standard error, and by how much the slopes of both halves differ."""

    slope: float
    error: float
    bend: float

    @property
    def straight(self) -> bool:
        return self.bend <= STRAIGHT * abs(self.slope)


def _line(x: np.ndarray, y: np.ndarray) -> _Line:
    half = len(x) // 2
    early, late = (np.polyfit(x[part], y[part], 1)[0] for part in (slice(half + 1), slice(half, None)))
    slope, offset = np.polyfit(x, y, 1)
    error = np.sqrt(((y - slope * x - offset) ** 2).sum() / (len(x) - 2) / ((x - x.mean()) ** 2).sum())
    return _Line(float(slope), float(error), float(abs(late - early)))


keep_all(globals())
