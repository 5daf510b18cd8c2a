"""The cells of a sweep as arrays by axis."""

import numpy as np
import xarray as xr

import measureflow as mf


def test_xarray_opens_the_table_by_its_axes(swept):
    data = xr.open_zarr(swept.path / "table.zarr")
    assert dict(data.sizes) == {"beta": 2, "seed": 3, "time": 5}
    picked = data.sel(beta=4.0, seed=1)
    table = swept.table
    row = table[(table.beta == 4.0) & (table.seed == 1)].iloc[0]
    assert float(picked.final_order) == row.final_order == float(picked.order[-1])
    assert str(picked.outcome.values) == "Reached t = 1."


def test_cells_that_are_no_grid_are_numbered_and_what_is_missing_is_nothing(tmp_path):
    def value(x, n):
        if x == 2.0:
            raise ValueError("not here")
        return {"sum": float(x) + float(n), "along": np.arange(float(n))}

    data = mf.runs.sweep(
        value, {"zip": {"x": [1.0, 2.0, 3.0], "n": [2, 2, 3]}}, tmp_path / "s", keep="series"
    ).to_xarray()
    assert dict(data.sizes) == {"cell": 3, "time": 3}
    assert data.x.values.tolist() == [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(data.final_sum, [3.0, np.nan, 6.0])
    np.testing.assert_array_equal(data.along, [[0.0, 1.0, np.nan], [np.nan] * 3, [0.0, 1.0, 2.0]])
    assert data.ok.values.tolist() == [1.0, 0.0, 1.0]
