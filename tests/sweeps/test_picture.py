"""Which axes of a sweep go where in its picture."""

import pytest

import measureflow as mf
from measureflow.words import InputError


def test_curves_with_bands_for_one_axis_and_maps_side_by_side_for_three(tmp_path):
    def value(x, y, kind, seed):
        return {"value": float(x) * float(y) + (kind == "b") + float(seed)}

    one = mf.runs.sweep(value, {"x": [1.0, 2.0, 3.0], "y": [1.0], "kind": ["a"], "seed": [0, 1]}, tmp_path / "one")
    axes = one.to_xarray().sel(y=1.0, kind="a").final_value
    assert axes.mean("seed").values.tolist() == [1.5, 2.5, 3.5]
    grid = {"x": [1.0, 2.0, 3.0], "y": list(range(8)), "kind": ["a", "b"], "seed": [0, 1]}
    many = mf.runs.sweep(value, grid, tmp_path / "many").plot()
    maps = [ax for ax in many.axes if any(part.get_gid() == "map" for part in ax.collections)]
    assert [ax.get_title() for ax in maps] == ["kind = a", "kind = b"]
    flat = mf.runs.sweep(
        lambda x, seed: x + 0.0 * seed, {"x": [1.0, 2.0, 3.0], "seed": [0, 1]}, tmp_path / "flat"
    ).plot()
    means = [line for line in flat.axes[0].get_lines() if line.get_gid() == "mean"]
    assert means[0].get_ydata().tolist() == [1.0, 2.0, 3.0]


def test_words_have_a_curve_each_and_too_many_axes_are_refused(tmp_path):
    def value(x, kind, y=0.0, z=0.0):
        return float(x) + (kind == "b") + float(y) + float(z)

    two = mf.runs.sweep(value, {"x": [1.0, 2.0], "kind": ["a", "b"]}, tmp_path / "two").plot().axes[0]
    means = {line.get_label(): line.get_ydata().tolist() for line in two.get_lines() if line.get_gid() == "mean"}
    assert means == {"kind = a": [1.0, 2.0], "kind = b": [2.0, 3.0]}
    many = {"x": list(range(7)), "kind": ["a"], "y": list(range(7)), "z": list(range(7))}
    with pytest.raises(InputError, match=r"this sweep has x, kind, y, z. Take a part of"):
        mf.runs.sweep(value, many, tmp_path / "many").plot()
