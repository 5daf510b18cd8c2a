"""The timings of `measureflow bench` as tables for a terminal, a picture, and rows for a JSON file."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from measureflow.sums import Cost

Row = dict[str, Any]
"""One timing: who did which work, in how many seconds, and with which error."""


def comparison(rows: Iterable[Row]) -> Table:
    """Engines and peers side by side, with a section for each number of tokens."""
    table = Table("n", "engine or peer", "milliseconds", "times the fastest", "pairs a second", "MB", "error")
    before = None
    for row in rows:
        if before is not None and before != row["n"]:
            table.add_section()
        before = row["n"]
        figures = (
            f"{1e3 * row['seconds']:.2f}",
            f"{row['ratio']:.2f}",
            f"{row['pairs_per_second']:.2e}",
            "?" if row["megabytes"] is None else f"{row['megabytes']:.0f}",
            f"{row['error']:.1e}",
        )
        table.add_row(str(row["n"]), row["name"], *figures)
    return table


def gpu_table(rows: Iterable[Row]) -> Table:
    """What a GPU does, row by row."""
    table = Table("work", "engine or peer", "n", "d", "precision", "milliseconds", "a second", "error")
    for row in rows:
        error = "" if row["error"] is None else f"{row['error']:.1e}"
        size = (f"{row['n']}", f"{row['dim']}", row["dtype"])
        table.add_row(row["work"], row["name"], *size, f"{1e3 * row['seconds']:.3f}", f"{row['per_second']:.2e}", error)
    return table


def costs_table(costs: Mapping[str, Cost]) -> Table:
    """The measured costs of engines."""
    table = Table("engine", "start", "a pair", "a pair and coordinate", "a token", title="seconds")
    for name, cost in costs.items():
        table.add_row(name, *(f"{number:.1e}" if number else "" for number in cost))
    return table


def write_rows(file: str | Path, rows: list[Row]) -> None:
    """Write rows into a JSON file."""
    Path(file).write_text(json.dumps(rows, indent=2) + "\n")


def write_picture(file: str | Path, rows: list[Row]) -> None:
    """Draw time against the number of tokens into a file."""
    from measureflow.plotting.bench import bench_figure

    bench_figure(rows).savefig(file)
