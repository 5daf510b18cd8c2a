"""What a result can do in the hand of its user: be drawn, saved and shown.

Results live on low floors and pictures and files on high ones, so what a result needs from above is named here and found
when it is asked for. Nothing below depends on it: this is the one place where the house calls upwards.
"""

import importlib
from collections.abc import Callable
from typing import Any


def load(reference: str | Callable[..., Any]) -> Any:
    """What a reference `"module:name"` stands for; an object stands for itself."""
    if not isinstance(reference, str):
        return reference
    module, _, names = reference.partition(":")
    found = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    return found


def call(name: str, *arguments: Any, **options: Any) -> Any:
    """Call a function for results, of the floor that knows how they are drawn and kept."""
    return load(f"measureflow.runs.results:{name}")(*arguments, **options)


class OnDesk:
    """A path or a run, as a user holds it: a sequence of measures that can be drawn, saved and taken elsewhere."""

    __slots__ = ()

    def plot(self, **options: Any) -> Any:
        """The picture, a matplotlib figure that a notebook shows.

        `energy` adds its curve, `series` those of other functions of a measure by their label, `title` replaces the title.
        """
        return call("figure", self, **options)

    def movie(self, file: Any, **options: Any) -> Any:
        """Write the motion as a moving picture, `.gif` or `.mp4`, and return where."""
        return call("movie", self, file, **options)

    def save(self, file: Any) -> Any:
        """Write everything into one file, `.npz`, which `mf.load` reads back to the same bits; return where."""
        return call("save", self, file)

    def to_xarray(self) -> Any:
        """The frames as an xarray dataset, with the dimensions `time`, `token`, `coordinate` and so on."""
        return call("to_xarray", self)

    def _repr_html_(self) -> str:
        return call("card", self)


def frame_at(times: Any, i: int | None, time: float | None) -> int:
    """The index of a frame, given itself or its time; a time between frames is refused, since nothing was computed there."""
    if (i is None) == (time is None):
        raise TypeError("`at` takes the index of a frame or `time=`, one of the two.")
    if time is None:
        return i  # pyright: ignore[reportReturnType]
    import numpy as np

    times = np.asarray(times, float)
    i = int(np.abs(times - time).argmin())
    if abs(times[i] - time) > 1e-6 * max(abs(time), float(np.diff(times).min(initial=1.0))):
        raise ValueError(
            f"There is no frame at t = {time:g}; the nearest is frame {i} at t = {times[i]:g}. Ask for that, or have `time` "
            "among the times of the flow."
        )
    return i
