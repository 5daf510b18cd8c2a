"""The tables of words: each can be made, and nothing of the library is without one."""

import measureflow as mf
from measureflow.fields.normalisation import AbstractScheme
from measureflow.words.table import load
from measureflow.words.vocabulary import ATTENTIONS, NORMS, SPACES, TABLES


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
