"""`measureflow study`: published claims and their verdicts."""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from measureflow.cli import complain, prepare_jax
from measureflow.runs.config import InputError


def list_studies() -> int:
    """List the claims that have a study."""
    from measureflow import studies

    for name in studies.names():
        claim = studies.claim(name)
        print(f"{name}\n    {claim.statement} [{claim.reference}; expected: {claim.expected}]")  # noqa: T201
    return 0


def run_studies(
    names: tyro.conf.Positional[tuple[str, ...]],
    size: Literal["small", "full"] = "small",
    json_file: Annotated[str | None, tyro.conf.arg(name="json", metavar="FILE")] = None,
) -> int:
    """Run studies and print one line for each; the exit code is 1 if a claim is not as expected.

    Args:
        names: Claims to run, or `all`.
        size: Seconds in `small`, the setting of the catalogue in `full`.
        json_file: Also write the verdicts to this file, as a list of objects.
    """
    from measureflow import studies

    chosen = _chosen(names, studies.names())
    if json_file is not None and not Path(json_file).resolve().parent.is_dir():
        raise InputError(f"`json`: there is no folder {str(Path(json_file).parent)!r} to write {json_file!r} to.")
    prepare_jax()
    import jax

    verdicts = []
    for name in chosen:
        verdicts.append(studies.run(name, studies.Size(size)))
        jax.clear_caches()  # compiled functions of a hundred studies are more memory maps than a process may have
        print(verdicts[-1], flush=True)  # noqa: T201
        if json_file is not None:
            Path(json_file).write_text(json.dumps([verdict.as_json() for verdict in verdicts], indent=2) + "\n")
    wrong = [verdict.name for verdict in verdicts if not verdict.as_expected]
    print(f"{len(verdicts) - len(wrong)} of {len(verdicts)} claims as expected.")  # noqa: T201
    return 1 if wrong else 0


def main(argv: list[str]) -> int:
    """Dispatch `list` and `run`."""
    if argv[:1] == ["list"] and len(argv) > 1 and argv[1] not in ("-h", "--help"):
        return complain("`measureflow study list` takes no further words.")
    commands = {"list": list_studies, "run": run_studies}
    return tyro.extras.subcommand_cli_from_dict(
        commands, args=argv, prog="measureflow study", description=sys.modules[__name__].__doc__
    )


def _chosen(names: tuple[str, ...], known: list[str]) -> list[str]:
    from measureflow.runs.config import nearest

    if not names:
        raise InputError("Name the claims to run, or `all`; `measureflow study list` lists them.")
    if names == ("all",):
        return known
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(*(f"There is no study {name!r}{nearest(name, known)}." for name in unknown))
    return list(names)
