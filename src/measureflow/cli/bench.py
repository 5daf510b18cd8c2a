"""`measureflow bench`: our engines and what a user would pick instead, side by side."""

from typing import TYPE_CHECKING

from measureflow.cli import complain, prepare_jax
from measureflow.cli.options import parse
from measureflow.commands.bench.settings import Bench

if TYPE_CHECKING:
    from measureflow.cli.printing import Printer


def main(argv: list[str]) -> int:
    """Parse, time and print."""
    words = parse(Bench, argv, "measureflow bench")
    prepare_jax()
    from measureflow.cli.printing import Printer

    if words.calibrate:
        return _calibrate(Printer(), words)
    return _compare(Printer(), words) if words.device is None else _gpu(Printer(), words)


def _compare(console: "Printer", words: Bench) -> int:
    from measureflow.commands.bench.job import compare, missing
    from measureflow.commands.bench.report import comparison, write_picture, write_rows

    rows = list(compare(list(words.n), words.dim, words.beta, words.dtype, words.repeats))
    console.print(comparison(rows))
    if absent := missing():
        console.print(f"Not here, and skipped: {', '.join(absent)}.")
    if words.json_file is not None:
        write_rows(words.json_file, rows)
    if words.picture is not None:
        write_picture(words.picture, rows)
    return 0


def _gpu(console: "Printer", words: Bench) -> int:
    import jax

    from measureflow.commands.bench.gpu import table
    from measureflow.commands.bench.report import gpu_table, write_rows

    if jax.default_backend() != "gpu":
        return complain(f"`device`: there is no 'gpu' here; the default device is a {jax.default_backend()}.")
    rows = []
    for row in table():
        rows.append(row)
        if words.json_file is not None:
            write_rows(words.json_file, rows)  # after each row, since the whole table takes long
    console.print(gpu_table(rows))
    return 0


def _calibrate(console: "Printer", words: Bench) -> int:
    import jax

    from measureflow.commands.bench.job import calibrate
    from measureflow.commands.bench.report import costs_table
    from measureflow.sums.costs import keep

    measured = calibrate(words.dtype, words.repeats)
    file = keep(f"{jax.default_backend()} {words.dtype}", measured)
    console.print(costs_table(measured))
    console.print(f"Kept in {file}; delete it to go back to the costs that came with the package.")
    return 0
