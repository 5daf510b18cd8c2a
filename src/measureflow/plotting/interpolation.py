"""Several measures under one schedule: where they are at the ends of its stages, and how far from their targets."""

from collections.abc import Sequence

import numpy as np

from measureflow.annotations import Numbers
from measureflow.plotting.captions import write_title
from measureflow.plotting.colours import FAINT, INK, cluster_colours
from measureflow.plotting.layout import AnyFigure, page
from measureflow.plotting.record import Recorded
from measureflow.plotting.run import draw_row


def interpolation_figure(
    run: Recorded,
    errors: Numbers,
    labels: Numbers,
    stages: Sequence[tuple[str, float | int]] = (),
    *,
    figure: AnyFigure | None = None,
) -> AnyFigure:
    """Draw several measures that move under one schedule: their tokens above, their distances to their targets below.

    `errors` `(N, frames)` are the distances and `labels` `(n,)` say to which measure a token belongs. `stages` are names and
    end times of the schedule; tokens are drawn at four of them, the first and the last among these.
    """
    errors, labels = np.asarray(errors, float), np.asarray(labels)
    named = list(stages) or [("start", run.times[0]), ("end", run.times[-1])]
    some = [named[i] for i in np.unique(np.linspace(0, len(named) - 1, 4).round().astype(int))]
    shown = [int(np.abs(run.times - end).argmin()) for _, end in some]
    figure = page(figure, 12, 7, h_pad=0.1, w_pad=0.1, hspace=0.02)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.2, 1.0))[:, 0]
    row = above.subplots(1, len(shown), squeeze=False)[0]
    draw_row(row, run.times[shown], [run.at(i) for i in shown], labels, "x")
    for ax, (name, end) in zip(row, some, strict=True):
        ax.set_title(f"{name if name == 'start' else f'after {name}'}, t = {end:.3g}", fontsize=13, color=INK)
    ax = below.subplots()
    floor = max(errors[errors > 0].min(initial=np.inf), 1e-16) / 2
    colours = cluster_colours(labels)[np.unique(labels, return_index=True)[1]]
    for k, (values, colour) in enumerate(zip(errors, colours, strict=True)):
        ax.plot(run.times, np.maximum(values, floor), color=colour, linewidth=2, label=f"measure {k + 1}", gid="found")
    for i, ((name, end), (_, start)) in enumerate(zip(named[1:], named, strict=False)):
        ax.axvspan(start, end, color=FAINT, alpha=0.12 if i % 2 else 0.0, linewidth=0)
        ax.text(
            (start + end) / 2, 0.97, name, transform=ax.get_xaxis_transform(), fontsize=10, color=INK, ha="center", va="top",
            rotation=0 if end - start > 0.07 * run.times[-1] else 90,
        )  # fmt: skip
    ax.set(yscale="log", xlim=(run.times[0], run.times[-1]), ylim=(floor, 30 * errors.max()))
    if len(errors) <= 8:
        ax.legend(fontsize=10, frameon=False, loc="lower left")
    ax.set_xlabel("time t", fontsize=12, color=INK)
    ax.set_ylabel("W₂ to the target (angle)", fontsize=12, color=INK)
    ax.tick_params(labelsize=10, colors=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    write_title(figure, run.title)
    return figure
