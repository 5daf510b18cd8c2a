"""From a schema to command line options and back: tyro collects what was typed, pydantic alone judges it."""

from typing import Annotated, Any, TypedDict

import tyro
from pydantic import BaseModel

from measureflow.runs.config import Schema, read


def parse(schema: type[Schema], argv: list[str], prog: str) -> Schema:
    """The configuration that a command line describes; `--config` names a TOML file that the options override."""
    typed: dict[str, Any] = tyro.cli(_words(schema), args=argv, prog=prog, description=schema.__doc__)  # pyright: ignore
    return read(schema, typed, typed.pop("config", None))


def _words(schema: type[BaseModel]) -> Any:
    words = {name: _word(field) for name, field in schema.model_fields.items()}
    config = tyro.conf.arg(metavar="FILE", help="TOML file with these options as keys", help_behavior_hint="")
    return TypedDict("Options", words | {"config": Annotated[str, config]}, total=False)  # pyright: ignore


def _word(field: Any) -> Any:
    default = "" if field.default is None or field.default is False else f"(default: {field.default})"
    help_ = {"help": field.description.replace("%", "%%"), "help_behavior_hint": default}
    if field.annotation is bool:
        return Annotated[bool, tyro.conf.arg(**help_)]
    return Annotated[str, tyro.conf.arg(metavar=_metavar(field.annotation), **help_)]


def _metavar(annotation: Any) -> str:
    choices = getattr(annotation, "__args__", ())
    if choices and all(isinstance(choice, str) for choice in choices):
        return "{" + ",".join(choices) + "}"
    kinds = {int: "INT", float: "NUMBER", str: "TEXT"}
    return next((kinds[kind] for kind in (annotation, *choices) if kind in kinds), "NUMBER")
