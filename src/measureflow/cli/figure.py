"""`measureflow figure`: the figures of papers and talks, each by one command."""

from pathlib import Path

from pydantic import Field

from measureflow.cli import complain, prepare_jax
from measureflow.cli.options import parse
from measureflow.cli.showing import say
from measureflow.figures.catalogue import FIGURES, draw
from measureflow.words.outputs import PICTURES, Words, check_writable, positional
from measureflow.words.settings import InputError
from measureflow.words.table import nearest


class DrawFigures(Words):
    """Draw figures of papers and talks; `list` names them all, with their papers."""

    names: tuple[str, ...] = positional("NAME", "figures to draw, `all` of them, or `list`")
    out: str | None = Field(
        None, description="file in png, pdf or svg for one figure, a folder for several; NAME.png unless given"
    )


def main(argv: list[str]) -> int:
    """List the figures or draw some."""
    words = parse(DrawFigures, argv, "measureflow figure")
    if words.names == ("list",):
        return list_figures()
    files = _files(_chosen(words.names), words.out)
    prepare_jax()
    return max([_drawn(name, file) for name, file in files.items()])


def list_figures() -> int:
    """Print every figure with its paper and what draws it."""
    from measureflow.studies import references

    for name, entry in FIGURES.items():
        made = f"study {entry.study}" if entry.study else "a computation of its own"
        say(
            f"{name}\n    {entry.shows}\n    {references()[entry.reference].title}: {entry.place} [{entry.reference}]; {made}"
        )
    return 0


def _drawn(name: str, file: Path) -> int:
    """Draw a figure and say where it is or why there is none."""
    try:
        draw(name).savefig(file)
    except (RuntimeError, ValueError) as error:  # such as files of a model that are not installed
        complain(f"The figure {name!r} could not be drawn: {error}")
        return 1
    say(f"{name}: {file}")
    return 0


def _chosen(names: tuple[str, ...]) -> list[str]:
    if names == ("all",):
        return list(FIGURES)
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        known = [*FIGURES, "all", "list"]
        raise InputError(*(f"There is no figure {name!r}{nearest(name, known)}." for name in unknown))
    return list(dict.fromkeys(names))


def _files(names: list[str], out: str | None) -> dict[str, Path]:
    """The file of each figure, all of which can be written."""
    target = Path(out or ".")
    if len(names) == 1 and out is not None and not target.is_dir():
        if target.suffix not in PICTURES:
            raise InputError(f"`out` must end in {', '.join(PICTURES)} or be a folder; got {out!r}.")
        files = {names[0]: target}
    elif target.suffix in PICTURES or target.is_file():
        raise InputError(f"`out` must be a folder for {len(names)} figures; got {out!r}.")
    else:
        files = {name: target / f"{name}.png" for name in names}
    try:
        check_writable(str(target if out is not None and not target.is_dir() else next(iter(files.values()))))
    except ValueError as error:
        raise InputError(f"`out`: {error}.") from None
    if len(files) > 1:
        target.mkdir(exist_ok=True)
    return files
