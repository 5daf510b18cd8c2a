"""The words on a picture: times, captions, and titles that fit the width of the figure."""

import textwrap

import numpy as np
from matplotlib.figure import FigureBase

from measureflow.annotations import Numbers
from measureflow.plotting.colours import INK, PALETTE
from measureflow.spaces import AbstractSpace

CAPTION_COLOUR = "#606060"

LETTERS = 120
"""Letters that fit a line of one inch if they are one point high: a letter is about 0.58 of its height wide, and usually less."""


def short_times(times: Numbers) -> list[str]:
    """Times with as few digits, from three on, as tell them apart."""
    names: list[str] = []
    for digits in range(3, 18):
        names = [f"{t:.{digits}g}" for t in np.asarray(times, float)]
        if len(set(names)) == len(names):
            break
    return names


def clock_times(times: Numbers) -> list[str]:
    """Times that all show the same decimals, enough to tell neighbours apart, so that a running clock does not jump."""
    step = np.diff(np.asarray(times, float)).min(initial=np.inf)
    decimals = int(np.clip(np.ceil(-np.log10(step)), 0, 17)) if 0 < step < np.inf else 3
    names = [f"{t:.{decimals}f}" for t in np.asarray(times, float)]
    return names if max(map(len, names), default=0) <= 12 else short_times(times)


def caption(labels: Numbers | None, space: AbstractSpace) -> str:
    """What the colours and sizes of tokens mean, in a line."""
    size = "" if space.dim == 1 else "Area: share of the tokens that lie together."
    if labels is None:
        return size
    inside = np.asarray(labels)[np.asarray(labels) >= 0]
    sizes = np.unique(inside, return_counts=True)[1]
    colour = "Colour: cluster at the last time"
    if len(sizes) > len(PALETTE):
        colour += f" (the {len(PALETTE)} largest of {len(sizes)}; the others grey)"
        if sizes.max() == 1:
            colour = "No two tokens are in one cluster at the last time"
    elif not len(sizes):
        colour = "No cluster stands out at the last time"
    elif alone := np.size(labels) - len(inside):
        colour += f"; grey: {alone} token{'s' if alone > 1 else ''} in none"
    return f"{colour}.   {size}".rstrip()


def write_title(figure: FigureBase, title: str, size: float | int = 15) -> None:
    """Write a title above a figure, in smaller letters and several lines where it is too long for one."""
    if not title:
        return
    size = size if len(title) <= _letters(figure, size) else size / 1.2
    figure.suptitle(_wrapped(figure, title, size), fontsize=size, color=INK, parse_math=False)


def write_caption(figure: FigureBase, line: str, size: float | int = 9.5) -> None:
    """Write a line below a figure, broken where it is too long."""
    figure.supxlabel(_wrapped(figure, line, size), fontsize=size, color=CAPTION_COLOUR)


def fitting(title: str, inches: float) -> float:
    """A font size at which a title fits a width: letters are about 0.58 of it wide."""
    return float(np.clip(0.95 * 72 * inches / (0.58 * max(len(title), 1)), 5.0, 13.0))


def inches_wide(figure: FigureBase) -> float:
    """The width of a figure or a subfigure."""
    return float(figure.bbox.width / figure.dpi)  # pyright: ignore[reportAttributeAccessIssue]


def _letters(figure: FigureBase, size: float | int) -> float:
    """How many letters of a size fit the width of a figure."""
    return max(LETTERS * inches_wide(figure) / size, 1.0)


def _wrapped(figure: FigureBase, text: str, size: float | int) -> str:
    return "\n".join(textwrap.wrap(text, int(_letters(figure, size))))
