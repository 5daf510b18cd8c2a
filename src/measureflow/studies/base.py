"""A published claim, the checks it is made of, and the verdict on it.

A claim is judged by one or several checks: numbers that should equal a prediction or stay on one side of a bound. The
verdict *holds* when every check holds. It is *as expected* when it holds for a claim believed true, and differs for one
believed false; there the checks under `instead` must hold too, so that it differs for the known reason and no other.
A NaN satisfies no check. Verdicts are plain Python values, ready for JSON.
"""

import enum
import math
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

Plain = int | float | str | list | dict
"""What a verdict may hold: numbers, sentences, and lists and dictionaries of them."""

Expected = Literal["holds", "differs"]

T = TypeVar("T")


class Size(enum.Enum):
    """How much a study computes: `SMALL` takes seconds, `FULL` is the setting of the catalogue where that is larger."""

    SMALL = "small"
    FULL = "full"

    def pick(self, small: T, full: T) -> T:
        """The first value for a small study, the second for a full one."""
        return small if self is Size.SMALL else full


SMALL, FULL = Size.SMALL, Size.FULL


@dataclass(frozen=True)
class Check:
    """One part of a claim, already compared: what was predicted, what was measured, and whether they agree."""

    what: str
    predicted: Plain
    measured: Plain
    tolerance: Plain
    holds: bool


def equal(what: str, predicted: Any, measured: Any, tolerance: Any) -> Check:
    """A check that numbers agree: `|measured - predicted| <= tolerance`, entry by entry.

    Tolerance 0 asks for equality: a count of 10 out of 10, or an exact zero.
    """
    close = np.abs(np.subtract(measured, predicted)) <= np.asarray(tolerance)
    return Check(what, _plain(predicted), _plain(measured), _plain(tolerance), _all(close))


def at_most(what: str, bound: Any, measured: Any) -> Check:
    """A check that numbers do not exceed a bound, without slack."""
    holds = _all(np.asarray(measured) <= np.asarray(bound))
    return Check(what, f"at most {_short(_plain(bound))}", _plain(measured), 0.0, holds)


def at_least(what: str, bound: Any, measured: Any) -> Check:
    """A check that numbers reach a bound, without slack."""
    holds = _all(np.asarray(measured) >= np.asarray(bound))
    return Check(what, f"at least {_short(_plain(bound))}", _plain(measured), 0.0, holds)


@dataclass(frozen=True)
class Verdict:
    """What a study found: a line for people, fields for machines.

    `predicted`, `measured` and `tolerance` are the values of the only check, or dictionaries by part when there are
    several. `reason` says why a claim that was expected to differ does.
    """

    name: str
    statement: str
    reference: str
    predicted: Plain
    measured: Plain
    tolerance: Plain
    holds: bool
    expected: Expected
    as_expected: bool
    seconds: float = 0.0
    reason: str = ""
    decisive: str = ""

    def __str__(self) -> str:
        agreement = "as expected" if self.as_expected else "NOT AS EXPECTED"
        return f"{self.name}: {self.decisive}; {self.word}, {agreement} ({self.seconds:.1f} s)"

    @property
    def word(self) -> Expected:
        """The verdict in one word."""
        return "holds" if self.holds else "differs"

    def as_json(self) -> dict[str, Any]:
        """The fields by name as values that every JSON reader takes; numbers that are not finite become strings."""
        fields = ("name", "statement", "reference", "predicted", "measured", "tolerance", "holds", "expected")
        return {name: _finite(getattr(self, name)) for name in (*fields, "as_expected", "seconds", "reason")}


@dataclass(frozen=True)
class Claim:
    """A statement of the literature that a short computation can confirm or refute.

    `name` is its id in the catalogue, `reference` a citation key. Names that end in `-as-published` quote a statement
    known to be wrong or incomplete; these, and only these, are expected to differ.
    """

    name: str
    statement: str
    reference: str
    expected: Expected = "holds"

    def __post_init__(self):
        if (self.expected == "differs") != self.name.endswith("-as-published"):
            raise ValueError(
                f"`expected` is {self.expected!r} for the claim {self.name!r}, but claims ending in '-as-published' "
                "differ and all others hold; change the name or what is expected."
            )

    def judge(self, *checks: Check, instead: tuple[Check, ...] = (), reason: str = "") -> Verdict:
        """The verdict that checks give.

        `checks` are the parts of the claim. For a claim expected to differ, `instead` are the checks of what is true
        in its place and `reason` the sentence that says so.
        """
        if not checks:
            raise ValueError(f"The claim {self.name!r} needs at least one check to be judged.")
        parts = (*checks, *instead)
        if len({part.what for part in parts}) < len(parts):
            raise ValueError(f"Two parts of the claim {self.name!r} have one name: {[part.what for part in parts]}.")
        holds = all(check.holds for check in checks)
        return Verdict(
            name=self.name,
            statement=self.statement,
            reference=self.reference,
            predicted=_by_part(parts, [part.predicted for part in parts]),
            measured=_by_part(parts, [part.measured for part in parts]),
            tolerance=_by_part(parts, [part.tolerance for part in parts]),
            holds=holds,
            expected=self.expected,
            as_expected=holds == (self.expected == "holds") and all(check.holds for check in instead),
            reason=reason,
            decisive=_decisive(parts),
        )


def _by_part(parts: tuple[Check, ...], values: list[Plain]) -> Plain:
    return values[0] if len(parts) == 1 else {part.what: value for part, value in zip(parts, values, strict=True)}


def _decisive(parts: tuple[Check, ...]) -> str:
    """The first part that fails, or else the first part, and how many parts hold."""
    part = next((part for part in parts if not part.holds), parts[0])
    count = f" ({sum(part.holds for part in parts)} of {len(parts)} parts)" if len(parts) > 1 else ""
    return f"{part.what}: predicted {_short(part.predicted)}, measured {_short(part.measured)}{count}"


def _all(holds: Any) -> bool:
    """Whether every entry holds; nothing measured is nothing shown."""
    return np.size(holds) > 0 and bool(np.all(holds))


def _plain(value: Any) -> Plain:
    return np.asarray(value).tolist()


def _short(value: Plain) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_short(item) for item in value) + "]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list():
            return [_finite(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case _:
            return value
