"""`measureflow simulate`: tokens or their limit in motion, saved and pictured."""

from typing import Any

from measureflow.cli import prepare_jax
from measureflow.cli.options import parse_run
from measureflow.cli.showing import shown
from measureflow.runs.commands import command


def main(argv: list[str]) -> int:
    """Parse, run with a progress bar, then print the table, draw the figure and name what was written."""
    return main_of("simulate", argv)


def main_of(name: str, argv: list[str]) -> int:
    """The same for any command that makes a run."""
    settings: Any = parse_run(command(name), argv)
    prepare_jax()
    from measureflow.runs.running import run_settings

    asked = {name: getattr(settings, name, False) for name in ("movie", "explain")}
    return shown(lambda watch: run_settings(name, settings, watch), moving=asked["movie"], explain=asked["explain"])
