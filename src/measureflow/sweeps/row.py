"""A row of the table of a sweep: what came out of one cell."""

import base64
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """How a cell ended, its last numbers, its error estimate and cost; with `times`, its series along them.

    A cell that could not be computed is not `ok`, and its outcome is the reason.
    """

    outcome: str
    ok: bool
    time: float = float("nan")
    stats: dict[str, Any] = field(default_factory=dict)
    final: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    times: np.ndarray | None = None
    series: dict[str, np.ndarray] = field(default_factory=dict)

    @staticmethod
    def failed(error: BaseException, seconds: float = 0.0) -> "Row":
        """The row of a cell that raised an error."""
        name = "" if type(error).__name__ == "InputError" else f"{type(error).__name__}: "
        return Row(f"Failed: {name}{error}", ok=False, seconds=seconds)

    def kept(self) -> dict[str, Any]:
        """The row as plain values; arrays as their bytes, so that they come back to the same bits."""
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("times", "series")}
        if self.times is None:
            return plain
        packed = {name: _packed(values) for name, values in self.series.items()}
        return plain | {"times": _packed(self.times), "series": packed}

    @staticmethod
    def restored(kept: dict[str, Any]) -> "Row":
        """The row of plain values."""
        times = _unpacked(kept["times"]) if "times" in kept else None
        series = {name: _unpacked(text) for name, text in kept.get("series", {}).items()}
        return Row(**(kept | {"times": times, "series": series}))


def _packed(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode()


def _unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f8")
