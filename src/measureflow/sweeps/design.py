"""Designs: which cells a sweep has.

A sweep file is the configuration of a command with a section that says what varies:

    n = 32
    [sweep.grid]      # every combination of these
    beta = { from = 0.1, to = 9.0, count = 90 }
    seed = { from = 0, to = 63 }
    [sweep.zip]       # these go together, row by row
    [sweep.random]    # `count` rows, each number drawn anew
    [sweep.derived]   # formulas of the others, such as beta = "gamma * log(n)"

The cells are all combinations of the grid, the rows of the zip and the draws. A name that is no option of the command is one's
own: it labels cells, and formulas use it. Needs no JAX.
"""

import itertools
import math
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from measureflow.sweeps.formula import Formula
from measureflow.words.memory import ask
from measureflow.words.settings import InputError, as_toml, parse_toml, read_toml

KEEPS = ("final", "series", "runs")
DIGITS = 12
"""Significant digits of numbers that a range gives: enough for any sweep, and 0.3 is 0.3."""

CELL = 5e3
"""Bytes of a cell with all its settings."""

Cell = dict[str, Any]


class Range(BaseModel):
    """Numbers between two, ends included: `count` of them evenly or on a logarithmic `scale`, or every whole one."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    first: int | float = Field(alias="from")
    to: int | float
    count: PositiveInt | None = None
    step: int | float | None = None
    scale: Literal["linear", "log"] = "linear"

    @model_validator(mode="after")
    def _sensible(self) -> "Range":
        bad = [
            (not all(map(_fits, (self.first, self.to))), "`from` and `to` must be finite"),
            (self.to < self.first, f"`to` is {self.to}, below `from`, which is {self.first}"),
            (self.count is not None and self.step is not None, "`count` and `step` say the same: give one of them"),
            (self.step is not None and not (self.step > 0 and _fits(self.step)), "`step` must be positive and finite"),
            (self.whole and max(-self.first, self.to) >= 2**63, "whole numbers must be below 2^63"),
            (self.scale == "log" and self.first <= 0, "a logarithmic range begins above zero"),
        ]
        for broken, sentence in bad:
            if broken:
                raise ValueError(sentence)
        return self

    @property
    def whole(self) -> bool:
        """Whether its ends are whole numbers."""
        return isinstance(self.first, int) and isinstance(self.to, int)

    @property
    def size(self) -> int | float:
        """How many numbers there are, told without listing them."""
        if self.count is not None:
            return self.count
        try:
            return (self.to - self.first) / (1 if self.step is None else self.step) + 1
        except OverflowError:
            return math.inf

    def values(self) -> list[Any]:
        """The numbers, which stay whole where all are."""
        if self.count is None:
            step = 1 if self.step is None else self.step
            many = math.floor((self.to - self.first) / step + 1e-9) + 1
            return [_rounded(self.first + i * step) for i in range(many)]
        spaced = np.geomspace if self.scale == "log" else np.linspace
        return [_rounded(value) for value in spaced(float(self.first), float(self.to), self.count).tolist()]

    def draws(self, count: int, rng: np.random.Generator) -> list[Any]:
        """Random numbers between the ends, whole ones where the ends are."""
        if self.whole and self.scale == "linear":
            return rng.integers(int(self.first), int(self.to), count, endpoint=True).tolist()
        low, high = (math.log(end) if self.scale == "log" else end for end in (self.first, self.to))
        drawn = low + (high - low) * rng.random(count)
        return [_rounded(value) for value in (np.exp(drawn) if self.scale == "log" else drawn).tolist()]


def _fits(value: int | float) -> bool:
    """Whether a number is finite, as a float too."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _rounded(value: int | float) -> Any:
    return value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")


Values = list[bool | int | float | str] | Range


class Section(BaseModel):
    """The section `[sweep]` of a sweep file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str = "simulate"
    title: str = ""
    keep: Literal["final", "series", "runs"] = "final"
    show: str | None = None
    theory: str | None = None
    grid: dict[str, Values] = {}
    zip: dict[str, Values] = {}
    random: dict[str, Any] = {}
    derived: dict[str, str] = {}


class Draws(BaseModel):
    """The section `[sweep.random]`: how many rows, their seed, and the ranges or lists they are drawn from."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Values]

    count: PositiveInt
    seed: int = 0


class Design:
    """The cells of a sweep: a command, the settings that all share, and what varies.

    >>> design = mf.sweeps.Design.of({"beta": [1.0, 2.0], "seed": [0, 1]})
    >>> [tuple(cell.values()) for cell in design.cells()]
    [(1.0, 0), (1.0, 1), (2.0, 0), (2.0, 1)]
    """

    def __init__(self, base: Mapping[str, Any], section: Section):
        self.base, self.section = dict(base), section
        self.grid = {name: _listed(f"grid.{name}", of) for name, of in section.grid.items()}
        self.rows = _rows({name: _listed(f"zip.{name}", of) for name, of in section.zip.items()})
        self.draws = _drawn(section.random)
        self.formulas = {name: Formula(f"derived.{name}", text) for name, text in section.derived.items()}
        self._check_names()
        _ask(len(self.rows) * len(self.draws) * math.prod(map(len, self.grid.values())), "grid")

    @staticmethod
    def of(axes: Mapping[str, Any], base: Mapping[str, Any] | None = None, **section: Any) -> "Design":
        """A grid of values by name, or sections by name if one is called `grid`, `zip`, `random` or `derived`."""
        parts = ("grid", "zip", "random", "derived")
        given = dict(axes) if axes and all(name in parts for name in axes) else {"grid": dict(axes)}
        given = {name: {key: _plain(of) for key, of in part.items()} for name, part in given.items()}
        return Design(base or {}, _section(given | section))

    @staticmethod
    def read(file: str | Path) -> "Design":
        """The design of a sweep file."""
        return Design.from_words(read_toml(file), str(file))

    @staticmethod
    def parse(text: str, file: str) -> "Design":
        """The design of the text of a sweep file."""
        return Design.from_words(parse_toml(text, file), file)

    @staticmethod
    def from_words(words: dict[str, Any], file: str) -> "Design":
        """The design of what a sweep file says."""
        section = words.pop("sweep", None)
        if not isinstance(section, dict):
            raise InputError(
                f"{file!r} has no section `[sweep]`: add one that says what varies, such as `[sweep.grid]` with "
                "`beta = [1.0, 4.0, 9.0]`."
            )
        return Design(words, _section(section))

    @property
    def names(self) -> tuple[str, ...]:
        """What varies, in the order of the file: axes of the grid first."""
        drawn = tuple(self.draws[0]) if self.draws and self.draws[0] else ()
        return (*self.grid, *(self.rows[0] if self.rows else ()), *drawn, *self.formulas)

    def __len__(self) -> int:
        return math.prod(map(len, self.grid.values())) * len(self.rows) * len(self.draws)

    def cells(self) -> Iterable[Cell]:
        """The cells, each with its values by name; the last axis of the grid runs fastest."""
        for row, draw in itertools.product(self.rows, self.draws):
            for values in itertools.product(*self.grid.values()):
                cell = dict(zip(self.grid, values, strict=True)) | row | draw
                for name, formula in self.formulas.items():
                    cell[name] = formula({**self.base, **cell})
                yield cell

    def to_toml(self) -> str:
        """The design as the text of a sweep file."""
        section = self.section.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
        flat = {name: of for name, of in section.items() if not isinstance(of, dict)}
        text = as_toml(self.base) + "\n[sweep]\n" + as_toml({"command": self.section.command} | flat)
        return text + "".join(
            f"\n[sweep.{name}]\n{as_toml(of)}" for name, of in section.items() if isinstance(of, dict)
        )

    def _check_names(self) -> None:
        parts = {
            "grid": set(self.grid),
            "zip": set(self.rows[0] if self.rows else ()),
            "random": set(self.draws[0] if self.draws else ()),
            "derived": set(self.formulas),
        }
        for (one, names), (other, more) in itertools.combinations(parts.items(), 2):
            if both := names & more:
                raise InputError(f"`{min(both)}` is in `[sweep.{one}]` and in `[sweep.{other}]`: keep one of them.")
        if not any(parts.values()):
            raise InputError("Nothing varies: list values in `[sweep.grid]`, such as `beta = [1.0, 4.0, 9.0]`.")


def _section(words: Mapping[str, Any]) -> Section:
    try:
        return Section.model_validate(words)
    except ValidationError as error:
        raise InputError(*dict.fromkeys(map(_sentence, error.errors(include_url=False)))) from None


def _sentence(problem: Any) -> str:
    """What is wrong with a section; values of an axis are a list or a range, whichever was meant."""
    place = [str(part) for part in problem["loc"] if isinstance(part, str) and "[" not in part and part != "Range"]
    where, got = ".".join(["sweep", *place[:2]]), problem["input"]
    match problem["type"]:
        case "extra_forbidden" if len(place) == 1:
            return f"`{where}` is no part of a sweep; known are {', '.join(Section.model_fields)}."
        case "literal_error":
            return f"`{where}` must be one of {', '.join(KEEPS)}; got {got!r}."
        case "value_error":
            return f"`{where}`: {problem['ctx']['error']}."
        case _ if len(place) > 1:
            return f"`{where}` takes a list of values or a range such as {{ from = 0.1, to = 9.0, count = 90 }}."
        case _:
            return f"`{where}`: {problem['msg'][0].lower()}{problem['msg'][1:]}; got {got!r}."


def _listed(name: str, values: list[Any] | Range) -> list[Any]:
    """The values of an axis, each once."""
    if isinstance(values, Range) and values.count is None and values.step is None and not values.whole:
        raise InputError(f"`sweep.{name}` is a range of numbers that are not whole: give it a `count` or a `step`.")
    if isinstance(values, Range):
        _ask(values.size, name)
    found = values.values() if isinstance(values, Range) else values
    if not found:
        raise InputError(f"`sweep.{name}` is empty: give it at least one value.")
    if name.startswith("grid") and len(set(found)) < len(found):
        twice = next(value for i, value in enumerate(found) if value in found[:i])
        raise InputError(f"`sweep.{name}` has {twice!r} twice; each cell is computed once.")
    return found


def _ask(cells: int | float, name: str) -> None:
    """Refuse more cells than fit into memory, before they are listed."""
    ask(CELL * cells, f"`sweep.{name}` of {cells:.4g} cells", "take fewer values")


def _rows(columns: dict[str, list[Any]]) -> list[Cell]:
    """Rows of columns of one length; one empty row where there are none."""
    if not columns:
        return [{}]
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} for `{name}`" for name, size in sizes.items())
        raise InputError(f"Lists of `[sweep.zip]` go together, so they have one length; got {told}.")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _drawn(words: Mapping[str, Any]) -> list[Cell]:
    """Random rows; the numbers of each name have a stream of their own, so that more rows or names leave the others."""
    if not words:
        return [{}]
    try:
        asked = Draws.model_validate(words)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = str(problem["loc"][0]) if problem["loc"] else "count"
        if name == "count":
            raise InputError("`[sweep.random]` needs `count`, how many rows are drawn: a positive number.") from None
        raise InputError(_sentence(problem | {"loc": ("random", *problem["loc"])})) from None
    _ask(asked.count, "random")
    columns: dict[str, list[Any]] = {}
    for name, of in (asked.__pydantic_extra__ or {}).items():
        rng = np.random.default_rng([asked.seed, zlib.crc32(name.encode())])
        columns[name] = of.draws(asked.count, rng) if isinstance(of, Range) else _chosen(name, of, asked.count, rng)
    if not columns:
        raise InputError("`[sweep.random]` draws nothing: give ranges such as `beta = { from = 0.1, to = 9.0 }`.")
    return _rows(columns)


def _chosen(name: str, values: list[Any], count: int, rng: np.random.Generator) -> list[Any]:
    values = _listed(f"random.{name}", values)
    return [values[i] for i in rng.integers(0, len(values), count).tolist()]


def _plain(values: Any) -> Any:
    """Values from Python: arrays and ranges become lists."""
    if isinstance(values, np.ndarray | range | tuple) or hasattr(values, "tolist"):
        return np.asarray(values).tolist()
    return values
