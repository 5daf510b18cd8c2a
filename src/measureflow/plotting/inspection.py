"""Figures of an inspected transformer: overlaps of tokens, sharpness of heads, slopes of attention, and similar heads."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.ticker import MaxNLocator, NullLocator

from measureflow.plotting.captions import fitting, inches_wide
from measureflow.plotting.colours import FAINT, INK, PALETTE
from measureflow.plotting.layout import AnyFigure, label_axes, panels
from measureflow.plotting.scales import plain_ticks

DASHES = (0, (4, 2))


@runtime_checkable
class InspectedModel(Protocol):
    """The numbers of an inspected model: its quantities as arrays `(layer, ...)` by name, and what they are drawn against."""

    def __getitem__(self, name: str, /) -> np.ndarray: ...
    def __contains__(self, name: str, /) -> bool: ...

    @property
    def depth(self) -> int:
        """The number of layers of the model."""
        ...

    @property
    def layers(self) -> np.ndarray:
        """The layers that were reached."""
        ...

    @property
    def chosen(self) -> np.ndarray:
        """The layers whose slopes were measured."""
        ...

    @property
    def lengths(self) -> np.ndarray:
        """Numbers of tokens at which slopes were measured."""
        ...

    @property
    def depths(self) -> np.ndarray:
        """Depths at which the tokens of a repeated layer were measured."""
        ...

    @property
    def tempted(self) -> np.ndarray:
        """`R^2 gamma` of each layer and head."""
        ...

    @property
    def sharpness(self) -> tuple[np.ndarray, np.ndarray]:
        """`gamma` of each layer and head, and its critical value at each layer."""
        ...


def inspection_figure(found: InspectedModel, title: str = "", *, figure: AnyFigure | None = None) -> AnyFigure:
    """Six panels: overlaps, also by chance, and their law; sharpness; slopes against n; similar heads; single layers for ever."""
    figure, axes = panels(3, 2, width=4.9, height=3.8, figure=figure)
    draw_by_chance(axes[0], found["overlap"], "mean overlap of tokens")
    draw_overlaps(axes[1], found["overlap_law"][:, 0].mean(1))
    empty = "not reached"
    if len(found.layers):
        draw_sharpness(axes[2], *found.sharpness)
        draw_similar(axes[4], found["output_cosines"][found.layers])
    if len(found.chosen):
        draw_slopes(axes[3], found)
        draw_continued(axes[5], found)
    for ax in axes:
        if not ax.has_data():
            ax.text(0.5, 0.5, empty, ha="center", va="center", color=FAINT, transform=ax.transAxes)
            ax.set_axis_off()
    if title:
        figure.suptitle(title, fontsize=fitting(title, 0.95 * inches_wide(figure)), color=INK, parse_math=False)
    return figure


def crowding_figure(found: InspectedModel, *, figure: AnyFigure | None = None) -> AnyFigure:
    """Effective rank, groups and energy across depth, each with what it would be by chance."""
    figure, axes = panels(3, 1, width=4.9, height=3.8, figure=figure)
    for ax, (name, label) in zip(
        axes,
        (("effective_rank", "effective rank"), ("groups", "groups of tokens"), ("energy", "energy / largest")),
        strict=True,
    ):
        draw_by_chance(ax, found[name], label)
    return figure


def heads_figure(found: InspectedModel, cosines: np.ndarray | None, *, figure: AnyFigure | None = None) -> AnyFigure:
    """Entropy and reach of each head, and the cosines between all heads of all layers."""
    figure, axes = panels(3, 1, width=4.9, height=4.2, figure=figure)
    entropy = found["entropy"][found.layers, 0].mean(1)
    draw_head_map(axes[0], entropy, "entropy of attention", top=1.0)
    draw_head_map(axes[1], found.tempted, "R²γ", log=True)
    if cosines is None:
        axes[2].set_axis_off()
        return figure
    image = axes[2].imshow(np.abs(cosines), cmap="Blues", vmin=0.0, vmax=1.0, gid="table")
    figure.colorbar(image, ax=axes[2], shrink=0.8, label="|cosine|")
    heads = entropy.shape[1]
    ticks = np.arange(0, len(cosines), heads * max(1, len(cosines) // heads // 6))
    axes[2].set_xticks(ticks, [f"{tick // heads}" for tick in ticks])
    axes[2].set_yticks(ticks, [f"{tick // heads}" for tick in ticks])
    label_axes(axes[2], "layer of the head", "layer of the head", "heads as particles: same A and V")
    return figure


def slopes_figure(
    found: InspectedModel, growth: Mapping[str, tuple[float, float, float]], *, figure: AnyFigure | None = None
) -> AnyFigure:
    """Slopes across layers with those by chance, exponents of their growth, and slopes of single heads."""
    figure, axes = panels(3, 1, width=4.9, height=4.0, figure=figure)
    rows = np.full((found.depth, *found["slope"].shape[1:]), np.nan)
    rows[: len(found.layers)] = found["slope"][found.layers]
    draw_by_chance(axes[0], rows[found.chosen], "slope of attention", at=found.chosen)
    axes[0].set_yscale("log")
    plain_ticks(axes[0].yaxis)
    _draw_exponents(axes[1], growth)
    draw_head_map(axes[2], found["slope_of_head"][found.chosen], "slope of one head", log=True, rows=found.chosen)
    return figure


def draw_by_chance(ax: Axes, values: np.ndarray, label: str, at: np.ndarray | None = None) -> Axes:
    """Draw numbers `(layer, kind, window)` across layers: the mean over windows and the range of nine tenths of them."""
    names = "text", "tokens shuffled", "random tokens", "random weights"
    x = np.arange(len(values)) if at is None else at
    for i, name in enumerate(names):
        rows = values[:, i]
        ax.fill_between(x, *np.quantile(rows, [0.05, 0.95], axis=1), color=PALETTE[i], alpha=0.18, linewidth=0)
        ax.plot(
            x, rows.mean(1), color=PALETTE[i], label=name, linewidth=2.4 if i == 0 else 1.5, linestyle="-" if i == 0 else DASHES,
            marker="o" if i == 0 and len(x) <= 13 else None, markersize=5, zorder=3 - i / 10, gid="found",
        )  # fmt: skip
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False, fontsize=9, labelcolor=INK)
    return label_axes(ax, "layer", label)


def draw_overlaps(ax: Axes, laws: np.ndarray) -> Axes:
    """Draw the law of overlaps of each layer, as columns of colours."""
    ax.imshow(
        laws.T / laws.max(1), origin="lower", aspect="auto", cmap="Blues", extent=(-0.5, len(laws) - 0.5, -1, 1), gid="table"
    )  # fmt: skip
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return label_axes(ax, "layer", "overlap of two tokens", "law of overlaps (each layer to its largest)")


def draw_sharpness(ax: Axes, gamma: np.ndarray, critical: np.ndarray) -> Axes:
    """Draw the sharpness of each head, and where theory puts the change from even to sharp attention."""
    layers, heads = gamma.shape
    finite = np.isfinite(gamma)
    shift = np.linspace(-0.25, 0.25, heads)[None] + np.arange(layers)[:, None]
    ax.plot(shift[finite], gamma[finite], "o", color=PALETTE[0], markersize=3.5, alpha=0.7, label="heads", gid="found")
    ax.plot(
        np.arange(layers),
        critical,
        color=INK,
        linestyle=DASHES,
        linewidth=1.4,
        label="critical: 1 / (1 − ρ)",
        gid="law",
    )
    ax.set_yscale("log")
    plain_ticks(ax.yaxis)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False, fontsize=9, labelcolor=INK)
    return label_axes(ax, "layer", "γ = effective β / log n", "sharpness of heads")


def draw_slopes(ax: Axes, found: InspectedModel) -> Axes:
    """Draw slopes against the number of tokens at the layer where they are largest: of the layer on the text and on imitations,
    and of the head that can be tempted most, the same map on the text and on adversarial tokens."""
    k, n = steepest_layer(found), found.lengths
    for (name, label), colour in zip(
        (("slope_growing", "text"), ("slope_placed", "text, fixed places")), PALETTE, strict=False
    ):
        _draw_windows(ax, n, found[name][k], colour, label)
    imitated = found["slope_imitation"][k].mean(1)
    ax.plot(n, imitated.T, color=FAINT, linewidth=1.0, label=["imitations"] + ["_"] * (len(imitated) - 1), gid="found")
    _draw_head(ax, found, k)
    bound = found["bound"][k]
    if np.isfinite(bound).all():  # far above: drawn to scale it would leave nothing of the rest
        ax.plot([], [], " ", label=f"upper bound: {bound[0]:.1g} to {bound[-1]:.1g}")
    return _label_slopes(ax, n, f"real against adversarial, layer {k}")


def draw_head_slopes(ax: Axes, found: InspectedModel) -> Axes:
    """Draw slopes of one head, the same map on the text and on adversarial tokens, against their number; return the axes."""
    k = steepest_layer(found)
    _draw_head(ax, found, k)
    return _label_slopes(ax, found.lengths, f"one head of layer {k}: real against adversarial")


def steepest_layer(found: InspectedModel) -> int:
    """The layer whose slopes on the text are largest."""
    return int(found.chosen[np.argmax(found["slope"][found.chosen, 0].mean(1))])


def _draw_head(ax: Axes, found: InspectedModel, k: int) -> None:
    """The head that can be tempted most: on the text, unless a run of before does not know it, and on adversarial tokens."""
    n, head, colour = found.lengths, int(found["worst_head"][k]), PALETTE[2]
    if "slope_of_worst_head" in found:
        _draw_windows(ax, n, found["slope_of_worst_head"][k], colour, f"head {head}, text")
    ax.plot(n, found["slope_worst"][k], "s", color=colour, markersize=5, label=f"head {head}, adversarial", gid="found")
    ax.plot(
        n,
        found["slope_sure"][k],
        color=colour,
        linestyle=DASHES,
        linewidth=1.4,
        label="its lower bound ~ √n",
        gid="law",
    )


def _draw_windows(ax: Axes, n: np.ndarray, rows: np.ndarray, colour: str, label: str) -> None:
    """The mean over windows, and their range."""
    ax.fill_between(n, rows.min(0), rows.max(0), color=colour, alpha=0.18, linewidth=0)
    ax.plot(n, rows.mean(0), "o-", color=colour, linewidth=1.8, markersize=5, label=label, gid="found")


def _label_slopes(ax: Axes, n: np.ndarray, title: str) -> Axes:
    ax.set(xscale="log", yscale="log")
    ax.set_xticks(n, [str(each) for each in n])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.legend(frameon=False, fontsize=8, labelcolor=INK, ncols=2)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** 0.35)  # room for the legend
    plain_ticks(ax.yaxis)
    return label_axes(ax, "tokens n", "slope of attention", title)


def draw_similar(ax: Axes, cosines: np.ndarray) -> Axes:
    """Draw for each head how near the nearest other head of its layer is, by what both add to the tokens."""
    others = np.abs(cosines) - 2 * np.eye(cosines.shape[1])[None]
    return draw_head_map(ax, others.max(2), "largest |cosine| of outputs with another head", top=1.0)


def draw_head_map(
    ax: Axes,
    values: np.ndarray,
    label: str,
    *,
    top: float | None = None,
    log: bool = False,
    rows: np.ndarray | None = None,
) -> Axes:
    """Draw a number of each layer and head as colours, with a bar that tells them."""
    scale: dict[str, Any] = {"norm": LogNorm()} if log else {"vmin": 0.0, "vmax": top}
    image = ax.imshow(np.ma.masked_invalid(values).T, cmap="Blues", aspect="auto", origin="lower", gid="table", **scale)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.9)
    bar.ax.tick_params(labelsize=9, colors=INK)
    if log:
        plain_ticks(bar.ax.yaxis)
    if rows is not None:
        some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), 7)).round().astype(int))
        ax.set_xticks(some, [str(rows[i]) for i in some])
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    return label_axes(ax, "layer", "head", label)


def draw_continued(ax: Axes, found: InspectedModel) -> Axes:
    """Draw how tokens come together under one layer repeated, in continuous depth, and where the model itself ends."""
    colours = np.linspace(0.25, 0.95, len(found.chosen))
    for colour, k in zip(colours, found.chosen, strict=True):
        shade = (*np.array([0.0, 0.45, 0.70]) * colour + (1 - colour) * 0.85,)
        first_or_last = k in (found.chosen[0], found.chosen[-1])
        name = f"layer {k}" if first_or_last else "_"
        ax.plot(found.depths, found["continued"][k], color=shade, linewidth=1.8, label=name, gid="found")
    ax.axvline(found.depth, color=INK, linestyle=DASHES, linewidth=1.2, gid="law")
    ax.annotate(
        "depth of the model", (found.depth, 0.02), xycoords=("data", "axes fraction"), xytext=(4, 0),
        textcoords="offset points", fontsize=9, color=INK,
    )  # fmt: skip
    ax.set_ylim(top=1.03)
    ax.legend(frameon=False, fontsize=9, labelcolor=INK, loc="best")
    return label_axes(ax, "depth", "mean overlap of tokens", "one layer for ever")


def _draw_exponents(ax: Axes, growth: Mapping[str, tuple[float, float, float]]) -> None:
    y = np.arange(len(growth))[::-1]
    for place, (name, (value, low, high)) in zip(y, growth.items(), strict=True):
        colour = PALETTE[0] if name.startswith(("as", "at")) else PALETTE[2] if name == "adversarial" else FAINT
        ax.errorbar(value, place, xerr=[[value - low], [high - value]], fmt="o", color=colour, capsize=4, gid="found")
    for mark in (0.25, 0.5):
        ax.axvline(mark, color=INK, linestyle=DASHES, linewidth=1.0, zorder=0, gid="law")
    ax.set_yticks(y, list(growth))
    ax.set_ylim(-0.6, len(growth) - 0.4)
    label_axes(ax, "exponent of n (dashed: ¼ and ½)", "", "growth of slopes with n")
