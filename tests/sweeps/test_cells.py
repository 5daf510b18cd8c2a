"""Cells: by what they are known, which contradict themselves, and what is computed later."""

import numpy as np
import pytest

import measureflow as mf
from measureflow.sweeps import Design
from measureflow.sweeps.cells import groups_of, key_of, varying
from measureflow.sweeps.executor import work_of
from measureflow.words import InputError


def test_a_key_is_that_of_the_numbers_however_they_are_written():
    assert key_of("simulate", {"n": 6, "beta": 1}) == key_of("simulate", {"beta": 1.0, "n": 6.0})
    others = [
        ("simulate", {"n": 6, "beta": 1 + 1e-15}),
        ("simulate", {"n": 6, "beta": True}),
        ("train heads", {"n": 6, "beta": 1}),
    ]
    assert len({key_of("simulate", {"n": 6, "beta": 1}), *(key_of(*other) for other in others)}) == 4


def test_cells_that_differ_in_numbers_alone_are_a_group(tmp_path):
    design = Design.of({"beta": [1.0, 2.0], "attention": ["softmax", "unnormalised"], "seed": [0, 1]}, {"n": 4})
    work = work_of(design, tmp_path)
    cells = work.asked(design)
    assert set(varying(cells)) == {"beta", "attention", "seed"}
    groups = groups_of(cells, varying(cells))
    assert [{one.cell["attention"] for one in group} for group in groups] == [{"softmax"}, {"unnormalised"}]
    chunks = list(work.chunks(cells, workers=2))
    assert [(len(chunk.cells), set(chunk.names)) for chunk in chunks] == [(2, {"beta", "seed"})] * 4
    assert len({work.program(chunk) for chunk in chunks}) == 2


def test_cells_that_contradict_themselves_are_recorded_and_the_others_computed(tmp_path):
    base = {"init": "equiangular", "layers": 1, "n": 4, "time": 1.0}
    found = mf.runs.sweep(base, {"dim": [2, 4]}, tmp_path / "s")
    assert found.table.ok.tolist() == [False, True]
    assert "`dim` at least `n`" in found.table.outcome[0]
    with pytest.raises(InputError, match=r"`dim` at least `n`"):
        mf.runs.sweep(base, {"dim": [2, 3]}, tmp_path / "t")


def test_a_changed_input_file_makes_another_cell(tmp_path, computed):
    for points in (np.eye(3), np.eye(3)[:2], np.eye(3)):
        np.save(tmp_path / "tokens.npy", points)
        base = {"init": str(tmp_path / "tokens.npy"), "layers": 1, "time": 1.0}
        found = mf.runs.sweep(base, {"beta": [1.0]}, tmp_path / "s")
    assert len(computed) == 2  # the third file is the first again
    assert len(found.everything) == 2
