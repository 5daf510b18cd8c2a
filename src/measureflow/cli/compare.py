"""`measureflow compare RUN RUN`: what two runs differ in, as a table and as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING

from measureflow.cli import prepare_jax
from measureflow.cli.progress import print_written
from measureflow.runs.config import InputError

if TYPE_CHECKING:
    from measureflow.runs.compare import Comparison

USAGE = """usage: measureflow compare RUN RUN [--out FILE]

  RUN           folder written by `measureflow simulate`
  --out FILE    picture to write (default: compare.png)"""
PICTURES = (".png", ".pdf", ".svg")


def main(argv: list[str]) -> int:
    """Read both runs, print the table and draw the figure."""
    if not argv or {"-h", "--help"} & set(argv):
        print(USAGE)  # noqa: T201
        return 0
    one, other, out = _words(argv)
    prepare_jax()
    from rich.console import Console

    from measureflow.runs.compare import compare

    comparison = compare(one, other)
    console = Console()
    console.print(_table(one, other, comparison), soft_wrap=False)
    try:
        _figure(comparison, (one, other)).savefig(out)
    except OSError as error:
        raise InputError(f"`out`: cannot write {out!r}: {error.strerror or error}.") from None
    print_written(console, {"picture": out})
    return 0


def _words(argv: list[str]) -> tuple[str, str, str]:
    words, out = list(argv), "compare.png"
    if "--out" in words:
        at = words.index("--out")
        if at + 1 == len(words):
            raise InputError("`out` needs the name of a picture, such as compare.png.")
        out = words[at + 1]
        del words[at : at + 2]
    if unknown := [word for word in words if word.startswith("-")]:
        raise InputError(f"`{unknown[0]}` is not an option of compare.", "", USAGE)
    if len(words) != 2:
        raise InputError(f"`compare` takes two run folders; got {len(words)}.", "", USAGE)
    if Path(out).suffix not in PICTURES:
        raise InputError(f"`out` must end in {', '.join(PICTURES)}; got {out!r}.")
    if not Path(out).absolute().parent.is_dir():
        raise InputError(f"`out`: there is no folder {str(Path(out).parent)!r}.")
    return words[0], words[1], out


def _table(one: str, other: str, comparison: "Comparison"):
    from rich.table import Table

    table = Table(title=None)
    for name in ("", one, other):
        table.add_column(name, overflow="fold")
    for row in comparison.settings or [("settings", "the same", "the same")]:
        table.add_row(*row)
    table.add_section()
    for row in comparison.results:
        table.add_row(*row)
    table.add_section()
    for word, k in (("first", 0), ("last", -1)):
        table.add_row(f"{comparison.name}, {word} common frame", f"{comparison.distance[k]:.4g}", "")
    if comparison.sampling is not None:
        table.add_row("  of as many tokens drawn from the limit", f"{comparison.sampling[-1]:.4g}", "")
    return table


def _figure(comparison: "Comparison", names: tuple[str, str]):
    import numpy as np

    from measureflow.plotting import compare_figure, telling_frames
    from measureflow.runs.compare import common_frames

    kinds, pairs = comparison.kinds, common_frames(comparison)
    chosen: tuple[int, ...] = ()
    if kinds[0] != kinds[1]:
        limit = 0 if kinds[1] == "particles" else 1
        data = comparison.runs[limit].data
        series = data["energy" if "energy" in data else "spread"].values[pairs[:, limit]]
        chosen = telling_frames(series)
    shown = [tuple(_drawn(run, i) for run, i in zip(comparison.runs, pairs[k].tolist(), strict=True)) for k in chosen]
    return compare_figure(
        kinds, shown, comparison.times[np.array(chosen, int)], comparison.times, comparison.distance, comparison.name,  # pyright: ignore[reportArgumentType]
        _title(comparison, names), sampling=comparison.sampling, caption=_caption(kinds),
    )  # fmt: skip


def _drawn(run, frame: int):
    """The arrays of a frame; maps of the sphere on a finer grid."""
    from measureflow.runs.compare import arrays
    from measureflow.runs.kinds import finer

    held = arrays(run, frame)
    if run.config.measure == "sphere":
        held["density"], held["height"] = finer(held["density"], run.config.modes)
    return held


def _title(comparison: "Comparison", names: tuple[str, str]) -> str:
    words = {"gaussian": "a Gaussian", "mixture": "a Gaussian mixture", "circle": "a density", "sphere": "a density"}
    parts = []
    for run, name in zip(comparison.runs, names, strict=True):
        kind = run.config.measure
        what = f"{run.data.sizes['token']} tokens" if kind == "particles" else words[kind]
        parts.append(f"{what} ({Path(name).name})")
    title = " and ".join(parts)
    return title[0].upper() + title[1:]


def _caption(kinds: tuple[str, str]) -> str:
    names = {
        "particles": "Orange: tokens",
        "gaussian": "Blue: the Gaussian; ellipses are one and two standard deviations",
        "mixture": "Green: the mixture; ellipses are one and two standard deviations of a component",
        "circle": "Blue: density",
        "sphere": "Blue: density",
    }
    return ".   ".join(names[kind] for kind in kinds) + "."
