"""Sweeps of functions: in batches where they can be traced, cell by cell where they cannot."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.words import InputError

CALLS = []
"""What functions below were called with: a variable that they hold would be part of their fingerprint."""


def test_a_batch_is_compiled_once_whatever_the_numbers(tmp_path):
    CALLS.clear()

    def order(beta, seed):
        CALLS.append(None)
        start = mf.Particles.iid(mf.Sphere(3), 4, key=jax.random.key(seed))
        return mf.evolve(mf.SoftmaxAttention.isotropic(3, beta), start, [0.0, 1.0], mf.Euler(0.5)).final.points[0, 0]

    found = mf.runs.sweep(order, {"beta": np.linspace(0, 4, 70), "seed": [5]}, tmp_path / "s")
    assert len(found) == 70
    assert len(CALLS) <= 3  # one to see whether it can be traced, one a size of batch


def test_a_function_that_cannot_be_traced_is_called_cell_by_cell_and_its_failures_are_told(tmp_path):
    def root(x, kind):
        if kind == "odd":
            raise ValueError(f"no {kind} roots of {x}")
        return {"root": float(x) ** 0.5, "half": np.array([x, x / 2])}

    found = mf.runs.sweep(root, {"x": [4.0, 9.0], "kind": ["even", "odd"]}, tmp_path / "s", keep="series")
    table = found.table.set_index(["x", "kind"])
    assert table.final_root[9.0, "even"] == 3.0
    assert not table.ok[9.0, "odd"]
    assert table.outcome[9.0, "odd"] == "Failed: ValueError: no odd roots of 9.0"
    assert list(found.failed.x) == [4.0, 9.0]
    assert found.to_xarray().half.sel(x=4.0, kind="even").values.tolist() == [4.0, 2.0]
    with pytest.raises(InputError, match=r"`keep` runs is for commands"):
        mf.runs.sweep(root, {"x": [4.0]}, tmp_path / "t", keep="runs")


def test_a_function_may_give_flows_which_are_run_and_watched(tmp_path):
    def flow(beta):
        start = mf.Particles(mf.Sphere(2), np.eye(2))
        return mf.Flow(mf.SoftmaxAttention.isotropic(2, beta), start, [0.0, 1.0, 2.0], mf.RK4(0.1))

    found = mf.runs.sweep(flow, {"beta": [0.0]}, tmp_path / "s")
    # Two tokens at a right angle at beta = 0: the overlap is the hyperbolic tangent of time, so |mean|^2 = (1 + tanh 2) / 2.
    assert found.table.final_order[0] == pytest.approx(np.sqrt((1 + np.tanh(2.0)) / 2), abs=1e-5)
    assert found.table.error[0] < 1e-5


def test_numbers_that_are_not_finite_are_told(tmp_path):
    found = mf.runs.sweep(lambda x: {"log": jnp.log(x), "x": x}, {"x": [1.0, -1.0]}, tmp_path / "s")
    assert found.table.outcome.tolist() == ["Computed.", "Not finite: log."]
