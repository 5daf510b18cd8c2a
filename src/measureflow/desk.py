"""What a result can do in the hand of its user: be drawn, saved and shown.

Results live on low floors and pictures and files on high ones, so what a result needs from above is named here and found
when it is asked for. Nothing below depends on it: this is the one place where the house calls upwards.
"""

import importlib
from typing import Any


def call(place: str, *arguments: Any, **options: Any) -> Any:
    """Call the function that `"module:name"` stands for."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"measureflow.{module}"), name)(*arguments, **options)


class OnDesk:
    """A path or a run, as a user holds it: a sequence of measures that can be drawn, saved and taken elsewhere."""

    __slots__ = ()

    def plot(self, **options: Any) -> Any:
        """The picture, a matplotlib figure that a notebook shows.

        `energy` adds its curve, `series` those of other functions of a measure by their label, `title` replaces the title.
        """
        return call("runs.desk:figure", self, **options)

    def movie(self, file: Any, **options: Any) -> Any:
        """Write the motion as a moving picture, `.gif` or `.mp4`, and return where."""
        return call("runs.desk:movie", self, file, **options)

    def save(self, file: Any) -> Any:
        """Write everything into one file, `.npz`, which `mf.load` reads back to the same bits; return where."""
        return call("runs.desk:save", self, file)

    def to_xarray(self) -> Any:
        """The frames as an xarray dataset, with the dimensions `time`, `token`, `coordinate` and so on."""
        return call("runs.desk:to_xarray", self)

    def _repr_html_(self) -> str:
        return call("runs.desk:card", self)


def frame_at(times: Any, time: float) -> int:
    """The index of the frame at a time; a time between frames is refused, since nothing was computed there."""
    import numpy as np

    times = np.asarray(times, float)
    i = int(np.abs(times - time).argmin())
    if abs(times[i] - time) > 1e-6 * max(abs(time), float(np.diff(times).min(initial=1.0))):
        raise ValueError(
            f"There is no frame at t = {time:g}; the nearest is frame {i} at t = {times[i]:g}. Ask for that, or have `time` "
            "among the times of the flow."
        )
    return i
