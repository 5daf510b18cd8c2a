"""Configurations: one schema for words and files, and all that is wrong at once."""

import tomllib
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    assert as_toml({"a": [1, 2.5], "b": {"c": True}}) == "a = [1, 2.5]\nb = {c = true}\n"


def test_unreadable_configurations_get_a_sentence(tmp_path):
    (tmp_path / "ugly.toml").write_text("n = = 3")
    assert "is not a TOML file" in complaints({}, str(tmp_path / "ugly.toml"))[0]
    (tmp_path / "deep.toml").write_text("n = " + 10**4 * "[")
    (tmp_path / "long.toml").write_text("n = " + 10**4 * "1")
    (tmp_path / "latin.toml").write_bytes(b'colour = "\xe9"')
    for name in ("deep", "long", "latin"):
        assert "is not a TOML file" in complaints({}, str(tmp_path / f"{name}.toml"))[0]
    assert complaints({}, "none.toml") == ("`config`: 'none.toml' cannot be read: No such file or directory.",)
    assert complaints({}, str(tmp_path)) == (f"`config`: {str(tmp_path)!r} is not a file.",)


LETTERS = st.characters(exclude_categories=["Cs"])
VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(LETTERS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(LETTERS), inner, max_size=3),
    max_leaves=6,
)


@hypothesis.settings(deadline=None, derandomize=True, database=None)
@given(st.dictionaries(st.text(LETTERS), VALUES, max_size=3))
def test_whatever_is_written_as_toml_is_read_again(values):
    """Also control characters, names that are no words, and tables between numbers, in their order."""
    assert repr(tomllib.loads(as_toml(values))) == repr(values)


def test_what_toml_cannot_hold_is_refused_before_it_is_written():
    for value in ("\udcff.npz", np.ones(2), None, {"a": ["\ud800"]}):
        with pytest.raises(InputError, match=r"`init` cannot be kept in a TOML file"):
            as_toml({"n": 3, "init": value})


@pytest.mark.parametrize("option", ["init", "measure", "attention", "matrices"])
def test_a_list_in_place_of_a_word_is_a_sentence(option, tmp_path):
    (tmp_path / "list.toml").write_text(f'{option} = ["uniform"]')
    with pytest.raises(InputError, match=rf"`{option}`: input should be a valid string; got \['uniform'\]"):
        SIMULATE.settings({}, str(tmp_path / "list.toml"))


def test_a_saved_configuration_reads_back_the_same(tmp_path):
    config = SIMULATE.settings({"n": 5, "init": "clusters", "rtol": "1e-9", "movie": True, "out": "here"})
    (tmp_path / "config.toml").write_text(config.to_toml())
    again = SIMULATE.settings({}, str(tmp_path / "config.toml"))
    assert again == config.model_copy(update={"out": None})
