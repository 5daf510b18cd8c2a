"""Configurations: one schema for the command line, TOML files and run folders.

Every field of a schema is an option `--name` and a TOML key; its description is the help text. Nothing here needs JAX, so
that the command line can answer `--help` and refuse bad input at once.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, field_validator, model_validator

from measureflow.words.table import Option, Table, nearest

Schema = TypeVar("Schema", bound=BaseModel)
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class InputError(ValueError):
    """Bad input, with one sentence for each thing that is wrong."""

    def __init__(self, *sentences: str):
        super().__init__("\n".join(sentences))
        self.sentences = sentences


class Settings(BaseModel):
    """The settings of a command that makes a run.

    An option that takes a word of a table is a text whose table is named in `tables`. The options that such words bring are
    not written down in a schema: `with_options` adds those of all words, also of words that a user's file has added.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tables: ClassVar[tuple[Table, ...]] = ()
    """The tables of words that its options take."""

    shown: ClassVar[tuple[str, ...]] = ()
    """Options that a run folder names even if they have their usual values."""

    looked_at: ClassVar[tuple[str, ...]] = ()
    """Numbers that are looked at on the host, so that cells of a sweep which differ in them are not computed side by side."""

    aside: ClassVar[tuple[str, ...]] = ("out", "force")
    """Options that say where and by whom a run is done, and not what is computed."""

    use: str | None = Field(
        None, description="Python file that adds words of its own: attentions, measures, optimisers, losses, ..."
    )
    out: str | None = Field(None, description="run folder to write; a new one under runs/ unless given")
    force: bool = Field(False, description="replace the run folder if it exists")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """An option of a schema that derives from this one, or one that a word brings."""

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: Any, info: Any) -> Any:
        """Refuse what would be taken for something else: `true` for 1, and text that no file can be named by."""
        kind = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and bool not in (kind, *get_args(kind)):
            raise ValueError(f"must be a number or a word, not {str(value).lower()}")
        if isinstance(value, str) and "\0" in value:
            raise ValueError("must not hold a NUL character")
        return value

    @field_validator("*")
    @classmethod
    def _of_table(cls, value: Any, info: Any) -> Any:
        """Refuse what is no word of the table of its option."""
        table = next((table for table in cls.tables if table.option == info.field_name), None)
        return value if table is None else table.check(value)

    @classmethod
    def with_options(cls) -> "type[Settings]":
        """This schema with the options that words of its tables bring at present, but for those that it declares itself."""
        brought = {name: option for table in cls.tables for name, option in table.options().items()}
        return _extended(cls, tuple((name, brought[name]) for name in brought if name not in cls.model_fields))

    def has(self, trait: str) -> bool:
        """Whether one of the words has a trait."""
        return any(trait in table.choose(self).traits for table in self.tables)

    def misplaced(self) -> list[tuple[bool, str]]:
        """A rule for each option that was given, though no word that was chosen brings it."""
        return [(True, sentence) for table in self.tables for sentence in table.misplaced(self)]

    @model_validator(mode="after")
    def _agree(self) -> "Settings":
        for broken, sentence in self.rules():
            if broken:
                raise ValueError(sentence)
        return self

    def rules(self) -> list[tuple[bool, str]]:
        """What must not be, each with the sentence that says so."""
        return []

    def numbers(self) -> float:
        """About how many numbers the run holds in memory at once."""
        return 0.0

    def sizes(self) -> tuple[str, ...]:
        """The options that decide how many."""
        return ()

    def inputs(self) -> tuple[str, ...]:
        """The files that the run reads."""
        return ()

    def to_toml(self) -> str:
        """The configuration as a TOML text that `--config` reads; where to write is not part of it."""
        return self.toml_of((self.model_fields_set | set(self.shown)) - set(self.aside))

    def toml_of(self, names: set[str]) -> str:
        """Some settings as lines of a TOML file."""
        return as_toml({name: value for name, value in self.model_dump(exclude_none=True).items() if name in names})


@cache
def _extended(schema: type[Settings], options: tuple[tuple[str, Option], ...]) -> type[Settings]:
    fields: Any = {name: (option.type, Field(option.default, description=option.help)) for name, option in options}
    return create_model(schema.__name__, __base__=schema, __doc__=schema.__doc__, **fields)


def read(schema: type[Schema], words: dict[str, Any], file: str | None = None, past: bool = False) -> Schema:
    """A configuration from a TOML file and words that override it; all errors at once.

    That of a run in the `past` may name files that are gone.
    """
    try:
        return schema.model_validate(
            (read_toml(file, "config") if file is not None else {}) | words, context={"past": past}
        )
    except ValidationError as error:
        raise InputError(*(_sentence(problem, schema) for problem in error.errors(include_url=False))) from None


def file_there(file: str, info: Any) -> bool:
    """Whether a file that is read exists, or did when the run was made."""
    return bool(info.context and info.context["past"]) or os.path.isfile(file)


def read_toml(file: str | Path, option: str = "") -> dict[str, Any]:
    """The names and values of a TOML file, which an option may have named; a sentence where it cannot be read."""
    name, where = str(file), f"`{option}`: " if option else ""
    if os.path.exists(name) and not os.path.isfile(name):
        raise InputError(f"{where}{name!r} is not a file.")
    try:
        text = Path(name).read_bytes().decode()
    except OSError as error:
        raise InputError(f"{where or 'The file '}{name!r} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{where}{name!r} is not a TOML file: {error}.") from None
    return parse_toml(text, name, where)


def parse_toml(text: str, name: str, where: str = "") -> dict[str, Any]:
    """The names and values of the text of a TOML file; a sentence with its name where it is none."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number may have too many digits, and lists may be too deep
        raise InputError(f"{where}{name!r} is not a TOML file: {error}.") from None


def _sentence(problem: Any, schema: type[BaseModel]) -> str:
    name = str(problem["loc"][0]) if problem["loc"] else ""  # what follows are places in a list
    got = problem["input"]
    match problem["type"]:
        case "extra_forbidden":
            return f"`{name}` is not an option{nearest(name, list(schema.model_fields))}."
        case "literal_error":
            known = _choices(schema.model_fields[name].annotation)
            return f"`{name}` must be one of {', '.join(known)}; got {got!r}{nearest(got, known)}."
        case "value_error":
            text = str(problem["ctx"]["error"]).rstrip(".")
            if not name:
                return f"{text[0].upper()}{text[1:]}."
            return f"`{name}`{'' if text.startswith('must') else ':'} {text}."
        case "too_short":
            return f"`{name}` is needed; `--help` says what it is."
        case _:
            return f"`{name}`: {problem['msg'][0].lower()}{problem['msg'][1:]}; got {got!r}."


def _choices(annotation: Any) -> tuple[str, ...]:
    """The words of a literal type, also of one that may be left out."""
    parts = get_args(annotation)
    return tuple(
        word for part in parts for word in (_choices(part) if get_args(part) else [part]) if isinstance(word, str)
    )


def as_toml(values: Mapping[str, Any]) -> str:
    """Names and values as lines of a TOML file, from which the same can be read again."""
    return "".join(_line(name, value) for name, value in values.items())


def _line(name: str, value: Any) -> str:
    """A name and its value in TOML; a sentence where they cannot be read back, with their types and in their order."""
    import tomlkit

    try:
        line = f"{tomlkit.key(name).as_string()} = {_item(value).as_string()}\n"
        kept = tomllib.loads(line.encode().decode())
    except (TypeError, ValueError):
        kept, line = None, ""
    if json.dumps(kept, default=str) != json.dumps({name: value}, default=str):
        raise InputError(f"`{name}` cannot be kept in a TOML file, which holds numbers and UTF-8 text; got {value!r}.")
    return line


def _item(value: Any) -> Any:
    """A value as an item of TOML; tables are written in one line, so that they stay in their order among others."""
    import tomlkit

    match value:
        case dict():
            table = tomlkit.inline_table()
            for name, part in value.items():
                table.append(tomlkit.key(name), _item(part))
            return table
        case tuple() | list():
            array = tomlkit.array()
            for part in value:
                array.append(_item(part))
            return array
        case _:
            return tomlkit.item(value)
