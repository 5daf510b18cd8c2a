"""Commands by name: their settings from words and files, and what every one of them declares."""

from pathlib import Path

import pytest

from measureflow.runs.catalogue import COMMANDS
from measureflow.runs.command import again, command
from measureflow.words import InputError
from measureflow.words.settings import Settings

SCHEMAS = sorted(name for name, entry in COMMANDS.items() if entry.declared is not None and name != "record")


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_command_has_its_own_name_and_a_schema(name):
    assert command(name).name == name
    assert issubclass(command(name).schema({}), Settings)


def test_an_unknown_command_is_refused_with_those_that_are_known():
    with pytest.raises(
        InputError, match=r"No command 'simulat' makes runs here; known are simulate, record, train heads"
    ):
        command("simulat")


def test_words_win_over_a_file_and_a_file_of_words_of_ones_own_is_read_first(tmp_path):
    (tmp_path / "config.toml").write_text("n = 7\nbeta = 2.0\n")
    found = command("simulate").settings({"n": 8}, str(tmp_path / "config.toml"))
    assert (found.n, found.beta) == (8, 2.0)
    (tmp_path / "config.toml").write_text('use = "nowhere.py"\nn = "many"\n')
    with pytest.raises(InputError, match=r"there is no 'nowhere.py'"):
        command("simulate").settings({}, str(tmp_path / "config.toml"))


def test_a_recorded_flow_has_no_settings_and_goes_on_in_python():
    for ask in (lambda: command("record").schema({}), lambda: command("record").job(None)):
        with pytest.raises(InputError, match=r"recorded from Python"):
            ask()
    assert again("record", Path("here")) == "`mf.runs.record(flow, 'here', resume=True)`"
    assert again("train heads", Path("here")) == "`measureflow resume here`"
