"""How much memory there is, and whether what is asked for fits into it: the one budget, asked before anything is allocated.

Sizes are rough: they only have to tell what a machine can do from what it cannot.
"""

import os
from pathlib import Path

NUMBER = 8
"""Bytes of a number."""


def available() -> float | None:
    """The bytes of memory that a new process may take, where the system tells."""
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        if "MemAvailable" in lines:
            return 1024.0 * int(lines["MemAvailable"].split()[0])
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return None


def ask(size: int | float, what: str, remedy: str) -> None:
    """Refuse what takes more bytes than are free: `what` it is that takes them, and the `remedy` for it.

    A system that does not tell is believed to have enough.
    """
    free = available()
    if free is not None and not size <= free:
        raise ValueError(
            f"{what} would need about {in_words(size)} of memory, and {in_words(free)} are free: {remedy}."
        )


def in_words(size: int | float) -> str:
    """A number of bytes for people."""
    size = float(min(size, 1e300))  # a whole number may be beyond all floats
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError
