"""Schemas of commands that make no run: what is asked on the command line, and the files that are written; needs no JAX."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from measureflow.words.settings import InputError

PICTURES = (".png", ".pdf", ".svg")
"""Kinds of pictures that can be written."""
MAKER = "made by"
"""The name in a file of numbers under which its command is."""


def check_writable(file: str) -> str:
    """The name of a file that can be written; otherwise why not, before any work is done."""
    path = Path(file)
    if not path.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {str(path.parent)!r} to write {file!r} to")
    if path.is_dir():
        raise ValueError(f"{file!r} is a folder; give the name of a file")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise ValueError(f"{file!r} cannot be written; permission is denied")
    return file


def _picture(file: str) -> str:
    if Path(file).suffix not in PICTURES:
        raise ValueError(f"must end in {', '.join(PICTURES)}; got {file!r}")
    return file


Output = Annotated[str, AfterValidator(check_writable)]
"""A file that a command writes."""
Picture = Annotated[str, AfterValidator(_picture), AfterValidator(check_writable)]
"""A picture that a command writes."""


def numbers_beside(picture: Path, command: str) -> Path:
    """The file for the numbers of a picture; one that another hand has written is refused."""
    file = picture.with_suffix(".json")
    if (file.exists() or file.is_symlink()) and _maker(file) != command:
        raise InputError(
            f"`out`: the numbers of {str(picture)!r} go into {str(file)!r}, which is there and was not written by `{command}`; "
            "choose another name."
        )
    return file


def write_numbers(file: Path, command: str, numbers: dict[str, Any]) -> None:
    """Write numbers with the name of the command that makes them."""
    file.write_text(json.dumps({MAKER: command} | numbers, indent=1))


def _maker(file: Path) -> Any:
    """Who wrote a file of numbers, as it says itself."""
    try:
        return json.loads(file.read_text())[MAKER]
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Words(BaseModel):
    """The schema of a command that makes no run of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def positional(metavar: str, help: str, *, least: int = 1) -> Any:
    """A field of a schema for words without an option in front; at least one is needed, unless told otherwise."""
    extra: Any = {"positional": metavar}
    return Field((), min_length=least, description=help, json_schema_extra=extra, validate_default=True)
