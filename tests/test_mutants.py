"""The planted bugs are up to date, every study has one, and a sample of them is seen."""

import importlib
from pathlib import Path

import pytest

from measureflow import studies

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parent))
    mutants, planted = map(importlib.import_module, ("mutants", "planted"))

WANTED = ("moe-student-needs-teacher-granularity",)
"""Studies without a planted bug."""
EVERY = [*mutants.MUTANTS, *planted.PLANTED]
SOURCES = mutants.ROOT / "src" / "measureflow"


def test_every_mutant_changes_a_line_that_is_there():
    gone = [one for one in EVERY if one.old not in (SOURCES / one.file).read_text() or one.old == one.new]
    assert not gone


def test_every_study_has_a_planted_bug():
    named = {name for one in EVERY for name in one.seers if not mutants.is_test(name)}
    assert named <= set(studies.names())
    assert set(studies.names()) - named == set(WANTED)


def test_those_who_must_see_a_test_mutant_exist():
    assert all((mutants.ROOT / name).exists() for one in EVERY for name in one.seers if mutants.is_test(name))


def test_words_select_mutants_by_file_and_studies_by_name():
    assert {one.file for one in mutants.selected(["theory/experts.py"])} == {"theory/experts.py"}
    (one,) = mutants.selected(["frozen-centre-sign"])
    assert one.seers == ("frozen-centre-sign-as-published",)
    assert [one.seers for one in mutants.selected([])] == [one.seers for one in EVERY]


def test_bugs_in_settings_of_a_theme_are_planted_together_and_others_alone():
    sizes = {one.file: len(group) for group in mutants.groups(EVERY) for one in group}
    assert sizes["theory/modes.py"] == 1
    settings = [one for one in EVERY if mutants.setting(one) and "/training/" in one.file]
    assert sizes[settings[0].file] == len(settings) > 1


@pytest.fixture(scope="module")
def sample():
    """Three bugs that cost little, planted at once: no study sees the bug of another."""
    words = "frozen-centre-sign", "gate-sign", "kde-modes-beyond-samples"
    chosen = mutants.selected(list(words))
    return chosen, mutants.tried(chosen)


def test_a_sample_of_planted_bugs_is_seen(sample):
    chosen, found = sample
    assert len(chosen) == len(found) == 3
    assert all(red for red, _ in found.values()), found
