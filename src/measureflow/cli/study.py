"""`measureflow study`: published claims and their verdicts."""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from measureflow.cli import complain, prepare_jax
from measureflow.runs.config import InputError, nearest

if TYPE_CHECKING:
    from measureflow.studies import Size, Verdict

FORMATS = (".png", ".pdf", ".svg")


Topic = Annotated[str | None, tyro.conf.arg(metavar="TOPIC")]
File = Annotated[str | None, tyro.conf.arg(metavar="FILE")]


def list_studies(topic: Topic = None) -> int:
    """List the claims that have a study, theme by theme.

    Args:
        topic: Only the claims of this theme.
    """
    from measureflow import studies

    for theme in _themes(topic):
        print(f"{theme}: {studies.about(theme)}\n")  # noqa: T201
        for name in studies.names(theme):
            claim = studies.claim(name)
            source = f"{claim.reference}, {claim.where}; expected: {claim.expected}"
            print(f"  {name}\n      {claim.statement} [{source}]")  # noqa: T201
        print()  # noqa: T201
    return 0


def run_studies(
    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME ...]")] = (),
    topic: Topic = None,
    size: Literal["small", "full"] = "small",
    json_file: Annotated[File, tyro.conf.arg(name="json")] = None,
    figure: File = None,
) -> int:
    """Run studies and print one line for each; the exit code is 1 if a claim is not as expected.

    Args:
        names: Claims to run, or `all`; a file that ends in .py is a study of your own.
        topic: Run all claims of this theme.
        size: Seconds in `small`, the setting of the catalogue in `full`.
        json_file: Also write the verdicts to this file, as a list of objects.
        figure: Also draw what was found: a file in png, pdf or svg for one claim, a folder for several.
    """
    chosen = _chosen(names, topic)
    if json_file is not None:
        _writable("json", Path(json_file))
    pictures = {} if figure is None else _pictures(chosen, figure)
    prepare_jax()
    import jax

    from measureflow.studies import Size

    verdicts, missing = [], []
    for name in chosen:
        verdict = _verdict(name, Size(size))
        verdicts.append(verdict)
        print(verdict, flush=True)  # noqa: T201
        if name in pictures and not _drawn(verdict, pictures[name]):
            missing.append(name)
        jax.clear_caches()  # compiled functions of a hundred studies are more memory maps than a process may have
        if json_file is not None:
            Path(json_file).write_text(json.dumps([verdict.as_json() for verdict in verdicts], indent=2) + "\n")
    right = sum(verdict.as_expected for verdict in verdicts)
    print(f"{right} of {len(verdicts)} claims as expected.")  # noqa: T201
    return 1 if missing or right < len(verdicts) else 0


def main(argv: list[str]) -> int:
    """Dispatch `list` and `run`."""
    commands = {"list": list_studies, "run": run_studies}
    return tyro.extras.subcommand_cli_from_dict(
        commands, args=argv, prog="measureflow study", description=sys.modules[__name__].__doc__
    )


def _verdict(name: str, size: "Size") -> "Verdict":
    """The verdict on a claim; an error inside the study leaves it undecided and the other studies alone."""
    from measureflow import studies

    try:
        return studies.run(name, size)
    except Exception as error:
        return studies.Verdict(studies.claim(name), reason=_said(error))


def _drawn(verdict: "Verdict", file: Path) -> bool:
    """Draw what a study found, if it found something, and say where or why not."""
    from measureflow import studies

    if verdict.checks:
        try:
            studies.load(verdict.name).draw(verdict).savefig(file)
            print(f"    drawn in {file}", flush=True)  # noqa: T201
            return True
        except Exception as error:
            complain(f"The study {verdict.name!r} could not be drawn: {_said(error)}.")
    return False


def _said(error: Exception) -> str:
    """What went wrong and in which line of which file."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"


def _themes(topic: str | None) -> list[str]:
    from measureflow import studies

    known = studies.topics()
    if topic is not None and topic not in known:
        raise InputError(
            f"`topic` is {topic!r}, which is no theme{nearest(topic, known)}. There are: {', '.join(known)}."
        )
    return known if topic is None else [topic]


def _chosen(names: tuple[str, ...], topic: str | None) -> list[str]:
    """The studies to run; files are added to those there are."""
    from measureflow import studies

    if topic is not None and names not in ((), ("all",)):
        raise InputError("`topic` stands for all claims of a theme; leave it out, or name no claims beside it.")
    if topic is not None or names == ("all",):
        return [name for theme in _themes(topic) for name in studies.names(theme)]
    if not names:
        raise InputError("Name the claims to run, or `all`, or a `--topic`; `measureflow study list` lists them.")
    known = studies.names()
    unknown = [name for name in names if not name.endswith(".py") and name not in known]
    if unknown:
        raise InputError(*(f"There is no study {name!r}{nearest(name, known)}." for name in unknown))
    return list(dict.fromkeys(_added(name) if name.endswith(".py") else name for name in names))


def _added(file: str) -> str:
    from measureflow import studies

    try:
        return studies.add(file)
    except ValueError as error:
        raise InputError(str(error)) from None


def _pictures(names: list[str], figure: str) -> dict[str, Path]:
    """The file for the picture of each study that draws, all of which can be written."""
    from measureflow import studies

    target, drawn = Path(figure), [name for name in names if studies.draws(name)]
    if not drawn:
        raise InputError(f"`figure`: {' and '.join(names[:3])} {'does' if len(names) == 1 else 'do'} not draw.")
    if len(names) == 1 and not target.is_dir():
        if target.suffix not in FORMATS:
            raise InputError(f"`figure` must end in {', '.join(FORMATS)} or be a folder; got {figure!r}.")
        _writable("figure", target)
        return {names[0]: target}
    if target.suffix in FORMATS or target.is_file():
        raise InputError(f"`figure` must be a folder for {len(names)} claims; got the file {figure!r}.")
    _writable("figure", target / "picture.png" if target.is_dir() else target)
    target.mkdir(exist_ok=True)
    return {name: target / f"{name}.png" for name in drawn}


def _writable(option: str, file: Path) -> None:
    folder = file.resolve().parent
    if not folder.is_dir():
        raise InputError(f"`{option}`: there is no folder {str(file.parent)!r} to write {str(file)!r} to.")
    if file.is_dir():
        raise InputError(f"`{option}` is {str(file)!r}, which is a folder; name a file in it.")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise InputError(f"`{option}`: {str(file)!r} may not be written.")
