"""What does not fit into memory is refused before anything is allocated."""

import pytest

from measureflow.words import InputError, memory
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
        memory.check(Large())
    memory.check(Settings())
    for enough in (8.1e9, None):  # a system that does not tell is believed to have enough
        monkeypatch.setattr(memory, "available", lambda enough=enough: enough)
        memory.check(Large())


def test_the_system_tells_a_number_of_bytes():
    assert memory.available() > 1e6


def test_bytes_in_words():
    assert [memory.in_words(size) for size in (0.0, 999.0, 1e3, 2.34e6, 5e15)] == [
        "0 bytes", "999 bytes", "1 kB", "2.34 MB", "5e+03 TB",
    ]  # fmt: skip
