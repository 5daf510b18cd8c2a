"""What a path or a run can do for its user: be drawn, saved and shown.

Paths are defined in `flows`, which pictures and run folders import. So the functions for pictures and files are named here as
texts and imported when they are called. This is the only module that imports against the order of the packages.
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


class Result:
    """A path or a run: a sequence of measures that can be drawn, saved and taken elsewhere."""

    __slots__ = ()

    def plot(
        self,
        *,
        energy: Any = None,
        series: Any = None,
        title: str = "",
        figure: Any = None,
        ax: Any = None,
        show: str | None = None,
        frame: int | None = None,
        time: float | None = None,
    ) -> Any:
        """Draw the whole picture on a figure of matplotlib, or one panel on axes, and return what was drawn on.

        The whole picture has some frames and all curves over time. It is drawn into `figure`, a figure (of pyplot or not) or
        a subfigure; without one, into a new figure, which a notebook shows. `energy` adds the curve of an energy, `series`
        curves by their label (functions of a measure, or their values at the frames), and `title` replaces the title.

        One panel is drawn on `ax`: the measure of the last frame, or that of another one given by its index `frame` or its
        `time`, in the colours of the whole picture; or, with `show`, the curve of that name or label over time.

        >>> mu = mf.Particles.iid(mf.Sphere(3), 32, key=0)
        >>> path = mf.evolve(mf.SoftmaxAttention.isotropic(3, beta=4.0), mu, [0.0, 1.0, 2.0])
        >>> left, middle, right = mf.plotting.Figure(figsize=(12, 4)).subplots(1, 3)
        >>> path.plot(ax=left, time=1.0).get_title()
        't = 1'
        >>> path.plot(ax=middle, show="clusters").get_ylabel()
        'number of clusters'
        >>> path.plot(ax=right, show="energy", energy=mf.InteractionEnergy(4.0)).get_ylabel()
        'interaction energy E'
        """
        return call(
            "plot",
            self,
            energy=energy,
            series=series,
            title=title,
            figure=figure,
            ax=ax,
            show=show,
            frame=frame,
            time=time,
        )

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
        return call("summary_html", self)


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
