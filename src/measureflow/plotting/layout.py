"""The figure that a picture is drawn into, its panels, and the labels of their axes.

Every figure function draws into the figure or subfigure that it is given, and makes a figure of its own otherwise.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from typing_extensions import TypeVar

from measureflow.plotting.captions import write_title
from measureflow.plotting.colours import FAINT, INK

AnyFigure = TypeVar("AnyFigure", bound=FigureBase, default=Figure)
"""A figure, of pyplot or not, or a subfigure; a function that is given none makes a figure."""


def page(
    figure: AnyFigure | None,
    width: float | int,
    height: float | int,
    *,
    h_pad: float | None = None,
    w_pad: float | None = None,
    hspace: float | None = None,
) -> AnyFigure:
    """The figure that was given, or a new one of some inches, whose constrained layout has these paddings.

    A given figure without a layout, or the figure that a given subfigure is part of, gets the constrained layout, so that
    labels have room.
    """
    if figure is None:
        layout = ConstrainedLayoutEngine(h_pad=h_pad, w_pad=w_pad, hspace=hspace)
        return Figure(figsize=(width, height), dpi=150, layout=layout)  # pyright: ignore[reportReturnType]
    if not isinstance(figure, FigureBase):
        raise TypeError(f"`figure` takes a figure or subfigure of matplotlib; got {type(figure).__name__}.")
    whole = figure.get_figure(root=True)
    if isinstance(whole, Figure) and whole.get_layout_engine() is None:
        whole.set_layout_engine("constrained")
    return figure


def check_axes(ax: object) -> None:
    """Refuse what is no axes, such as a figure or the array of axes that `subplots` returns."""
    if not isinstance(ax, Axes):
        raise TypeError(f"`ax` takes axes of matplotlib; got {type(ax).__name__}. A whole figure is given as `figure`.")


def panels(
    columns: int = 1,
    rows: int = 1,
    *,
    width: float | int = 5.2,
    height: float | int = 3.9,
    figure: AnyFigure | None = None,
) -> tuple[AnyFigure, list[Axes]]:
    """A figure and its axes, row by row; sizes of one panel are in inches and hold for a new figure."""
    figure = page(figure, width * columns, height * rows, w_pad=0.1, h_pad=0.1)
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def two_rows(
    figure: AnyFigure | None, title: str, ratios: tuple[float, float], height: float | int = 7.5
) -> tuple[AnyFigure, SubFigure, SubFigure]:
    """A figure under a title, and its upper and lower part, of heights in these ratios."""
    figure = page(figure, 12, height, h_pad=0.1, w_pad=0.1, hspace=0.02)
    write_title(figure, title)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=ratios)[:, 0]
    return figure, above, below


def label_large_axes(ax: Axes, across: str, up: str) -> Axes:
    """Label both directions of the large axes of a run's figure, and return the axes."""
    label_axes(ax, across, up)
    ax.xaxis.label.set_fontsize(13)
    ax.yaxis.label.set_fontsize(13)
    ax.tick_params(labelsize=11)
    return ax


def label_axes(ax: Axes, across: str, up: str, title: str = "") -> Axes:
    """Label both directions of axes and hide the spines above and on the right; return the axes."""
    ax.set_xlabel(across, fontsize=12, color=INK)
    ax.set_ylabel(up, fontsize=12, color=INK)
    ax.set_title(title, fontsize=12, color=INK)
    ax.tick_params(labelsize=10, colors=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    return ax
