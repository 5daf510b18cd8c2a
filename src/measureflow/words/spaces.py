"""Spaces in words: from a space to plain values that a run folder keeps, and back."""

from typing import Any

from measureflow.spaces import AbstractSpace, Product
from measureflow.words.table import load
from measureflow.words.vocabulary import SPACES


def facts_of(space: AbstractSpace) -> dict[str, Any]:
    """A space as plain values: its word, its size, its numbers."""
    if isinstance(space, Product):  # what is written is its class, to be made again
        return {"word": "product", "parts": [facts_of(part) for part in space.spaces]}
    word = next((name for name, word in SPACES.items() if load(word.make) is type(space)), type(space).__name__)
    brought = SPACES[word].brings if word in SPACES else {}
    return {"word": word, "dim": space.dim} | {name: float(getattr(space, name)) for name in brought}


def space_of(facts: dict[str, Any]) -> AbstractSpace:
    """The space of plain values."""
    if facts["word"] == "product":
        return Product(*(space_of(part) for part in facts["parts"]))
    if facts["word"] not in SPACES:
        raise ValueError(f"`space` {facts['word']!r} is no word here; add it with `use`, as the run did.")
    numbers = {name: value for name, value in facts.items() if name not in ("word", "dim")}
    return load(SPACES[facts["word"]].make)(facts["dim"], **numbers)
