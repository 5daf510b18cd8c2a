"""How much memory a run would take, and how much there is: what does not fit is refused before anything is allocated.

Estimates are rough, measured for tokens and for densities on the sphere and counted for the others; they only have to tell what
a machine can do from what it cannot.
"""

import os
from pathlib import Path

from measureflow.words.settings import InputError, Settings

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


def check(settings: Settings) -> None:
    """Refuse a run that needs more memory than is free, with the options that would make it smaller."""
    need, free = NUMBER * settings.numbers(), available()
    if free is not None and need > free:
        options = " or ".join(f"`{name}`" for name in settings.sizes())
        raise InputError(
            f"This would need about {in_words(need)} of memory, and {in_words(free)} are free: make {options} smaller."
        )


def in_words(size: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError
