"""From a schema to command line options and back: tyro collects what was typed, pydantic alone judges it."""

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict, get_origin

import tyro
from pydantic import BaseModel

from measureflow.runs.command import AbstractCommand
from measureflow.words.settings import Schema, Settings, read
from measureflow.words.vocabulary import MEASURES, TABLES

LAST = ("use", "out", "force")
"""Options that the help lists last."""


def parse(schema: type[Schema], argv: list[str], prog: str) -> Schema:
    """What a command line asks for."""
    return read(schema, _typed(schema, argv, prog))


def parse_run(command: AbstractCommand, argv: list[str]) -> Settings:
    """The settings of a command that makes a run; `--config` names a TOML file that the options override.

    A file of words of one's own (`--use`) is read first, since it may add choices and options.
    """
    early = {name: _after(argv, f"--{name}") for name in ("use", "config")}
    asked = {"use": early["use"]} if early["use"] is not None else {}
    command.use(command.asked(early["config"]) | asked)
    schema = command.schema(asked)
    typed = _typed(schema, argv, f"measureflow {command.name}", config=True)
    return command.settings(typed, typed.pop("config", None))


def _typed(schema: type[BaseModel], argv: list[str], prog: str, config: bool = False) -> dict[str, Any]:
    names = sorted(schema.model_fields, key=lambda name: name in LAST)
    measures, tables = (MEASURES, TABLES) if "measure" in schema.model_fields else ({}, ())
    fields = {name: schema.model_fields[name] for name in names}
    table = {name: next((table for table in tables if table.option == name), None) for name in names}
    words = {
        field.alias or name: _word(table[name], field, _default(name, field, measures))
        for name, field in fields.items()
    }
    file = tyro.conf.arg(metavar="FILE", help="TOML file with these options as keys", help_behavior_hint="")
    kind: Any = TypedDict("Options", words | ({"config": Annotated[str, file]} if config else {}), total=False)  # pyright: ignore
    return tyro.cli(kind, args=argv, prog=prog, description=schema.__doc__)


def _after(argv: list[str], option: str) -> str | None:
    """The word after an option, before anything is known of the others."""
    for word, following in zip(argv, [*argv, ""][1:], strict=True):
        if word == option:
            return following or None
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None


def _word(table: Any, field: Any, default: str) -> Any:
    help_: Any = {"help": _help(table, field).replace("%", "%%"), "help_behavior_hint": default}
    if field.annotation is bool:
        return Annotated[bool, tyro.conf.arg(**help_)]
    extra = field.json_schema_extra
    if isinstance(extra, dict) and "positional" in extra:
        return Annotated[
            tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar=str(extra["positional"]), **help_)
        ]
    kind = tuple[str, ...] if get_origin(field.annotation) is tuple else str
    return Annotated[kind, tyro.conf.arg(metavar=_metavar(table, field.annotation), **help_)]


def _help(table: Any, field: Any) -> str:
    """The help of an option; for one that takes words of a table, what each means."""
    if table is None:
        return field.description
    return f"{field.description}: " + "; ".join(f"{word}, {entry.help}" for word, entry in table.items())


def _default(name: str, field: Any, words: Mapping[str, Any]) -> str:
    """What an option is unless given, also with those measures that have a usual value of their own."""
    usual = " ".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
    values = [] if usual is None or usual is False or usual == "" else [str(usual)]
    own: dict[str, list[str]] = {}
    for measure, word in words.items():
        if name in word.usual and word.usual[name] != usual:
            own.setdefault(str(word.usual[name]), []).append(measure)
    values += [f"{value} for {', '.join(measures)}" for value, measures in own.items()]
    return f"(default: {'; '.join(values)})" if values else ""


def _metavar(table: Any, annotation: Any) -> str:
    choices = tuple(table) if table is not None else getattr(annotation, "__args__", ())
    if choices and all(isinstance(choice, str) for choice in choices):
        return "{" + ",".join(choices) + "}"
    kinds = {int: "INT", float: "NUMBER", str: "TEXT"}
    several = " ..." if get_origin(annotation) is tuple else ""
    bare = (getattr(kind, "__origin__", kind) for kind in (annotation, *choices))
    return next((kinds[kind] for kind in bare if kind in kinds), "NUMBER") + several
