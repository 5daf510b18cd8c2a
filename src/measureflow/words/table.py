"""Words: how configurations and command lines name the objects of the library.

A `Word` names one object (an attention, a space, a norm), says what it is, which options it brings and how it is made. A
`Table` holds the words of one option, from which its choices, its help, its rules and its builder follow; so a new object is
its class and one line. Nothing here needs JAX: what makes an object is a reference that loads when it is first used.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from measureflow.results import load as load


@dataclass(frozen=True)
class Option:
    """A setting that some words bring: its type as pydantic judges it, its usual value and its help."""

    type: Any
    default: Any
    help: str


@dataclass(frozen=True)
class Word:
    """A word of a table.

    `make` is what makes its object, as `"module:name"` or itself. The options it brings, and others it `takes` from the
    configuration, are passed by name. `traits` are facts on which rules rest, such as `"tokens"` for what needs tokens. `split`
    makes an attention of queries, keys and values, where a file holds those.
    """

    help: str
    make: str | Callable[..., Any] = ""
    brings: Mapping[str, Option] = field(default_factory=dict)
    takes: tuple[str, ...] = ()
    usual: Mapping[str, Any] = field(default_factory=dict)
    traits: tuple[str, ...] = ()
    split: str | Callable[..., Any] | None = None

    def build(self, config: Any, *arguments: Any) -> Any:
        """The object, from arguments and the options of a configuration."""
        options = {name: getattr(config, name) for name in (*self.brings, *self.takes)}
        return load(self.make)(*arguments, **options)


class Table(dict[str, Any]):
    """The words of one option."""

    def __init__(self, option: str, words: Mapping[str, Any]):
        super().__init__(words)
        self.option = option

    def __contains__(self, name: object) -> bool:
        """Whether a word is there; what is no text, as a list from a file, is none."""
        return isinstance(name, str) and super().__contains__(name)

    def add(self, name: str, word: Any) -> None:
        """Add a word of one's own; a word that is there already is refused."""
        if name in self:
            raise ValueError(f"`{self.option}` {name!r} is a word already; choose another name.")
        self[name] = word

    def choose(self, config: Any) -> Any:
        """The word that a configuration chooses."""
        return self[getattr(config, self.option)]

    def check(self, name: str) -> str:
        """The name if it is a word of the table; otherwise a sentence with the nearest one."""
        if name not in self:
            raise ValueError(f"must be one of {', '.join(self)}; got {name!r}{nearest(name, list(self))}")
        return name

    def options(self) -> dict[str, Option]:
        """The options that the words bring."""
        return {name: option for word in self.values() for name, option in word.brings.items()}

    def misplaced(self, config: Any) -> list[str]:
        """A sentence for each option that was given, though the chosen word does not bring it."""
        chosen = self.choose(config).brings
        return [
            f"`{name}` is for `{self.option}` {' and '.join(word for word in self if name in self[word].brings)}"
            for name in self.options()
            if name in config.model_fields_set and name not in chosen
        ]


def nearest(word: Any, known: tuple[str, ...] | list[str]) -> str:
    """A suggestion in words, if one of the known words is close."""
    close = difflib.get_close_matches(str(word), known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
