"""What is drawn around the tokens: a circle, a glass globe with its great circles, a disc, a box, or plain axes."""

from functools import lru_cache
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from matplotlib.ticker import MaxNLocator

from measureflow.plotting.colours import FAINT, INK
from measureflow.plotting.view import View
from measureflow.spaces import AbstractSpace

GLASS = 1.0
"""The layer of the ball and of what lies behind it; higher layers are drawn later."""

BACK = 2.0
"""The layer of tokens at the back of the ball."""

FRONT = 3.0
"""The layer of tokens in front."""

GLASS_TONE = (0.91, 0.93, 0.96)
"""The colour of the ball, in which tokens at its back fade."""

RIM = 1.13
"""Half the width of the picture of a unit circle."""


def backdrop(ax: Axes, space: AbstractSpace, view: View, scale: float | int = 1) -> None:
    """Set up the axes for a space: outline or ticks, limits and equal aspect."""
    match space.spherical, space.dim:
        case True, 2:
            _circle(ax, scale)
        case True, 3:
            _globe(ax, view, scale)
        case True, _:
            _disc(ax, view, scale)
        case False, 1:
            _line(ax, view, scale)
        case False, 3:
            _box(ax, view, scale)
        case _:
            _plane(ax, view, scale)


def _square(ax: Axes, view: View, half: float) -> None:
    ax.set(
        xlim=(view.middle[0] - half, view.middle[0] + half), ylim=(view.middle[1] - half, view.middle[1] + half),
        aspect="equal",
    )  # fmt: skip


def _bare(ax: Axes, half: float) -> None:
    """Axes of a picture without coordinates."""
    ax.set(xlim=(-half, half), ylim=(-half, half), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def _circle(ax: Axes, scale: float | int) -> None:
    _bare(ax, RIM)
    ax.add_patch(Circle((0, 0), 1.0, fill=False, edgecolor=FAINT, linewidth=scale, zorder=GLASS))
    ax.plot(0, 0, marker="+", color=FAINT, markersize=6 * scale, markeredgewidth=0.8 * scale, zorder=GLASS)


def _disc(ax: Axes, view: View, scale: float | int) -> None:
    """The shadow of a sphere of many dimensions: tokens may be anywhere inside."""
    _bare(ax, RIM)
    ax.add_patch(Circle((0, 0), 1.0, facecolor="#F3F5F8", edgecolor=FAINT, linewidth=scale, zorder=GLASS))
    for line in (ax.axhline, ax.axvline):
        line(0, 1 / 2 - 1 / (2 * RIM), 1 / 2 + 1 / (2 * RIM), color="#DDE1E7", linewidth=0.7 * scale, zorder=GLASS)
    _name_components(ax, view, scale)


def _name_components(ax: Axes, view: View, scale: float | int) -> None:
    first, second = view.shares or (0.0, 0.0)
    size = 10.5 * scale**0.5
    ax.set_xlabel(f"PC 1 ({first:.0%} of variance)", fontsize=size, color=INK)
    ax.set_ylabel(f"PC 2 ({second:.0%} of variance)", fontsize=size, color=INK)


def _globe(ax: Axes, view: View, scale: float | int) -> None:
    _bare(ax, RIM)
    glass = ax.imshow(
        _glass(), extent=(-1, 1, -1, 1), origin="lower", interpolation="bilinear", zorder=GLASS, aspect="equal"
    )
    rim = ax.add_patch(Circle((0, 0), 1.0, fill=False, edgecolor=FAINT, linewidth=scale, zorder=BACK + 0.5))
    glass.set_clip_path(rim)
    ax.set(xlim=(-RIM, RIM), ylim=(-RIM, RIM))
    for circle in _great_circles():
        x, y, depth = view.place(circle).T
        for seen, layer, tone in ((depth < 0, GLASS + 0.1, "#DCE0E7"), (depth >= 0, BACK + 0.5, "#B9BFC9")):
            ax.plot(np.where(seen, x, np.nan), y, color=tone, linewidth=0.6 * scale, zorder=layer)


@lru_cache
def _glass(pixels: int = 240) -> np.ndarray:
    """A ball lit from the upper left, as an image."""
    side = np.linspace(-1, 1, pixels)
    x, y = np.meshgrid(side, side)
    height = np.sqrt(np.clip(1 - x**2 - y**2, 0, None))
    light = np.clip(-0.4 * x + 0.5 * y + 0.77 * height, 0, 1)
    return np.array([0.85, 0.88, 0.92]) + light[..., None] * np.array([0.14, 0.11, 0.075])


@lru_cache
def _great_circles() -> np.ndarray:
    """The equator and six meridian circles, `(7, points, 3)`."""
    s = np.linspace(0, 2 * np.pi, 181)
    meridians = [np.outer(np.cos(s), [np.cos(a), np.sin(a), 0]) + np.outer(np.sin(s), [0, 0, 1])
                 for a in np.arange(6) * np.pi / 6]  # fmt: skip
    return np.array([np.stack([np.cos(s), np.sin(s), 0 * s], -1), *meridians])


def _plane(ax: Axes, view: View, scale: float | int) -> None:
    _square(ax, view, view.reach)
    _ruled(ax, scale)
    if view.shares is None:
        ax.set_xlabel(f"{view.letter}₁", fontsize=10.5 * scale**0.5, color=INK)
        ax.set_ylabel(f"{view.letter}₂", fontsize=10.5 * scale**0.5, color=INK)
    else:
        _name_components(ax, view, scale)


def _line(ax: Axes, view: View, scale: float | int) -> None:
    ax.set(xlim=(view.middle[0] - view.reach, view.middle[0] + view.reach), ylim=(-0.08, 1.08), box_aspect=0.85)
    _ruled(ax, scale)
    ax.set_yticks([])
    ax.set_xlabel(view.letter, fontsize=10.5 * scale**0.5, color=INK)
    ax.set_ylabel("tokens, side by side", fontsize=10.5 * scale**0.5, color=INK)


def _ruled(ax: Axes, scale: float | int) -> None:
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ax.tick_params(labelsize=9.5 * scale**0.5, colors=INK, length=3)
    ax.grid(color="#E8EAEE", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[:].set_color(FAINT)


def _box(ax: Axes, view: View, scale: float | int) -> None:
    """The far edges of the cube around the cloud, with each coordinate's range on an outer edge."""
    half = 1.68 * view.reach
    _square(ax, view, half)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    corners = np.array(list(product((-1, 1), repeat=3)))
    nearest = corners[np.argmax(corners @ view.axes[:, 2])]
    edges = [(a, b) for a in corners for b in corners if (b - a).sum() == 2 and np.abs(b - a).sum() == 2]
    for a, b in edges:
        if (a != nearest).any() and (b != nearest).any():
            ends = view.middle + view.reach * np.array([a, b]) @ view.axes
            ax.plot(*ends[:, :2].T, color="#C4C9D1", linewidth=0.8 * scale, zorder=GLASS)
    for coordinate in range(3):
        _name_edge(ax, view, coordinate, edges, scale)


def _name_edge(ax: Axes, view: View, coordinate: int, edges: list, scale: float | int) -> None:
    """Write round numbers and the name of a coordinate along an outer edge: the lowest, or the leftmost if upright."""
    upright = coordinate == 2
    parallel = [np.mean(edge, axis=0) for edge in edges if edge[0][coordinate] != edge[1][coordinate]]
    edge = min(parallel, key=lambda middle: (middle @ view.axes)[0 if upright else 1])
    along, outward = view.axes[coordinate, :2], edge @ view.axes[:, :2]
    outward = outward - outward @ along / (along @ along) * along
    outward = outward / np.linalg.norm(outward)

    def write(text: str, offset: float, gap: np.ndarray, size: float) -> None:
        at = np.where(np.arange(3) == coordinate, offset, edge)
        x, y = (view.middle + view.reach * at @ view.axes)[:2] + view.reach * gap
        ax.text(x, y, text, ha="right" if upright else "center", va="center", fontsize=size * scale**0.5, color=INK)

    name = view.letter + "₁₂₃"[coordinate]
    write(name, *((1.0, np.array([0.05, 0.14])) if upright else (0.0, 0.36 * outward)), size=10.5)
    for value, offset in _ticks((view.axes @ view.middle)[coordinate], view.reach):
        write(f"{value:g}".replace("-", "−"), offset, (0.06 if upright else 0.16) * outward, size=9.0)


def _ticks(centre: float, reach: float) -> list[tuple[float, float]]:
    """Round numbers on an edge and where they are on it, from -1 to 1; those next to a corner are left out."""
    values = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(centre - reach, centre + reach)
    return [(value, (value - centre) / reach) for value in values if abs(value - centre) < 0.85 * reach]
