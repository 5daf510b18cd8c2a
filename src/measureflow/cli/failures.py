"""What becomes of an error that no command foresaw: a sentence, and for one of our own a log file that it names.

What the system refuses (a file that cannot be read, a disk that is full, memory that is not there) is said as it is. Anything
else is an error of measureflow: exit code 70, as `sysexits.h` has it. `MEASUREFLOW_DEBUG=1` shows the traceback instead.
"""

import errno
import os
import platform
import shlex
import tempfile
import time
import traceback
from pathlib import Path

from measureflow.cli.terminal import complain

OURS = 70
"""The exit code of an error of measureflow itself."""
DEBUG = "MEASUREFLOW_DEBUG"
"""The variable that asks for tracebacks."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""What the system says when the disk, and not the name of a file, is what is wrong."""


def explain(error: Exception, words: list[str]) -> int:
    """Say what became of a command line, and return its exit code."""
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        complain(f"The memory does not suffice: {_line(error)}. Ask for less at once; what was saved is safe.")
        return 1
    if isinstance(error, OSError) and error.strerror is not None:
        name = "" if error.filename is None else f"Cannot use {error.filename!r}: "
        complain(f"{name}{error.strerror}.")
        return 1 if error.errno in FULL else 2
    kept = _kept(_log(error, words))
    where = f"Please report it with {str(kept)!r}" if kept else "No log file could be written"
    complain(
        f"An error of measureflow itself, {type(error).__name__}: {_line(error)}. {where}; {DEBUG}=1 shows the traceback."
    )
    return OURS


def _line(error: Exception) -> str:
    """The first line of a message."""
    return (str(error).splitlines() or [""])[0].rstrip(".")


def _log(error: Exception, words: list[str]) -> str:
    """All that is known of an error."""
    import importlib.metadata

    made = f"measureflow {importlib.metadata.version('measureflow')}, Python {platform.python_version()}, {platform.platform()}"
    return "\n".join([made, f"measureflow {shlex.join(words)}", "", *traceback.format_exception(error)])


def _kept(text: str) -> Path | None:
    """The file in which a log is kept: in the folder of the user's logs, or in that of temporary files."""
    state = Path(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "measureflow")
    for folder in (state, Path(tempfile.gettempdir())):
        file = folder / f"measureflow-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue
        return file
    return None
