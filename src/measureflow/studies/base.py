"""A published claim, the checks it is made of, and the verdict on it.

A claim is judged by one or several checks: numbers that should equal a prediction or stay on one side of a bound. The
verdict *holds* when every check holds. It is *as expected* when it holds for a claim believed true, and differs for one
believed false; there the checks under `instead` must hold too, so that it differs for the known reason and no other.
Studies that draw at random take a seed, and a true claim comes out so whatever it is. Verdicts are plain Python values,
ready for JSON.
"""

import enum
import inspect
import math
import time
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

import numpy as np

from measureflow import __version__
from measureflow.studies.checks import Check as Check
from measureflow.studies.checks import at_least as at_least
from measureflow.studies.checks import at_most as at_most
from measureflow.studies.checks import equal as equal

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


def slope(x: Any, y: Any) -> float:
    """The exponent of a power law through positive points, by least squares in logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


@dataclass(frozen=True)
class Claim:
    """A statement of the literature that a short computation can confirm or refute.

    `reference` is a citation key and `where` the place in it: a theorem, section or slide, or from what it is derived. `name`
    and `topic` are those of the study's file and folder, given when the study is loaded. Names that end in `-as-published`
    quote a statement known to be wrong or incomplete; these, and only these, are expected to differ.
    """

    statement: str
    reference: str
    where: str
    name: str = ""
    topic: str = ""

    @property
    def expected(self) -> Expected:
        """What the verdict should be."""
        return "differs" if self.name.endswith("-as-published") else "holds"

    def judge(self, *checks: Check, instead: tuple[Check, ...] = (), reason: str = "", data: Any = None) -> "Verdict":
        """The verdict that checks give.

        `checks` are the parts of the claim. For a claim expected to differ, `instead` are the checks of what is true
        in its place and `reason` the sentence that says so. `data` are what the study draws.
        """
        if not checks:
            raise ValueError(f"The claim {self.statement!r} needs at least one check to be judged.")
        names = [part.what for part in (*checks, *instead)]
        if len(set(names)) < len(names):
            raise ValueError(f"Two parts of the claim {self.statement!r} have one name: {names}.")
        return Verdict(self, checks, instead, reason, data)


@dataclass(frozen=True)
class Verdict:
    """What a study found: a line for people, fields for machines, data for a picture.

    A verdict without checks is not decided: the study ended in an error, and `reason` is the error. Otherwise `reason`
    says why a claim that was expected to differ does.
    """

    claim: Claim
    checks: tuple[Check, ...] = ()
    instead: tuple[Check, ...] = ()
    reason: str = ""
    data: Any = field(default=None, compare=False, repr=False)
    size: Size = SMALL
    seed: int | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        agreement = "as expected" if self.as_expected else "NOT AS EXPECTED"
        return f"{self.name}: {self.decisive}; {self.word}, {agreement} ({self.seconds:.1f} s)"

    @property
    def name(self) -> str:
        """The id of the claim."""
        return self.claim.name

    @property
    def holds(self) -> bool:
        """Whether every part of the claim holds."""
        return bool(self.checks) and all(check.holds for check in self.checks)

    @property
    def as_expected(self) -> bool:
        """Whether the claim holds or differs as it should, and what is true in its place holds."""
        right = self.holds == (self.claim.expected == "holds")
        return bool(self.checks) and right and all(check.holds for check in self.instead)

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        return ("holds" if self.holds else "differs") if self.checks else "not decided"

    @property
    def margin(self) -> float:
        """How much of a tolerance is left until the verdict is another, at most one; negative if it is not as expected."""
        if not self.checks:
            return -math.inf
        far = abs(self._tightest.margin)
        return min([far, 1.0, *(part.margin for part in self.instead)]) if self.as_expected else -far

    @property
    def decisive(self) -> str:
        """The tightest part in words and how many parts hold; the error if nothing was decided."""
        if not self.checks:
            return self.reason.split("\n")[0]
        parts = (*self.checks, *self.instead)
        count = f" ({sum(part.holds for part in parts)} of {len(parts)} parts)" if len(parts) > 1 else ""
        return f"{self._tightest}{count}"

    def as_json(self) -> dict[str, Any]:
        """The fields by name as values that every JSON reader takes; numbers that are not finite become strings.

        `predicted`, `measured`, `tolerance` and `relation` are those of the only check, or dictionaries by part when there
        are several. `parts` has them one by one, with whether each holds and belongs to the claim or to what is true instead.
        `seed` is null for a study that draws nothing.
        """
        claim = self.claim
        return {
            **{key: getattr(claim, key) for key in ("name", "topic", "statement", "reference", "where")},
            **{key: _finite(self._by_part(key)) for key in ("predicted", "measured", "tolerance", "relation")},
            **{"holds": self.holds, "expected": claim.expected, "as_expected": self.as_expected},
            **{"seconds": self.seconds, "reason": self.reason, "parts": _finite(self._parts)},
            **{"size": self.size.value, "seed": self.seed, "version": __version__},
        }

    @property
    def _tightest(self) -> Check:
        """The part that leaves least of its tolerance; one that fails although it is true instead comes first."""
        wrong = [part for part in self.instead if not part.holds]
        return min(wrong or self.checks, key=lambda part: part.margin)

    @property
    def _parts(self) -> list[dict[str, Any]]:
        roles = {"claim": self.checks, "instead": self.instead}
        return [{"role": role, **vars(part)} for role, parts in roles.items() for part in parts]

    def _by_part(self, key: str) -> Any:
        values = {part["what"]: part[key] for part in self._parts}
        return next(iter(values.values())) if len(values) == 1 else values


@dataclass(frozen=True)
class Study:
    """A claim and the file that decides it: `run` computes the verdict, `draw` makes a figure of what was found."""

    claim: Claim
    module: ModuleType

    @property
    def random(self) -> bool:
        """Whether the study draws at random, and so takes a seed."""
        return "seed" in inspect.signature(self.module.run).parameters

    def run(self, size: Size = SMALL, seed: int = 0) -> Verdict:
        """Compute what the claim predicts and judge it, in float64 whatever the configuration is."""
        import jax  # here, because it takes a second to load and the list of studies does not need it

        start = time.perf_counter()
        with jax.enable_x64(True):
            verdict = self.module.run(size, seed) if self.random else self.module.run(size)
        if not isinstance(verdict, Verdict):
            raise TypeError(f"`run` of the study {self.claim.name!r} must return `CLAIM.judge(...)`; got {verdict!r}.")
        seconds = time.perf_counter() - start
        return replace(verdict, claim=self.claim, size=size, seed=seed if self.random else None, seconds=seconds)

    def draw(self, verdict: Verdict) -> Any:
        """A figure of what a run found: by the function `draw` of the study, and otherwise of the checks of the verdict."""
        from measureflow.plotting import checks_figure  # here, because matplotlib takes half a second to load

        return self.module.draw(verdict.data) if hasattr(self.module, "draw") else checks_figure(_labelled(verdict))

    def picture(self, verdict: Verdict) -> Any:
        """The figure of a run with all checks below it: each prediction, what was measured, and the tolerance as a band."""
        from measureflow.plotting import add_rows

        drawn = self.draw(verdict)
        return add_rows(drawn, _labelled(verdict)) if hasattr(self.module, "draw") else drawn


def _labelled(verdict: Verdict) -> tuple[Check, ...]:
    """All checks of a verdict; those of a claim that is wrong as published say so."""
    if verdict.claim.expected == "holds":
        return verdict.checks
    wrong = (replace(check, what=f"as published: {check.what}") for check in verdict.checks)
    return (*wrong, *verdict.instead)


def said(error: Exception) -> str:
    """What went wrong and in which line of which file."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"


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
