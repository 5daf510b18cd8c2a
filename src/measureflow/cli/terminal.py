"""The standard streams, and text of others on them.

A terminal may know few letters, and a stream may be closed, full, or read by somebody who has seen enough; the work of a command
goes on all the same. Paths, titles, names and stored sentences are not ours: they may hold control characters, which a terminal
would obey. `say`, `complain` and `printing.Printer` show them escaped. Needs nothing that takes time to load.
"""

import contextlib
import io
import os
import sys
from typing import TextIO, final


@final
class Outlet(io.FileIO):
    """Where a stream goes. A write that fails is kept as `lost` and nothing more is written, so that the work goes on."""

    lost: OSError | None = None

    def write(self, data, /):
        """Write bytes; drop them where an earlier write has failed."""
        if self.lost is None:
            try:
                return super().write(data)
            except OSError as error:
                self.lost = error
        return len(data)


def open_streams() -> tuple[Outlet, Outlet]:
    """Standard output and error that survive what becomes of them, in place of those of Python."""
    for handle in range(3):
        with contextlib.suppress(OSError):
            os.fstat(handle)
            continue
        os.open(os.devnull, os.O_RDWR)  # it takes the number of the closed stream, which no file of a run may have
    out, err = Outlet(1, "w", closefd=False), Outlet(2, "w", closefd=False)
    sys.stdout, sys.stderr = _text(out, sys.stdout, out.isatty()), _text(err, sys.stderr, True)
    return out, err


def _text(outlet: Outlet, old: TextIO | None, lines: bool) -> TextIO:
    """A text stream in the encoding of another; letters that it lacks are escaped."""
    encoding = "utf-8" if old is None else old.encoding
    return io.TextIOWrapper(io.BufferedWriter(outlet), encoding, "backslashreplace", line_buffering=lines)


def plain(text: str) -> str:
    """A text in which characters that a terminal obeys or cannot show are escaped; lines stay lines."""
    shown = (c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
    return text if text.isprintable() else "".join(shown)


def say(*sentences: str) -> None:
    """Print sentences for people."""
    print(*map(plain, sentences), sep="\n", flush=True)  # noqa: T201


def complain(*sentences: str) -> int:
    """Say what is wrong and return the exit code for it."""
    print(*map(plain, sentences), sep="\n", file=sys.stderr, flush=True)  # noqa: T201
    return 2
