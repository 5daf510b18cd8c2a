"""What does not fit into memory is refused before anything is allocated."""

import pytest

from measureflow import memory
from measureflow.words import InputError
from measureflow.words.memory import check
from measureflow.words.settings import Settings


class Large(Settings):
    """A command that holds a billion numbers."""

    def numbers(self):
        return 1e9

    def sizes(self):
        return ("n", "frames")


def test_what_does_not_fit_is_said_with_the_options_that_would_make_it_smaller(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 7.9e9)
    with pytest.raises(InputError, match=r"about 8 GB of memory, and 7.9 GB are free: make `n` or `frames` smaller"):
        check(Large())
    check(Settings())
    for enough in (8.1e9, None):  # a system that does not tell is believed to have enough
        monkeypatch.setattr(memory, "available", lambda enough=enough: enough)
        check(Large())
