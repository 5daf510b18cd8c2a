"""The picture of a benchmark."""

import itertools
from collections.abc import Sequence
from typing import Any

from measureflow.plotting.colours import PALETTE
from measureflow.plotting.layout import AnyFigure, page


def bench_figure(rows: Sequence[dict[str, Any]], *, figure: AnyFigure | None = None) -> AnyFigure:
    """Time against the number of tokens for each engine and peer, both axes logarithmic; ours are solid, peers dashed.

    The grey line is the time of the exponentials alone, which no sum over all pairs can beat.
    """
    figure = page(figure, 8, 5.5)
    ax = figure.subplots()
    ours = {row["name"]: row["ours"] for row in rows}
    names = sorted(ours, key=lambda name: (not ours[name], name))
    for name, colour in zip(names, itertools.cycle(PALETTE), strict=False):
        mine = sorted((row["n"], 1e3 * row["seconds"]) for row in rows if row["name"] == name)
        style = "-" if ours[name] else "--"
        ax.plot(*zip(*mine, strict=True), style, marker="o", color=colour, label=name, linewidth=1.8, markersize=4)
    bound = sorted({(row["n"], 1e3 * row["limit"]) for row in rows if row["limit"] is not None})
    if bound:
        ax.plot(*zip(*bound, strict=True), color="#9A9A9A", linewidth=4, alpha=0.5, label="limit of all pairs")
    ax.set(xscale="log", yscale="log", xlabel="tokens n", ylabel="milliseconds for one attention map")
    first = rows[0]
    ax.set_title(f"d = {first['dim']}, β = {first['beta']:g}, {first['dtype']}", fontsize=12)
    ax.grid(which="major", color="#E0E0E0", linewidth=0.7)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
