"""Words and tables: choices, rules and objects from one line each."""

from types import SimpleNamespace

import pytest

import measureflow as mf
from measureflow.words.table import Option, Table, Word, load


def settings(given=(), **values):
    return SimpleNamespace(model_fields_set=set(given), **values)


COLOURS = Table(
    "colour",
    {
        "red": Word("warm", dict),
        "blue": Word("cold", dict, {"depth": Option(float, 1.0, "how blue")}, takes=("time",)),
    },
)


def test_a_word_passes_the_options_it_brings_and_takes():
    chosen = settings(colour="blue", depth=0.5, time=3.0)
    assert COLOURS.choose(chosen).build(chosen) == {"depth": 0.5, "time": 3.0}
    assert COLOURS["red"].build(chosen) == {}


def test_an_option_of_another_word_is_told_where_it_belongs():
    assert COLOURS.misplaced(settings(["depth"], colour="red")) == ["`depth` is for `colour` blue"]
    assert COLOURS.misplaced(settings(["depth"], colour="blue")) == []


def test_an_unknown_word_gets_the_nearest():
    with pytest.raises(ValueError, match=r"must be one of red, blue; got 'bleu' \(did you mean 'blue'\?\)"):
        COLOURS.check("bleu")


def test_what_is_no_text_is_no_word():
    assert "red" in COLOURS
    assert not any(value in COLOURS for value in (["red"], {"red": 1}, None, 3))


def test_a_word_is_added_once():
    table = Table("colour", {})
    table.add("green", Word("fresh"))
    with pytest.raises(ValueError, match="`colour` 'green' is a word already"):
        table.add("green", Word("other"))


def test_references_load_objects_and_their_parts():
    assert load("measureflow.fields:SoftmaxAttention") is mf.SoftmaxAttention
    assert load("measureflow.fields:SoftmaxAttention.isotropic") == mf.SoftmaxAttention.isotropic
    assert load(dict) is dict
