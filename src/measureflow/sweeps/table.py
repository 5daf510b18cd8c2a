"""The cells of a sweep as arrays by axis, for xarray and for pictures."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from measureflow.sweeps.reader import ComputedCell, Sweep

TEXT = ("outcome", "key")
"""Columns of texts that arrays have as well."""


def dataset(sweep: "Sweep") -> Any:
    """The sweep as an xarray dataset: dimensions are the axes of a grid, or `cell` where cells are no grid."""
    import xarray as xr

    axes = axes_of(sweep)
    shape, places = tuple(map(len, axes.values())), _places(sweep, axes)
    columns = {name: _column([_value(one, name) for one in sweep.cells]) for name in _names(sweep, axes)}
    variables = {name: (tuple(axes), _filled(values, places, shape)) for name, values in columns.items()}
    times, series = _series(sweep) if "time" not in axes else (None, {})
    along = (
        {} if times is None else {name: ((*axes, "time"), _filled(of, places, shape)) for name, of in series.items()}
    )
    coordinates = dict(axes) | ({} if times is None else {"time": times})
    return xr.Dataset(variables | along, coordinates, attrs={"title": sweep.title, "command": sweep.command})


def axes_of(sweep: "Sweep") -> dict[str, np.ndarray]:
    """The axes of a grid with their values; cells of another design are numbered."""
    design = sweep.design
    if len(design.rows) * len(design.draws) == 1:
        return {name: _axis(values) for name, values in design.grid.items()}
    return {"cell": np.arange(len(sweep.cells))}


def _axis(values: list[Any]) -> np.ndarray:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return np.array(values) if numbers else np.array([str(value) for value in values], object)


def _places(sweep: "Sweep", axes: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """For each axis, where on it the cells are."""
    if list(axes) == ["cell"] and "cell" not in sweep.design.grid:
        return (np.arange(len(sweep.cells)),)
    where = {name: {value: i for i, value in enumerate(sweep.design.grid[name])} for name in axes}
    return tuple(np.array([where[name][one.cell[name]] for one in sweep.cells], int) for name in axes)


def _names(sweep: "Sweep", axes: dict[str, np.ndarray]) -> list[str]:
    """Columns that are numbers, whether cells ended well, and what varies beside the axes."""
    found: dict[str, None] = dict.fromkeys(name for name in sweep.design.names if name not in axes)
    for one in sweep.cells:
        found |= dict.fromkeys(f"final_{name}" for name in one.row.final)
    return [*found, "ok", "reached", "error", "seconds", *TEXT]


def _value(one: "ComputedCell", name: str) -> Any:
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


def _padded(one: "ComputedCell", name: str, length: int) -> np.ndarray:
    found = one.row.series.get(name, np.zeros(0))
    return np.concatenate([found, np.full(length - len(found), np.nan)])
