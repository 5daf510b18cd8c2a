"""`make quick` finds the tests of a change, and ends in time."""

import runpy
import subprocess
import time
from pathlib import Path

import pytest

QUICK = runpy.run_path(str(Path(__file__).with_name("quick.py")))
STRUCTURE = QUICK["STRUCTURE"]


@pytest.fixture
def project(tmp_path):
    """A project with the tests of two packages, one inside another, on the branch `main`."""
    for folder, name in (("flows", "leg"), ("flows", "noise"), ("flows/deep", "root"), ("runs", "folder")):
        for file in (f"src/measureflow/{folder}/{name}.py", f"tests/{folder}/test_{name}.py"):
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).touch()
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "Begin")
    return tmp_path


def git(root, *words):
    person = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *person, *words], cwd=root, check=True)


def test_changes_are_those_of_the_branch_and_of_the_working_tree(project):
    assert QUICK["changed"](project) == []
    git(project, "checkout", "-q", "-b", "branch")
    (project / "src/measureflow/flows/leg.py").write_text("x = 1")
    git(project, "commit", "-q", "-a", "-m", "Change")
    (project / "src/measureflow/runs/folder.py").write_text("x = 1")
    (project / "new.md").touch()
    assert QUICK["changed"](project) == ["src/measureflow/flows/leg.py", "src/measureflow/runs/folder.py", "new.md"]


def test_namesakes_come_first_and_the_rest_of_the_package_last(project):
    found = QUICK["chosen"](["README.md", "src/measureflow/flows/noise.py"], project)
    assert found[0] == "tests/flows/test_noise.py"
    assert found[1 : 1 + len(STRUCTURE)] == STRUCTURE
    assert "tests/flows/test_leg.py" in found[1 + len(STRUCTURE) :]
    assert "tests/runs/test_folder.py" not in found
    assert len(found) == len(set(found))


def test_a_module_without_a_namesake_has_the_tests_of_its_folder(project):
    inner = QUICK["chosen"](["src/measureflow/flows/deep/new.py"], project)
    assert inner == [*STRUCTURE, "tests/flows/deep/test_root.py"]
    outer = QUICK["chosen"](["src/measureflow/flows/other/new.py"], project)[len(STRUCTURE) :]
    assert outer == ["tests/flows/deep/test_root.py", "tests/flows/test_leg.py", "tests/flows/test_noise.py"]


def test_documents_and_removed_tests_need_the_structure_alone(project):
    assert QUICK["chosen"](["README.md", "docs/sweeps.md", "tests/test_gone.py"], project) == STRUCTURE


def test_the_tests_of_the_structure_exist():
    assert all((QUICK["ROOT"] / file).is_file() for file in STRUCTURE)


def test_tests_after_the_deadline_are_skipped(monkeypatch):
    monkeypatch.setenv(QUICK["DEADLINE"], str(time.time() + 60))
    QUICK["pytest_runtest_setup"](None)
    monkeypatch.setenv(QUICK["DEADLINE"], str(time.time() - 1))
    with pytest.raises(pytest.skip.Exception, match="left to `make test`"):
        QUICK["pytest_runtest_setup"](None)
