"""Configurations: one schema for words and files, and all that is wrong at once."""

from pathlib import Path

import pytest

from measureflow.runs.command import command
from measureflow.words import InputError
from measureflow.words.settings import Settings, as_toml, read

SIMULATE = command("simulate")


class Painting(Settings):
    """A command of its own."""

    shown = ("size",)
    colour: str = "red"
    size: int = 3
    framed: bool = False

    def rules(self):
        return [(self.size > 9 and self.framed, "no frame is that large")]


def complaints(words, file=None, schema=Painting):
    with pytest.raises(InputError) as caught:
        read(schema, words, file)
    return caught.value.sentences


def test_a_file_and_words_are_judged_at_once(tmp_path):
    (tmp_path / "config.toml").write_text('size = 4\ncolour = "blue"\n')
    found = read(Painting, {"size": "5"}, str(tmp_path / "config.toml"))
    assert (found.size, found.colour) == (5, "blue")
    assert complaints({"size": True, "colur": "red", "colour": "a\0b"}) == (
        "`colour` must not hold a NUL character.",
        "`size` must be a number or a word, not true.",
        "`colur` is not an option (did you mean 'colour'?).",
    )
    assert complaints({"size": 10, "framed": True}) == ("No frame is that large.",)


def test_a_configuration_is_written_with_what_was_given_and_what_is_shown(tmp_path):
    found = Painting(colour='deep "blue"', out="here", force=True)
    assert found.to_toml() == 'colour = "deep \\"blue\\""\nsize = 3\n'
    Path(tmp_path / "config.toml").write_text(found.to_toml())
    assert read(Painting, {}, str(tmp_path / "config.toml")) == Painting(colour='deep "blue"', size=3)
    assert as_toml({"a": [1, 2.5], "b": {"c": True}}) == "a = [1, 2.5]\nb = { c = true }\n"


def test_unreadable_configurations_get_a_sentence(tmp_path):
    (tmp_path / "ugly.toml").write_text("n = = 3")
    assert "is not a TOML file" in complaints({}, str(tmp_path / "ugly.toml"))[0]
    assert "cannot read 'none.toml'" in complaints({}, "none.toml")[0]


def test_a_saved_configuration_reads_back_the_same(tmp_path):
    config = SIMULATE.settings({"n": 5, "init": "clusters", "rtol": "1e-9", "movie": True, "out": "here"})
    (tmp_path / "config.toml").write_text(config.to_toml())
    again = SIMULATE.settings({}, str(tmp_path / "config.toml"))
    assert again == config.model_copy(update={"out": None})
