"""The budget: what does not fit into the memory that is free is refused with its size and the remedy."""

import pytest

from measureflow import memory


def test_the_system_tells_a_number_of_bytes():
    assert memory.available() > 1e6


def test_bytes_in_words():
    assert [memory.in_words(size) for size in (0.0, 999.0, 1e3, 2.34e6, 5e15)] == [
        "0 bytes", "999 bytes", "1 kB", "2.34 MB", "5e+03 TB",
    ]  # fmt: skip


def test_what_does_not_fit_is_refused_whatever_its_size(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 2e3)
    memory.ask(2000, "A thing", "make it smaller")
    for size, words in ((2001, "2 kB"), (10**400, r"1e\+288 TB"), (float("inf"), r"1e\+288 TB"), (float("nan"), "nan")):
        with pytest.raises(ValueError, match=f"A thing would need about {words}.*, and 2 kB are free: make it smaller"):
            memory.ask(size, "A thing", "make it smaller")
