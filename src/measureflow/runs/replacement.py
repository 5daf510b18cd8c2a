"""Where a run is written: a new folder, or one beside a run that it replaces when it has ended.

`--force` computes into `.NAME.partial-1` beside NAME and then exchanges the two names, so that NAME is the old run, whole, until
it is the new one, whole. A new run that is interrupted stays where it is; resuming it there ends with the same exchange. Only
what runs write is ever removed: a folder with anything else in it is refused.
"""

import contextlib
import ctypes
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from measureflow.runs.catalogue import COMMANDS
from measureflow.runs.checksums import NAME, parsed
from measureflow.runs.folder import CHECKED
from measureflow.runs.locks import lock_folder, release
from measureflow.runs.reader import Run
from measureflow.runs.store import DATA
from measureflow.words.settings import InputError

WRITTEN = {
    *("run.json", "config.toml", "commit.json", "run.json.tmp", "commit.json.tmp", NAME),
    *("figure.png", "figure.pdf", "figure.svg", "movie.gif", "movie.mp4", "report.html"),
}
"""Files that a run writes, beside `data.zarr` and `state-*.eqx`."""
FULL = 2**20
"""Free bytes beyond the size of the frames without which a run does not start."""


class Place(NamedTuple):
    """A folder that this process has locked for a run, and the one that it replaces, locked as well."""

    path: Path
    lock: int
    old: Path | None = None
    old_lock: int | None = None

    def settle(self) -> Path:
        """Put a run that has ended into its place, and say where that is."""
        return self.path if self.old is None else _replaced(self.old, self.path)

    def close(self) -> None:
        """Release what is replaced; the folder of the run releases itself."""
        if self.old_lock is not None:
            release(self.old_lock)


def make_place(out: str | None, command: str, force: bool, inputs: tuple[str, ...] = ()) -> Place:
    """The folder that is asked for, empty and locked: a new one named after the command unless given."""
    if out is None:
        path = _next(Path("runs", command.replace(" ", "-")))
        return Place(path, lock_folder(path))
    path = Path(out)
    with _speaking("out"):
        if _check_replaceable(path, force, inputs):
            old_lock = lock_folder(path)
            beside = _next(path.resolve().with_name(f".{path.resolve().name}.partial"))
            return Place(beside, lock_folder(beside), path, old_lock)
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise InputError(f"`out`: {out!r} cannot be written.")
        lock = lock_folder(path)
        if any(path.iterdir()):  # another process was faster
            os.close(lock)
            raise InputError(f"`out`: {out!r} exists; choose another folder or add `--force`.")
    return Place(path, lock)


def place_of(path: Path, info: Mapping[str, Any]) -> tuple[Path | None, int | None]:
    """The folder that an interrupted run is to replace, locked, if there is one."""
    old = pending(path, info)
    return old, None if old is None or not old.exists() else lock_folder(old)


def pending(path: Path, info: Mapping[str, Any]) -> Path | None:
    """The folder that a run is to replace and has not replaced yet: its own name tells."""
    name, here = str(info.get("replaces", "")), path.resolve()
    return here.with_name(name) if name and re.fullmatch(rf"\.{re.escape(name)}\.partial-\d+", here.name) else None


def settled(path: Path, info: Mapping[str, Any]) -> Path:
    """Where a run that has ended is in the end, also if it was killed before it could take its place."""
    old, old_lock = place_of(path, info)
    with contextlib.closing(Place(path, -1, old, old_lock)) as place:
        return place.settle()


def remove_folder(place: Place) -> None:
    """Remove what was written into a folder that this process has locked, and the folder if nothing else is in it."""
    with contextlib.suppress(OSError):
        _clear(place.path)
        place.path.rmdir()
    os.close(place.lock)
    place.close()


def _replaced(old: Path, new: Path) -> Path:
    """Exchange an old run for a new one, and remove the old one."""
    if not old.exists():
        os.rename(new, old)
        return old
    try:
        _check_replaceable(old, True, ())
    except InputError as error:
        raise InputError(*error.sentences, f"The new run is whole, in {str(new)!r}.") from None
    aside = _next(new.with_name(f".{old.resolve().name}.replaced"))
    if _exchange(old, new):
        os.rename(new, aside)
    else:
        os.rename(old, aside)
        os.rename(new, old)
    _clear(aside)
    aside.rmdir()
    return old


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders at once, where the system can."""
    exchange = getattr(ctypes.CDLL(None), "renameat2", None)  # of Linux; its last word asks for an exchange
    return exchange is not None and exchange(-100, os.fsencode(one.resolve()), -100, os.fsencode(other), 2) == 0


def _next(base: Path) -> Path:
    """The first of `base-1`, `base-2`, ... that no other process has made either."""
    with _speaking("out"):
        base.parent.mkdir(parents=True, exist_ok=True)
        k = 1
        while True:
            with contextlib.suppress(FileExistsError):
                path = base.with_name(f"{base.name}-{k}")
                path.mkdir()
                return path
            k += 1


def _check_replaceable(path: Path, force: bool, inputs: tuple[str, ...]) -> bool:
    """Whether there is a run to be replaced; refuse a folder that is not empty and no such run."""
    shown = str(path)
    if not (path.exists() or path.is_symlink()) or (
        path.is_dir() and not path.is_symlink() and not any(path.iterdir())
    ):
        return False
    if not force:
        raise InputError(f"`out`: {shown!r} exists; choose another folder or add `--force`.")
    if path.is_symlink() or not path.is_dir():
        raise InputError(f"`out`: {shown!r} is a link or a file, so `--force` does not replace it.")
    here = path.resolve()
    if here == Path.home() or here == Path.cwd() or here in Path.cwd().parents:
        raise InputError(f"`out`: {shown!r} holds your work, so `--force` does not replace it; choose another folder.")
    if any(here in Path(file).resolve().parents for file in inputs):
        raise InputError(f"`out`: {shown!r} holds an input of this run, so `--force` does not replace it.")
    if not is_run(path):
        raise InputError(f"`out`: {shown!r} is not a run folder, so `--force` does not replace it.")
    if foreign := next(_foreign(path), None):
        raise InputError(f"`out`: {shown!r} also holds {foreign!r}, which no run wrote; `--force` does not replace it.")
    return True


def is_run(path: Path) -> bool:
    """Whether a run wrote a folder: its `run.json` has the checksum that runs give it, or all that older ones have."""
    try:
        info = parsed((path / "run.json").read_text())
        older = info["format"] < CHECKED and COMMANDS[info["command"]] and len(info["fingerprint"]) == 16
        return bool(info.get("run") or (older and info["versions"]["measureflow"] and (path / "commit.json").is_file()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _foreign(path: Path) -> Iterator[str]:
    """What is in the folder of a run that no run wrote."""
    for item in path.iterdir():
        if item.is_symlink() or not (_is_file_of_run(item) or item.name == DATA):
            yield item.name
    frames, own = path / DATA, _arrays(path)
    for file in frames.rglob("*"):
        name = file.relative_to(frames).as_posix()
        array, _, rest = name.partition("/")
        chunk = re.fullmatch(r"c(/\d+)*|zarr\.json|[\w./]*\.partial|", rest)
        if file.is_symlink() or not (name == "zarr.json" or (array in own and chunk)):
            yield f"{DATA}/{name}"


def _arrays(path: Path) -> set[str]:
    """The arrays of a run, by what it says itself."""
    run = Run(path)
    if run.checksums is not None:
        return {name.split("/")[1] for name in run.checksums if name.startswith(DATA)}
    found = {item.name for item in (path / DATA).iterdir()} if (path / DATA).is_dir() else set()
    return found if {"time", *run.info["series"]} <= found else set()


def _is_file_of_run(item: Path) -> bool:
    return item.is_file() and (item.name in WRITTEN or re.fullmatch(r"state-\d+\.eqx", item.name) is not None)


def _clear(path: Path) -> None:
    """Remove what a run writes, file by file."""
    for item in path.iterdir():
        if item.name == DATA and item.is_dir() and not item.is_symlink():
            shutil.rmtree(item)
        elif _is_file_of_run(item) and not item.is_symlink():
            item.unlink()


def check_room(out: str | Path | None, size: int) -> None:
    """Refuse a run whose frames do not fit on the disk."""
    path = Path("." if out is None else out).absolute()
    free = shutil.disk_usage(next(folder for folder in (path, *path.parents) if folder.exists())).free
    if free < size + FULL:
        raise InputError(
            f"`frames` need {size / 2**20:.0f} MiB and the disk of {str(path)!r} has {free / 2**20:.0f} MiB left: keep fewer."
        )


@contextlib.contextmanager
def _speaking(option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"`{option}`: cannot make {error.filename!r}: {error.strerror}.") from None
