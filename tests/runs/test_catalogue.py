"""The table of commands: every line of the help leads to a command."""

import importlib

from measureflow.runs.catalogue import COMMANDS
from measureflow.runs.command import AbstractCommand, command


def test_every_command_with_a_line_in_the_help_can_be_called():
    for name, entry in COMMANDS.items():
        if entry.help and entry.declared is None:
            assert callable(importlib.import_module(f"measureflow.cli.{name}").main)


def test_every_command_that_makes_runs_declares_them():
    found = [command(name) for name, entry in COMMANDS.items() if entry.declared is not None]
    assert len(found) >= 6
    assert all(isinstance(one, AbstractCommand) for one in found)
