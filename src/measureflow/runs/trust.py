"""Which file of words of one's own (`use`) is executed for a run whose folder names one.

A folder may come from elsewhere, so looking at a run executes nothing, and going on with it or running it again only a file that
this user has run before with the same content. What was run is known by checksums that are kept outside of all run folders.
"""

import contextlib
import functools
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from measureflow.words import vocabulary
from measureflow.words.settings import InputError

if TYPE_CHECKING:
    from measureflow.runs.reader import Run


def register() -> Path:
    """The file with a line for each content that this user has run."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(home, "measureflow", "used")


def use(file: str) -> None:
    """Execute a file of words that this user asks for, and remember what it holds."""
    try:
        held = vocabulary.source(file)
        vocabulary.use(file, held)
    except (ValueError, OSError) as error:
        raise InputError(f"{error}.") from None
    _remember(hashlib.sha256(held).hexdigest(), register())


def use_words_of(run: "Run", trust: bool = False) -> None:
    """Execute the file of words that a run names: one that this user has run before, or any if they `trust` it."""
    file = run.words.get("use")
    if file is None or vocabulary.is_used(str(file)):
        return
    try:
        held = vocabulary.source(str(file))
        if not (trust or hashlib.sha256(held).hexdigest() in _known()):
            raise InputError(
                f"{str(run.path)!r} asks for {file!r}, a Python file that you have not run with this content before, and that "
                "would run as you. Read it first; if you trust it, add `--trust` (`trust=True`)"
            )
        vocabulary.use(str(file), held)
    except (ValueError, OSError) as error:
        raise InputError(f"{error}.") from None


def _known() -> set[str]:
    with contextlib.suppress(OSError):
        return set(register().read_text().split())
    return set()


@functools.cache
def _remember(content: str, file: Path) -> None:
    """Add a line; without a place to write to, a run that is resumed asks."""
    if content not in _known():
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(file, "a") as lines:
                lines.write(f"{content}\n")
