"""Checksums, so that nothing which was damaged or lies in another place is read as if it were whole.

The file `checksums` of a folder has a line for each file that counts: its checksum and its name, or `-` and its name where there
is none any more. Lines are only ever added, and the last one of a name counts. The marker of the folder says how many bytes of
lines count, with their checksum. The line of a file that replaces another one is on the disk before that file is, so what a kill
leaves in between is described by one of the lines beyond. Files of JSON hold a checksum of their own.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from measureflow.words.settings import InputError

NAME = "checksums"
"""The file with the checksums of the others."""
GONE = "-"
"""Stands for the checksum of a file that is not there."""


def checksum(data: bytes | None) -> str:
    """The first 128 bits of SHA-256 of what a file holds."""
    return GONE if data is None else hashlib.sha256(data).hexdigest()[:32]


def broken(path: Path, what: str, error: object) -> InputError:
    """The sentence for a run folder of which a part cannot be read; one that was said already stays."""
    if isinstance(error, InputError):
        return error
    said = f"no {error}" if isinstance(error, KeyError) else str(error).split("\n")[0].rstrip(".")
    return InputError(
        f"{str(path)!r} is a run that is broken: {what}: {said}. What its other files hold can still be read: "
        "run.json and config.toml are text, and xarray opens data.zarr."
    )


def sealed(words: Mapping[str, Any]) -> dict[str, Any]:
    """Words with a checksum of them, for a file of JSON."""
    return {**words, "checksum": _of_words(words)}


def unsealed(words: Any) -> dict[str, Any]:
    """The words that were sealed; a ValueError where they have changed."""
    rest = {name: value for name, value in words.items() if name != "checksum"} if isinstance(words, dict) else {}
    if not rest or words.get("checksum") != _of_words(rest):
        raise ValueError("its checksum is not that of what it holds; it was damaged, or changed by something else")
    return rest


def parsed(text: str) -> dict[str, Any]:
    """The words of a file of JSON; those of a run with checksums are sealed, which the name of the run tells."""
    words = json.loads(text)
    return unsealed(words) if not isinstance(words, dict) or "run" in words else words


def _of_words(words: Mapping[str, Any]) -> str:
    return checksum(json.dumps(words, sort_keys=True).encode())


class Checksums:
    """The checksums of the files of a folder, by their names in it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._counted: dict[str, str] = {}
        self._beyond: dict[str, list[str]] = {}
        self._waiting: dict[str, str] = {}
        self._lines, self._size = hashlib.sha256(), 0

    @staticmethod
    def read(folder: Path, counted: Mapping[str, Any]) -> "Checksums":
        """Those of a folder, given what its marker says of them."""
        found = Checksums(folder)
        try:
            lines, size = (folder / NAME).read_bytes(), int(counted["bytes"])
            if len(lines) < size or checksum(lines[:size]) != counted["checksum"]:
                raise ValueError("its own checksum is not the one in commit.json; it was damaged, or changed by others")
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise broken(folder, NAME, error) from None
        found._take(lines[:size])
        found._settle()
        found._take_later()
        return found

    def reopen(self) -> None:
        """Go on after what a kill left: a file that was being replaced holds what it was, or what it was to be."""
        os.truncate(self.folder / NAME, self._size)
        left = {name: self._left(name) for name in self._beyond}
        self._add({name: line for name, line in left.items() if line != self._beyond[name][-1]})

    def note(self, name: str, data: bytes | None) -> None:
        """Take down what a file is about to hold, or that it is about to be removed."""
        if "\n" in name:
            raise InputError(f"A name in a run folder must be one line; got {name!r}.")
        line = checksum(data)
        if name not in self._counted and name not in self._beyond:
            self._waiting[name] = line
        elif line != self._lines_of(name)[-1]:
            self._add({name: line})

    def counted(self) -> dict[str, Any]:
        """Put all lines on the disk; what the marker says of them."""
        self._add(self._waiting)
        self._waiting = {}
        self._settle()
        return {"bytes": self._size, "checksum": self._lines.hexdigest()[:32]}

    def check(self, name: str, data: bytes | None) -> None:
        """Refuse what a file holds, or that it is gone, unless that was taken down."""
        line = checksum(data)
        if line in self._lines_of(name):
            return
        self._take_later()  # a run under way may have replaced it since
        if line not in self._lines_of(name):
            why = "its checksum is not the one it was written with; it was damaged, or put there by others"
            raise broken(self.folder, name, "it is missing" if data is None else why)

    def data(self, name: str) -> bytes:
        """What a file holds, checked."""
        data = _held(self.folder / name)
        self.check(name, data)
        return data or b""

    def __contains__(self, name: str) -> bool:
        return bool(self._lines_of(name))

    def __iter__(self) -> Iterator[str]:
        """The names of all files that count, but for those that were removed."""
        for name in {**self._counted, **self._beyond, **self._waiting}:
            if GONE not in self._lines_of(name) or (self.folder / name).is_file():
                yield name

    def _lines_of(self, name: str) -> list[str]:
        """What a file may hold, the last that was taken down at the end."""
        held = self._counted.get(name), *self._beyond.get(name, ()), self._waiting.get(name)
        return [line for line in held if line is not None]

    def _left(self, name: str) -> str:
        line = checksum(_held(self.folder / name))
        if line not in self._lines_of(name) and name in self._counted:
            raise broken(self.folder, name, "it is neither what it was nor what was to replace it")
        return line if line in self._lines_of(name) else GONE

    def _settle(self) -> None:
        self._counted |= {name: lines[-1] for name, lines in self._beyond.items()}
        self._beyond = {}

    def _take_later(self) -> None:
        """Take the lines that were added since."""
        held = _held(self.folder / NAME) or b""
        self._take(held[self._size : held.rfind(b"\n") + 1])

    def _take(self, lines: bytes) -> None:
        self._lines.update(lines)
        self._size += len(lines)
        for line in lines.decode(errors="replace").split("\n")[:-1]:
            digest, _, name = line.partition(" ")
            self._beyond.setdefault(name, []).append(digest)

    def _add(self, lines: Mapping[str, str]) -> None:
        text = "".join(f"{line} {name}\n" for name, line in lines.items()).encode()
        try:
            with open(self.folder / NAME, "ab") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            os.truncate(self.folder / NAME, self._size)  # half a line would spoil the next one
            raise
        self._take(text)


def _held(file: Path) -> bytes | None:
    """What a file holds, if it is there."""
    try:
        return file.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
