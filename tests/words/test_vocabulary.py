"""Words and tables: choices, rules and objects from one line each."""

from types import SimpleNamespace

import pytest

import measureflow as mf
from measureflow.fields.normalisation import AbstractScheme
from measureflow.words.table import Option, Table, Word, load
from measureflow.words.vocabulary import ATTENTIONS, NORMS, SPACES, TABLES


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


def test_a_word_is_added_once():
    table = Table("colour", {})
    table.add("green", Word("fresh"))
    with pytest.raises(ValueError, match="`colour` 'green' is a word already"):
        table.add("green", Word("other"))


def test_references_load_objects_and_their_parts():
    assert load("measureflow.fields:SoftmaxAttention") is mf.SoftmaxAttention
    assert load("measureflow.fields:SoftmaxAttention.isotropic") == mf.SoftmaxAttention.isotropic
    assert load(dict) is dict


def test_every_word_of_every_table_can_be_made():
    for table in TABLES:
        for word in table.values():
            make = getattr(word, "make", word.start if hasattr(word, "start") else None)
            assert not make or callable(load(make)), (table.option, word)


def made(table):
    """The names of the classes that the words of a table make, themselves or by one of their functions."""
    return {word.make.partition(":")[2].split(".")[0] for word in table.values()}


def test_every_attention_space_and_norm_of_the_library_has_a_word():
    things = {thing for thing in vars(mf.fields).values() if isinstance(thing, type)}
    finals = {thing for thing in things if not thing.__name__.startswith("Abstract")}
    assert {t.__name__ for t in finals if issubclass(t, mf.fields.AbstractAttention)} <= made(ATTENTIONS)
    schemes = {t.__name__ for t in finals if issubclass(t, AbstractScheme)}
    assert schemes - made(NORMS) == {"MixNorm"}  # made by a function that knows the final time
    spaces = {t for t in vars(mf.spaces).values() if isinstance(t, type) and not t.__name__.startswith("Abstract")}
    assert len(spaces) == len(SPACES)
