"""The files around the package agree with each other and with what is shipped."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_wheel_tells_type_checkers_that_it_has_types():
    wheel = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    shipped = {file.distribution_path for file in wheel.recurse_included_files()}
    assert {"measureflow/py.typed", "measureflow/__init__.pyi"} <= shipped


def test_hooks_and_constraints_name_the_same_ruff():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    (hooked,) = re.findall(r"ruff-pre-commit\n +rev: v(\S+)", hooks)
    assert f"ruff=={hooked}\n" in (ROOT / "constraints.txt").read_text()
