"""How long a sweep will take, by a pilot that keeps nothing."""

import measureflow as mf
from measureflow.sweeps import Design
from measureflow.sweeps.functions import FunctionWork
from measureflow.sweeps.pilot import Estimate, estimate


def test_seconds_are_those_to_compile_and_those_of_the_cells_that_are_missing():
    assert Estimate(10, 4, 1, 5, each=0.5, compiling=2.0).seconds == 4.5


def test_what_is_known_is_not_estimated_again_and_nothing_is_kept(tmp_path):
    def value(x):
        return {"x": float(x)}  # which is not traced

    def left(*values):
        return estimate(Design.of({"x": list(values)}, command="function"), FunctionWork(value), tmp_path / "s")

    found = left(1.0, 2.0)
    assert (found.total, found.known, found.impossible, found.missing) == (2, 0, 0, 2)
    assert 1 <= found.tried <= 2
    assert found.seconds >= 0
    assert not (tmp_path / "s").exists()
    mf.runs.sweep(value, {"x": [1.0, 2.0]}, tmp_path / "s")
    assert (left(1.0, 2.0, 3.0).known, left(1.0, 2.0, 3.0).missing) == (2, 1)
    assert left(1.0, 2.0) == Estimate(2, 2, 0, 0)
