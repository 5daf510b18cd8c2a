"""Every command that makes a run: its options are parsed, it is run, saved and pictured, and its table is printed."""

from typing import Any

from measureflow.cli import prepare_jax
from measureflow.cli.options import parse_run
from measureflow.cli.showing import shown
from measureflow.runs.command import command


def main(name: str, argv: list[str]) -> int:
    """Parse, run with a progress bar, then print the table, draw the figure and name what was written.

    Several processes each do their part of the run.
    """
    settings: Any = parse_run(command(name), argv)
    if getattr(settings, "processes", 1) > 1:
        return _launched(name, argv, settings)
    prepare_jax()
    if getattr(settings, "coordinator", None) is not None and not _joined(name, settings):
        return 0
    from measureflow.runs.invocation import run_settings

    asked = {name: getattr(settings, name, False) for name in ("movie", "explain")}
    return shown(lambda watch: run_settings(name, settings, watch), moving=asked["movie"], explain=asked["explain"])


def _launched(name: str, argv: list[str], settings: Any) -> int:
    """Start the processes of this machine, and end when they have."""
    from measureflow.runs.processes import launch

    return launch([*name.split(), *without(argv, "--processes")], settings.processes)


def _joined(name: str, settings: Any) -> bool:
    """Meet the other processes; whether this one is the first, which watches and saves. The others compute along here."""
    from measureflow.runs.processes import follow_legs, join, shared

    join(settings.coordinator, settings.process_id, settings.num_processes)
    if settings.process_id == 0:
        return True
    follow_legs(shared(command(name).job(settings)))
    return False


def without(argv: list[str], option: str) -> list[str]:
    """Words without an option and its value."""
    kept: list[str] = []
    words = iter(argv)
    for word in words:
        if word == option:
            next(words, None)
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return kept
