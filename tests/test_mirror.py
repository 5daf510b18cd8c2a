"""The tests mirror the packages: the tests of `measureflow/runs/folder.py` are in `tests/runs/test_folder.py`."""

import ast
from pathlib import Path

import pytest

import measureflow

SOURCES, TESTS = Path(measureflow.__file__).parent, Path(__file__).parent
COMPLETE = ["words", "runs", "sweeps"]
"""Packages of which every module has its test file; add one when it is complete."""


def modules(package):
    """The modules of a package, and its packages, which have one test file each."""
    found = [path for path in (SOURCES / package).iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    return sorted(path.stem for path in found if path.stem != "__init__")


def private(file):
    """The private names of the library that a file imports, or asks modules for that it imports."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    imports = [
        node for node in nodes if isinstance(node, ast.ImportFrom) and str(node.module).startswith("measureflow")
    ]
    names = [alias for node in imports for alias in node.names]
    ours = {alias.asname or alias.name for alias in names} | {"mf", "measureflow"}
    asked = [node for node in nodes if isinstance(node, ast.Attribute) and _root(node) in ours]
    found = [alias.name for alias in names] + [node.attr for node in asked]
    return [name for name in found if name.startswith("_") and not name.startswith("__")]


def _root(node):
    """The name that a chain of attributes begins with; calls in between end it."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


@pytest.mark.parametrize("package", COMPLETE)
def test_every_module_has_its_test_file(package):
    missing = [name for name in modules(package) if not (TESTS / package / f"test_{name}.py").is_file()]
    assert not missing
    assert len(modules(package)) > 3


@pytest.mark.parametrize("package", COMPLETE)
def test_no_test_needs_a_private_name(package):
    found = {file.name: names for file in (TESTS / package).glob("*.py") if (names := private(file))}
    assert not found


def test_private_names_are_found(tmp_path):
    text = "from measureflow.runs import folder, threads as t\nfrom measureflow.runs.report import _told, table\n"
    (tmp_path / "a.py").write_text(text + "folder._next()\nt.TICK\ntable(1)._repr_html_()\nfolder.Run._append\n")
    assert sorted(private(tmp_path / "a.py")) == ["_append", "_next", "_told"]
