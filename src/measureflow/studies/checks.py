"""One part of a claim: a prediction, what was measured, and how far apart they may be.

Numbers should equal a prediction, or stay on one side of a bound. A check knows its *margin*: the share of the tolerance
that the worst entry leaves, one where nothing of it is used and negative where it does not hold. NaN satisfies no check.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Numbers = int | float | list
"""What is compared: a number, or a list of numbers, perhaps of lists."""

Relation = Literal["equal", "at most", "at least"]


@dataclass(frozen=True)
class Check:
    """One part of a claim, already compared: what was predicted, what was measured, and whether they agree."""

    what: str
    relation: Relation
    predicted: Numbers
    measured: Numbers
    tolerance: Numbers
    holds: bool
    margin: float

    def __str__(self) -> str:
        """The worst entry in words, with digits enough to tell it from its prediction and from what is still allowed."""
        predicted, measured, tolerance, place = self._worst
        bound = "" if self.relation == "equal" else f"{self.relation} "
        allowed = f" within {tolerance:g}" if tolerance else ""
        one, other = _told_apart(predicted, measured, _edge(self.relation, predicted, measured, tolerance))
        return f"{self.what}: predicted {bound}{one}{allowed}, measured {other}{place}"

    @property
    def _worst(self) -> tuple[Any, Any, Any, str]:
        if not np.size(self.measured):
            return self.predicted, "nothing", 0.0, ""
        arrays = np.broadcast_arrays(self.predicted, self.measured, self.tolerance)
        margins = _margins(self.relation, *arrays)
        at = np.unravel_index(np.argmin(margins), margins.shape)
        counted = ", ".join(str(int(i) + 1) for i in at)
        place = f" (entry {counted} of {' x '.join(map(str, margins.shape))})" if at else ""
        return (*(array[at].item() for array in arrays), place)


def equal(what: str, predicted: Any, measured: Any, tolerance: Any) -> Check:
    """A check that numbers agree: `|measured - predicted| <= tolerance`, entry by entry.

    Tolerance 0 asks for equality: a count of 10 out of 10, or an exact zero.
    """
    return _compare("equal", what, predicted, measured, tolerance)


def at_most(what: str, bound: Any, measured: Any, slack: Any = 0.0) -> Check:
    """A check that numbers do not exceed a bound, `measured <= bound + slack`; a slack needs a reason, such as rounding."""
    return _compare("at most", what, bound, measured, slack)


def at_least(what: str, bound: Any, measured: Any, slack: Any = 0.0) -> Check:
    """A check that numbers reach a bound, `measured >= bound - slack`; a slack needs a reason, such as rounding."""
    return _compare("at least", what, bound, measured, slack)


def _compare(relation: Relation, what: str, predicted: Any, measured: Any, tolerance: Any) -> Check:
    arrays = [np.asarray(value) for value in (predicted, measured, tolerance)]
    plain = [array.tolist() for array in arrays]
    if not arrays[1].size:  # nothing measured is nothing shown
        return Check(what, relation, *plain, holds=False, margin=-np.inf)
    holds, margin = bool(_within(relation, *arrays).all()), float(_margins(relation, *arrays).min())
    return Check(what, relation, *plain, holds=holds, margin=margin)


@np.errstate(invalid="ignore")  # infinite numbers are compared as well
def _within(relation: Relation, predicted: Any, measured: Any, tolerance: Any) -> Any:
    match relation:
        case "equal":
            return np.abs(np.subtract(measured, predicted, dtype=float)) <= tolerance
        case "at most":
            return measured <= np.add(predicted, tolerance)
        case "at least":
            return measured >= np.subtract(predicted, tolerance)


@np.errstate(invalid="ignore")
def _margins(relation: Relation, predicted: Any, measured: Any, tolerance: Any) -> Any:
    """The share of the tolerance that is left, at most one; of a bound without slack, the room relative to its size."""
    gap = np.subtract(predicted, measured, dtype=float)
    away = {"equal": np.abs(gap), "at most": -gap, "at least": gap}[relation]
    size = np.maximum(np.abs(predicted), np.abs(measured))
    scale = np.where(tolerance > 0, tolerance, np.where(size > 0, size, 1.0))
    counts = np.issubdtype(np.result_type(predicted, measured), np.integer)
    exact = counts | ((relation == "equal") & (gap == 0))  # nothing rounds a count over its bound
    within = _within(relation, predicted, measured, tolerance)
    shares = np.where(exact & within, 1.0, (tolerance - away) / scale)
    # Beside an infinite bound the share is not a number, and all there is to say is whether the check holds.
    shares = np.where(np.isnan(shares), np.where(within, 1.0, -np.inf), shares)
    return np.where(within, shares.clip(0, 1), np.minimum(shares, -np.finfo(float).tiny))


def _edge(relation: Relation, predicted: Any, measured: Any, tolerance: Any) -> Any:
    """The last number that is still allowed, on the side where the measured one lies."""
    if isinstance(measured, str) or isinstance(predicted, list):
        return measured
    above = relation == "at most" or (relation == "equal" and measured > predicted)
    return predicted + tolerance if above else predicted - tolerance


def _told_apart(predicted: Any, measured: Any, edge: Any) -> tuple[str, str]:
    for digits in range(6, 18):
        one, other, last = (_written(value, digits) for value in (predicted, measured, edge))
        if (one != other or predicted == measured) and (last != other or edge == measured):
            return one, other
    return _written(predicted, 17), _written(measured, 17)


def _written(value: Any, digits: int) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
