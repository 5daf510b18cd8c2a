"""The cells of a sweep as arrays by axis, for xarray and for pictures."""

from typing import TYPE_CHECKING, Any

import numpy as np

from measureflow.runs.settings import InputError
from measureflow.runs.words import nearest

if TYPE_CHECKING:
    from measureflow.runs.swept import Known, Sweep

TEXT = ("outcome", "key")
"""Columns of texts that arrays have as well."""


def dataset(sweep: "Sweep") -> Any:
    """The sweep as an xarray dataset: dimensions are the axes of a grid, or `cell` where cells are no grid."""
    import xarray as xr

    axes = axes_of(sweep)
    shape, places = tuple(map(len, axes.values())), _places(sweep, axes)
    columns = {name: _column([_value(one, name) for one in sweep.cells]) for name in _names(sweep, axes)}
    variables = {name: (tuple(axes), _filled(values, places, shape)) for name, values in columns.items()}
    times, series = _series(sweep)
    along = {} if times is None else {name: ((*axes, "time"), _filled(of, places, shape)) for name, of in series.items()}
    coordinates = dict(axes) | ({} if times is None else {"time": times})
    return xr.Dataset(variables | along, coordinates, attrs={"title": sweep.title, "command": sweep.command})


def axes_of(sweep: "Sweep") -> dict[str, np.ndarray]:
    """The axes of a grid with their values; cells of another design are numbered."""
    design = sweep.design
    if len(design.rows) * len(design.draws) == 1:
        return {name: np.array(values) for name, values in design.grid.items()}
    return {"cell": np.arange(len(sweep.cells))}


def _places(sweep: "Sweep", axes: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """For each axis, where on it the cells are."""
    if list(axes) == ["cell"] and "cell" not in sweep.design.grid:
        return (np.arange(len(sweep.cells)),)
    where = {name: {value: i for i, value in enumerate(values.tolist())} for name, values in axes.items()}
    return tuple(np.array([where[name][one.cell[name]] for one in sweep.cells], int) for name in axes)


def _names(sweep: "Sweep", axes: dict[str, np.ndarray]) -> list[str]:
    """Columns that are numbers, whether cells ended well, and what varies beside the axes."""
    found: dict[str, None] = dict.fromkeys(name for name in sweep.design.names if name not in axes)
    for one in sweep.cells:
        found |= dict.fromkeys(f"final_{name}" for name in one.row.final)
    return [*found, "ok", "reached", "error", "seconds", *TEXT]


def _value(one: "Known", name: str) -> Any:
    row = one.row
    known = {"ok": row.ok, "reached": row.time, "seconds": row.seconds, "outcome": row.outcome, "key": one.key}
    known |= {f"final_{name}": value for name, value in row.final.items()} | {"error": row.stats.get("error", np.nan)}
    return known[name] if name in known else one.cell.get(name, np.nan)


def _column(values: list[Any]) -> np.ndarray:
    if any(isinstance(value, str) for value in values):
        return np.array([str(value) for value in values], object)
    return np.array(values, float)


def _filled(values: np.ndarray, places: tuple[np.ndarray, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Values at their places, NaN or an empty text where there is none."""
    empty = np.full((*shape, *values.shape[1:]), "" if values.dtype == object else np.nan, values.dtype)
    empty[places] = values
    return empty


def _series(sweep: "Sweep") -> tuple[np.ndarray | None, dict[str, np.ndarray]]:
    """The times of the longest cell and the series along them, NaN after an early end; None where times differ."""
    kept = [one for one in sweep.cells if one.row.times is not None]
    if not kept:
        return None, {}
    times = max((one.row.times for one in kept if one.row.times is not None), key=len)
    alike = all(np.allclose(times[: len(one.row.times)], one.row.times) for one in kept if one.row.times is not None)
    if not alike:
        return None, {}
    names = dict.fromkeys(name for one in kept for name in one.row.series)
    return times, {name: np.stack([_padded(one, name, len(times)) for one in sweep.cells]) for name in names}


def _padded(one: "Known", name: str, length: int) -> np.ndarray:
    found = one.row.series.get(name, np.zeros(0))
    return np.concatenate([found, np.full(length - len(found), np.nan)])


def shown(sweep: "Sweep", show: str | None) -> tuple[str, Any]:
    """What a picture shows: the series or final value that is named, else that of the design, else the first."""
    data, asked = sweep.to_xarray(), show or sweep.design.section.show
    along = [name for name in data if "time" in data[name].dims]
    final = [str(name) for name in data if str(name).startswith("final_")]
    if asked is None:
        asked = str(along[0]) if along and len(axes_without_seeds(sweep)) == 1 else (final[0] if final else None)
    name = next((one for one in (asked, f"final_{asked}") if one in data), None)
    if name is None:
        known = [str(name).removeprefix("final_") for name in (*along, *final)]
        raise InputError(f"`show` {asked!r} is not in the table{nearest(asked, known)}; known are {', '.join(known)}.")
    return name, data[name]


def axes_without_seeds(sweep: "Sweep") -> list[str]:
    """The axes over which values are told apart: all but the seed, over which they are averaged."""
    return [name for name in axes_of(sweep) if name != "seed"]


def picture(sweep: "Sweep", show: str | None = None, theory: Any = None) -> Any:
    """The picture of a sweep: a map for two axes, curves for one."""
    from measureflow.plotting import sweep_figure

    if not sweep.cells:
        raise InputError(f"{str(sweep.path)!r} has no computed cells to draw yet.")
    name, values = shown(sweep, show)
    dims = [dim for dim in values.dims if dim != "seed"]
    if "cell" in dims:
        values, dims = _against_one(sweep, values), ["cell"]
    return sweep_figure(values, dims, label_of(sweep, name), sweep.title, theory)


def _against_one(sweep: "Sweep", values: Any) -> Any:
    """Cells that are no grid along the first number that varies."""
    name = next((name for name in sweep.design.names if name != "seed" and isinstance(sweep.cells[0].cell[name], int | float)), None)
    if name is None:
        return values
    return values.assign_coords(cell=("cell", [one.cell[name] for one in sweep.cells]))


def label_of(sweep: "Sweep", name: str) -> str:
    """What a column is called in pictures."""
    return name.removeprefix("final_").replace("_", " ")
