"""The picture of a sweep: which of its axes goes where, and what is averaged over.

Values are averaged over the seed. Two axes make a map, of which one may be the time of a series; one makes a curve with a
band, or a few curves over time; a third makes maps side by side.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from measureflow.words.settings import InputError
from measureflow.words.table import nearest

if TYPE_CHECKING:
    from measureflow.sweeps.reader import Sweep

SYMBOLS = {
    "beta": "β",
    "gamma": "γ",
    "dim": "dimension d",
    "n": "number of tokens n",
    "time": "time t",
    "noise": "temperature",
}
"""Names of axes in pictures."""
FEW_VALUES = 6
"""Values of an axis up to which each has a curve of its own, or a map."""
SEEDS = "seed"


def picture(sweep: "Sweep", show: str | None = None, theory: Any = None, figure: Any = None, ax: Any = None) -> Any:
    """Draw a sweep into a figure, a new one unless given, or on axes; return what was drawn on.

    `show` names a series or a final value, `theory` is a curve to draw on top.
    """
    from measureflow.plotting.layout import check_axes
    from measureflow.plotting.sweeps import Axis, Band, bands_figure, draw_bands, draw_map, maps_figure

    if figure is not None and ax is not None:
        raise TypeError("`figure` takes the whole picture and `ax` one panel: give one of the two.")
    if ax is not None:
        check_axes(ax)
    if not sweep.cells:
        raise InputError(f"{str(sweep.path)!r} has no computed cells to draw yet.")
    values = _values(sweep, show)
    label = sweep.labels.get(name := str(values.name).removeprefix("final_"), name.replace("_", " "))
    seeds = [SEEDS] if SEEDS in values.dims else []
    dims = [str(dim) for dim in values.dims if dim != SEEDS]
    law = theory if theory is not None else _law(sweep, dims)
    axes = {dim: Axis(SYMBOLS.get(dim, dim), values[dim].values) for dim in dims if _numeric(values[dim])}
    split, title = _split(values, dims), f"{sweep.title}{_means(values)}"
    match [dim for dim in dims if dim not in split]:
        case [x] if len(split) < 2:
            bands = [Band(name, _samples(part, x, seeds)) for name, part in _parts(values, split)]
            if ax is not None:
                return draw_bands(ax, axes[x], bands, label, law)
            title += ", with 95% bands" if seeds else ""
            return bands_figure(axes[x], bands, label, title, law, figure=figure)
        case [x, y] if len(split) < 2:
            x, y = ("time", x) if y == "time" else (x, y)
            mean = values.mean(seeds, skipna=True) if seeds else values
            maps = {name: part.transpose(x, y).values for name, part in _parts(mean, split)}
            if ax is None:
                return maps_figure(axes[x], axes[y], maps, label, title, law, figure=figure)
            if len(maps) > 1:
                raise InputError(f"The sweep has {len(maps)} maps, which do not fit one `ax`; give a `figure`.")
            return draw_map(ax, axes[x], axes[y], next(iter(maps.values())), label, law)
    raise InputError(
        f"A picture has up to two axes of numbers, and one of at most {FEW_VALUES} values beside; this sweep has "
        f"{', '.join(dims)}. Take a part of `open_sweep(path).to_xarray()` and draw that."
    )


def _split(values: Any, dims: list[str]) -> list[str]:
    """Axes whose values have a curve or a map each: those of words, else a short one where there are two beside it, or time."""
    words = [dim for dim in dims if not _numeric(values[dim])]
    short = [dim for dim in dims if dim != "time" and values.sizes[dim] <= FEW_VALUES]
    return words or (short[-1:] if len(dims) > 2 or (len(dims) == 2 and "time" in dims) else [])


def _values(sweep: "Sweep", show: str | None) -> Any:
    """What is shown: the series or final value that is named, else that of the design, else the first."""
    data, asked = sweep.to_xarray(), show or sweep.design.section.show
    along = [str(name) for name in data if "time" in data[name].dims]
    final = [str(name) for name in data if str(name).startswith("final_")]
    known = [*along, *final]
    asked = asked or next(iter(known), "")
    name = next((one for one in (asked, f"final_{asked}") if one in known), None)
    if name is None:
        plain = list(dict.fromkeys(one.removeprefix("final_") for one in known))
        raise InputError(f"`show` {asked!r} is not in the table{nearest(asked, plain)}; known are {', '.join(plain)}.")
    found = data[name]
    return found if "cell" not in found.dims else _against_a_number(sweep, found)


def _against_a_number(sweep: "Sweep", values: Any) -> Any:
    """Cells that are no grid, in the order of the first number that varies."""
    numbers = [name for name in sweep.design.names if name != SEEDS and _is_number(sweep.cells[0].cell.get(name))]
    if not numbers:
        return values
    places = np.array([one.cell[numbers[0]] for one in sweep.cells], float)
    return values.rename(cell=numbers[0]).assign_coords({numbers[0]: places}).sortby(numbers[0])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numeric(values: Any) -> bool:
    return values.dtype.kind in "iuf"


def _parts(values: Any, dims: list[str]) -> list[tuple[str, Any]]:
    """Values for each place of at most one further axis, by name."""
    if not dims:
        return [("", values)]
    (dim,) = dims
    return [(f"{SYMBOLS.get(dim, dim)} = {_plain(value)}", values.sel({dim: value})) for value in values[dim].values]


def _plain(value: Any) -> str:
    return str(value) if isinstance(value, str) else f"{value:g}"


def _samples(values: Any, x: str, seeds: list[str]) -> np.ndarray:
    return values.transpose(x, *seeds).values if seeds else values.values[:, None]


def _means(values: Any) -> str:
    """How many seeds a value is the mean of."""
    return f"; means over {values.sizes[SEEDS]} seeds" if SEEDS in values.dims and values.sizes[SEEDS] > 1 else ""


def _law(sweep: "Sweep", dims: list[str]) -> Any:
    """The law that the design names, if it names one."""
    name = sweep.design.section.theory
    if name is None:
        return None
    from measureflow.sweeps.overlays import law_of

    return law_of(name, sweep, dims)
