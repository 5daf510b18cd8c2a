"""What a kernel sum costs: a small model of each engine, measured once.

`seconds = start + pairs (pair + product d) + tokens token` for `d` coordinates. The numbers below are of a two-core laptop-class
processor with AVX-512 and of an H200; `measureflow bench --calibrate` measures those of the machine at hand and keeps
them in the user's cache folder, where `costs` finds them.
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


MEASURED = {
    "cpu float32": {
        "dense": Cost(2e-6, 2.4e-9, 3e-11),
        "blockwise": Cost(6e-5, 8e-10, 3e-11),
        "native": Cost(1e-6, 8e-11, 1.8e-11),
        "fourier": Cost(4e-6, token=1.1e-8),
        "harmonics": Cost(1e-5, token=6e-8),
    },
    "cpu float64": {
        "dense": Cost(2e-6, 3.4e-9, 1e-10),
        "blockwise": Cost(6e-5, 1.5e-9, 1e-10),
        "native": Cost(1e-6, 2.6e-10, 3.5e-11),
        "fourier": Cost(4e-6, token=1.1e-8),
        "harmonics": Cost(1e-5, token=6e-8),
    },
    "gpu float32": {
        "dense": Cost(1e-5, 6e-12, 1e-13),
        "blockwise": Cost(1e-4, 5.5e-12, 8e-14),
        "pallas": Cost(3e-5, 2e-13, 6e-14),
    },
    "gpu float64": {
        "dense": Cost(1e-5, 1e-11, 2e-13),
        "blockwise": Cost(1e-4, 8e-12, 3e-13),
        "pallas": Cost(3e-5, 1.3e-12, 1e-13),
    },
}


def cache_file() -> Path:
    """Where a calibration is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "measureflow", "costs.json")


@functools.cache
def costs(kind: str) -> dict[str, Cost]:
    """The costs of the engines on a kind of device in a precision, such as `"cpu float64"`; none for kinds not measured."""
    table = MEASURED.get(kind, {})
    try:
        kept = json.loads(cache_file().read_text())
    except (OSError, ValueError):
        return table
    return table | {name: Cost(*numbers) for name, numbers in kept.get(kind, {}).items()}


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
    costs.cache_clear()
    return file
