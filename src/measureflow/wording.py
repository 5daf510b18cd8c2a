"""Results in words: numbers without the noise of rounding, and tables whose words are explained below them.

Needs no JAX, so that whatever is stored can be shown without it.
"""

import html
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

ROUNDINGS = 100
"""Units in the last place that a sum may be off by: those of ten thousand terms, whose signs are random."""


def rounding(precision: str | np.dtype, *sizes: float) -> float:
    """What counts as zero among numbers of given sizes: a hundred units in the last place of the largest."""
    return ROUNDINGS * float(np.finfo(precision).eps) * max(map(abs, sizes))


def number(value: float, rounding: float = 0.0, format: str = ".4g") -> str:
    """A number as text; one that is not above its rounding is zero."""
    return "0" if abs(value) <= rounding else f"{value:{format}}"


@dataclass(frozen=True)
class Stat:
    """A number that a run tells once, such as its steps or its error, declared by whoever computes it.

    `label` and `text` make its row of the table: a format of all stats of the run, such as `"{steps} and {rejected} rejected"`,
    or a function of them. Without a label it has no row of its own. `summed` says that the numbers of legs add up.
    """

    name: str
    label: str = ""
    text: str | Callable[[Mapping[str, Any]], str] = ""
    summed: bool = False

    def told(self, stats: Mapping[str, Any]) -> str:
        """The number in words, given all stats of its run."""
        return self.text.format(**stats) if isinstance(self.text, str) else self.text(stats)


def stat_rows(declared: tuple[Stat, ...], stats: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A row for each declared number that a run has, in the order of the declarations."""
    return ((stat.label, stat.told(stats)) for stat in declared if stat.label and stat.name in stats)


@dataclass(frozen=True)
class Note:
    """A word of a table, in one line and in a paragraph with its formula."""

    word: str
    line: str
    paragraph: str


@dataclass(frozen=True)
class Report:
    """Rows of a name and a text, and notes on their words; `str` aligns them, a notebook shows them as a table."""

    rows: tuple[tuple[str, str], ...]
    notes: tuple[Note, ...] = ()

    def __add__(self, other: "Report") -> "Report":
        return Report(self.rows + other.rows, self.notes + other.notes)

    def __str__(self) -> str:
        width = max((len(name) for name, _ in self.rows), default=0)
        return "\n".join([f"{name:<{width}}  {text}" for name, text in self.rows] + self.explanation())

    def explanation(self, full: bool = False) -> list[str]:
        """The notes as lines, or in full as paragraphs."""
        return [f"{note.word}: {f'{note.line} {note.paragraph}' if full else note.line}" for note in self.notes]

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><td>{html.escape(a)}</td><td>{html.escape(b)}</td></tr>" for a, b in self.rows)
        return f"<table>{cells}</table>" + "".join(map(_details, self.notes))


def _details(note: Note) -> str:
    word, line, paragraph = map(html.escape, (note.word, note.line, note.paragraph))
    return f"<details><summary><b>{word}</b>: {line}</summary>{paragraph}</details>"
