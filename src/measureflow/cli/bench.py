"""`measureflow bench`: our engines and what a user would pick instead, side by side."""

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from measureflow.cli import prepare_jax
from measureflow.runs.settings import InputError

if TYPE_CHECKING:
    from rich.console import Console


def bench(
    n: Annotated[tuple[int, ...], tyro.conf.arg(metavar="INT [INT ...]")] = (512, 2048, 8192),
    dim: int = 3,
    beta: float = 4.0,
    dtype: Literal["float32", "float64"] = "float32",
    repeats: int = 7,
    json_file: Annotated[str | None, tyro.conf.arg(name="json", metavar="FILE")] = None,
    picture: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
    calibrate: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Time one attention map on the sphere with every engine and installed peer, interleaved; print medians and ratios.

    Args:
        n: Numbers of tokens.
        dim: Coordinates of a token.
        beta: Inverse temperature.
        dtype: Precision.
        repeats: Interleaved runs of which the median is taken.
        json_file: Also write the rows to this file.
        picture: Also draw time against n into this file.
        calibrate: Instead, measure what each engine costs here and keep it, so that the choice of engines fits this machine.
    """
    problems = _problems(n, dim, beta, repeats, {"json": json_file, "picture": picture})
    if problems:
        raise InputError(*problems)
    prepare_jax()
    from rich.console import Console
    from rich.table import Table

    from measureflow.runs.bench import compare, missing

    console = Console()
    if calibrate:
        return _calibrate(console, dtype, repeats)
    table = Table("n", "engine or peer", "milliseconds", "times the fastest", "pairs a second", "MB", "error")
    rows = []
    for row in compare(list(n), dim, beta, dtype, repeats):
        if rows and rows[-1]["n"] != row["n"]:
            table.add_section()
        rows.append(row)
        figures = (
            f"{1e3 * row['seconds']:.2f}",
            f"{row['ratio']:.2f}",
            f"{row['pairs_per_second']:.2e}",
            "?" if row["megabytes"] is None else f"{row['megabytes']:.0f}",
            f"{row['error']:.1e}",
        )
        table.add_row(str(row["n"]), row["name"], *figures)
    console.print(table)
    if absent := missing():
        console.print(f"Not here, and skipped: {', '.join(absent)}.")
    if json_file is not None:
        Path(json_file).write_text(json.dumps(rows, indent=2) + "\n")
    if picture is not None:
        from measureflow.plotting.bench import bench_figure

        bench_figure(rows).savefig(picture)
    return 0


def _problems(n: tuple[int, ...], dim: int, beta: float, repeats: int, outputs: dict[str, str | None]) -> list[str]:
    """A sentence for each thing that is wrong, before anything is timed."""
    numbers = (("n", n), ("dim", (dim,)), ("repeats", (repeats,)))
    said = [
        f"`{name}` must be at least 1; got {min(values, default='nothing')}."
        for name, values in numbers
        if min(values, default=0) < 1
    ]
    if not math.isfinite(beta):
        said.append(f"`beta` must be a finite number; got {beta}.")
    return said + [sentence for name, file in outputs.items() if (sentence := _unwritable(name, file))]


def _unwritable(name: str, file: str | None) -> str:
    """Why a file cannot be written, in a sentence; nothing if it can."""
    if file is None:
        return ""
    path = Path(file)
    if not path.parent.is_dir():
        return f"`{name}`: there is no folder {str(path.parent)!r} to write {file!r} to."
    if path.is_dir():
        return f"`{name}`: {file!r} is a folder; give the name of a file."
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return f"`{name}`: {file!r} cannot be written; permission is denied."
    return _no_picture(path) if name == "picture" else ""


def _no_picture(path: Path) -> str:
    from measureflow.plotting.bench import formats

    if path.suffix[1:].lower() in formats():
        return ""
    return f"`picture`: {path.name!r} does not end like a picture; known are {', '.join(formats())}."


def _calibrate(console: "Console", dtype: str, repeats: int) -> int:
    import jax
    from rich.table import Table

    from measureflow.runs.bench import calibrate
    from measureflow.sums.costs import keep

    measured = calibrate(dtype, repeats)
    file = keep(f"{jax.default_backend()} {dtype}", measured)
    table = Table("engine", "start", "a pair", "a pair and coordinate", "a token", title="seconds")
    for name, cost in measured.items():
        table.add_row(name, *(f"{number:.1e}" if number else "" for number in cost))
    console.print(table)
    console.print(f"Kept in {file}; delete it to go back to the costs that came with the package.")
    return 0


def main(argv: list[str]) -> int:
    """Parse and run."""
    return tyro.cli(bench, args=argv, prog="measureflow bench")
