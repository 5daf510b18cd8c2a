"""Runs by the words of a command: run, gone on with, and run again."""

import numpy as np
import pytest

import measureflow as mf
from measureflow.words import InputError


def test_rerun_gives_the_same_frames_in_another_folder(tmp_path):
    words = {"n": 6, "dim": 2, "time": 1.0, "frames": 6, "frames_per_leg": 2, "beta": 4.0, "verify": False}
    words |= {"noise": 0.1, "solver": "euler", "dt": 0.05}
    one = mf.runs.run("simulate", **words, out=str(tmp_path / "one"))
    other = mf.runs.rerun(tmp_path / "one", str(tmp_path / "other"))
    np.testing.assert_array_equal(one.data.points, other.data.points)
    with pytest.raises(InputError, match="the folder of the run itself"):
        mf.runs.rerun(tmp_path / "one", str(tmp_path / "one"))


def test_a_recorded_flow_is_only_resumed_from_python(tmp_path, flow, break_after):
    break_after(2, mf.runs.record, flow(), tmp_path / "run", frames_per_leg=2)
    with pytest.raises(InputError, match=r"mf.runs.record\(flow, path, resume=True\)"):
        mf.runs.resume(tmp_path / "run")
