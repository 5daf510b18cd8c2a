"""What a kernel sum costs: a small model that each engine declares with numbers measured once.

`seconds = start + pairs (pair + product d) + tokens token` for `d` coordinates. The numbers of the classes are of a two-core
laptop-class processor with AVX-512 and of an H200; `measureflow bench --calibrate` measures those of the machine at hand and
keeps them in the user's cache folder, where `calibrated` finds them.
"""

import functools
import json
import os
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """Seconds to start, for each pair, for each pair and coordinate, and for each token."""

    start: float
    pair: float = 0.0
    product: float = 0.0
    token: float = 0.0

    def seconds(self, m: int, n: int, d: int) -> float:
        """The predicted time of a sum."""
        return self.start + m * n * (self.pair + self.product * d) + (m + n) * self.token


def cache_file() -> Path:
    """Where a calibration is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "measureflow", "costs.json")


@functools.cache
def calibrated(kind: str) -> dict[str, Cost]:
    """The costs, by name of engine, that were measured here on a kind of device in a precision, such as `"cpu float64"`."""
    try:
        kept = json.loads(cache_file().read_text())
    except (OSError, ValueError):
        return {}
    return {name: Cost(*numbers) for name, numbers in kept.get(kind, {}).items()}


def keep(kind: str, measured: dict[str, Cost]) -> Path:
    """Write a calibration for a kind, beside those of other kinds, and use it from now on."""
    file = cache_file()
    try:
        kept = json.loads(file.read_text())
    except (OSError, ValueError):
        kept = {}
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(kept | {kind: measured}, indent=2) + "\n")
    partial.replace(file)
    calibrated.cache_clear()
    return file
