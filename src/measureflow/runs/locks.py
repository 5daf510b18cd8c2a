"""Locks of folders: one process writes a folder at a time, and the lock ends with the process, however that ends."""

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from measureflow.words.settings import InputError

_KEPT: ContextVar[contextlib.ExitStack | None] = ContextVar("kept", default=None)


@contextlib.contextmanager
def locks_kept() -> Iterator[None]:
    """Keep locks that are released meanwhile to the end: pictures are drawn into a folder whose frames are complete."""
    with contextlib.ExitStack() as stack:
        before = _KEPT.set(stack)
        try:
            yield
        finally:
            _KEPT.reset(before)


def release(lock: int) -> None:
    """Let go of a folder, now or when what keeps locks ends."""
    stack = _KEPT.get()
    stack.callback(os.close, lock) if stack is not None else os.close(lock)


def is_alive(path: Path) -> bool:
    """Whether a process is writing the run."""
    try:
        os.close(_lock(path))
    except BlockingIOError:
        return True
    return False


def lock_folder(path: Path) -> int:
    """The handle of a folder that this process alone may write from now on; a sentence where another one does."""
    try:
        return _lock(path)
    except BlockingIOError:
        raise InputError(
            f"{str(path)!r} is being written by another process; wait for it or choose another folder."
        ) from None


def _lock(path: Path) -> int:
    """The handle of a folder that no other process holds; the lock ends with the process."""
    import fcntl

    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle
