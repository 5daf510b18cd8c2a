"""Sweeps read from their folders."""

import pytest

import measureflow as mf
from measureflow.runs.command import command
from measureflow.words import InputError


def test_the_table_has_every_setting_and_result(swept, base):
    table = swept.table
    assert len(table) == 6
    settings = command("simulate").settings({**base, "beta": 0.5, "seed": 0})
    assert set(type(settings).model_fields) - {*settings.aside, "movie"} <= set(table.columns)
    assert {"final_energy", "final_order", "final_clusters", "final_met", "outcome", "ok", "error", "seconds"} <= set(
        table
    )
    assert (table.error > 0).all()
    assert (table.seconds > 0).all()
    again = mf.runs.open_sweep(swept.path)
    assert again.table.equals(table)
    assert repr(again).endswith("6 of 6 cells, simulate over beta, seed)")


def test_a_folder_that_is_no_sweep_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"is not a sweep folder; `measureflow sweep FILE` writes one"):
        mf.runs.open_sweep(tmp_path)
