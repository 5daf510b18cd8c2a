"""`measureflow bench`: our engines and what a user would pick instead, side by side."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, FiniteFloat, PositiveInt

from measureflow.cli import complain, prepare_jax
from measureflow.cli.options import Output, Picture, Words, parse

if TYPE_CHECKING:
    from rich.console import Console


class Bench(Words):
    """Time one attention map on the sphere with every engine and installed peer, interleaved; print medians and ratios."""

    n: tuple[PositiveInt, ...] = Field((512, 2048, 8192), description="numbers of tokens")
    dim: PositiveInt = Field(3, description="coordinates of a token")
    beta: FiniteFloat = Field(4.0, description="inverse temperature")
    dtype: Literal["float32", "float64"] = Field("float32", description="precision")
    repeats: PositiveInt = Field(7, description="interleaved runs of which the median is taken")
    device: Literal["gpu"] | None = Field(
        None, description="instead, the whole table of a card: sums, gradients, below all pairs, flows, PyTorch beside"
    )
    json_file: Output | None = Field(None, alias="json", description="also write the rows to this file")
    picture: Picture | None = Field(None, description="also draw time against n into this file")
    calibrate: bool = Field(
        False,
        description="instead, measure what each engine costs here and keep it, so that the choice fits this machine",
    )


def main(argv: list[str]) -> int:
    """Parse, time and print."""
    words = parse(Bench, argv, "measureflow bench")
    prepare_jax()
    from rich.console import Console
    from rich.table import Table

    from measureflow.commands.bench.job import compare, missing

    console = Console()
    if words.calibrate:
        return _calibrate(console, words.dtype, words.repeats)
    if words.device is not None:
        return _card(console, words.json_file)
    table = Table("n", "engine or peer", "milliseconds", "times the fastest", "pairs a second", "MB", "error")
    rows = []
    for row in compare(list(words.n), words.dim, words.beta, words.dtype, words.repeats):
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
    if words.json_file is not None:
        Path(words.json_file).write_text(json.dumps(rows, indent=2) + "\n")
    if words.picture is not None:
        from measureflow.plotting.bench import bench_figure

        bench_figure(rows).savefig(words.picture)
    return 0


def _card(console: "Console", file: Output | None) -> int:
    import jax
    from rich.table import Table

    from measureflow.commands.bench.gpu import table

    if jax.default_backend() != "gpu":
        return complain(f"`device`: there is no 'gpu' here; the default device is a {jax.default_backend()}.")
    rows, shown = [], Table("work", "engine or peer", "n", "d", "precision", "milliseconds", "a second", "error")
    for row in table():
        rows.append(row)
        error = "" if row["error"] is None else f"{row['error']:.1e}"
        size = (f"{row['n']}", f"{row['dim']}", row["dtype"])
        shown.add_row(row["work"], row["name"], *size, f"{1e3 * row['seconds']:.3f}", f"{row['per_second']:.2e}", error)
        if file is not None:
            Path(file).write_text(json.dumps(rows, indent=2) + "\n")
    console.print(shown)
    return 0


def _calibrate(console: "Console", dtype: str, repeats: int) -> int:
    import jax
    from rich.table import Table

    from measureflow.commands.bench.job import calibrate
    from measureflow.sums.costs import keep

    measured = calibrate(dtype, repeats)
    file = keep(f"{jax.default_backend()} {dtype}", measured)
    table = Table("engine", "start", "a pair", "a pair and coordinate", "a token", title="seconds")
    for name, cost in measured.items():
        table.add_row(name, *(f"{number:.1e}" if number else "" for number in cost))
    console.print(table)
    console.print(f"Kept in {file}; delete it to go back to the costs that came with the package.")
    return 0
