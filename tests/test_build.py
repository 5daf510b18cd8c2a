"""The build of the native kernel: it works with a compiler, and nothing breaks without one."""

import ctypes
import importlib.util
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from measureflow.sums.native import constants

ROOT = Path(__file__).parent.parent


@pytest.fixture
def build(monkeypatch):
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("build_native", ROOT / "build_native.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("MEASUREFLOW_NATIVE", raising=False)
    return module


@pytest.fixture
def package(tmp_path):
    """Sources of a small kernel where the build hook looks for them; the true one, a minute's work, was built to install."""
    home = tmp_path / "src" / "measureflow" / "sums"
    shutil.copytree(
        ROOT / "src" / "measureflow" / "sums" / "native", home / "native", ignore=shutil.ignore_patterns("*.so")
    )
    for source in (home / "native").glob("*.cc"):
        source.write_text(f'#include "constants.h"\nextern "C" int {source.stem}() {{ return IN_REGISTERS; }}')
    return tmp_path


def run_hook(build, package):
    said, data = [], {"force_include": {}}
    hook = SimpleNamespace(root=str(package), app=SimpleNamespace(display_warning=said.append))
    build.NativeKernel.initialize(hook, "standard", data)
    return said, data


@pytest.mark.skipif(shutil.which("c++") is None and shutil.which("g++") is None, reason="no C++ compiler")
def test_a_compiler_gives_a_library_in_the_wheel(build, package):
    said, data = run_hook(build, package)
    assert not said
    (library,) = data["force_include"]
    assert not data["pure_python"]
    kernel = ctypes.CDLL(library)
    assert kernel.attend() == kernel.pulse() == constants.IN_REGISTERS


@pytest.mark.skipif(shutil.which("c++") is None and shutil.which("g++") is None, reason="no C++ compiler")
def test_the_compiler_gets_the_numbers_of_the_python_file(build, tmp_path):
    text = (ROOT / "src" / "measureflow" / "sums" / "native" / "constants.py").read_text()
    (tmp_path / "constants.py").write_text(text.replace("IN_REGISTERS = 4", "IN_REGISTERS = 11"))
    asks = """#include "constants.h"
        extern "C" int registers() { return IN_REGISTERS; }
        extern "C" double last() { return POWER_OF_TWO[sizeof(POWER_OF_TWO) / sizeof(double) - 1]; }"""
    (tmp_path / "asks.cc").write_text(asks)
    build.compile_kernel([tmp_path / "asks.cc"], tmp_path / "asks.so")
    library = ctypes.CDLL(str(tmp_path / "asks.so"))
    library.last.restype = ctypes.c_double
    assert library.registers() == 11
    assert library.last() == constants.POWER_OF_TWO[-1]


FAILURES = {
    "no compiler": {"PATH": ""},
    "compiler that fails": {"CXX": "false"},
    "compiler that is not there": {"CXX": "/nowhere/c++"},
    "switched off": {"MEASUREFLOW_NATIVE": "0"},
}


@pytest.mark.parametrize("environment", FAILURES.values(), ids=FAILURES.keys())
def test_without_a_compiler_the_package_is_built_without_the_kernel(build, package, monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    said, data = run_hook(build, package)
    assert "native kernel not built" in said[0]
    assert data == {"force_include": {}}


@pytest.mark.skipif(shutil.which("c++") is None and shutil.which("g++") is None, reason="no C++ compiler")
def test_an_error_in_the_source_does_not_break_the_build(build, package):
    (package / "src" / "measureflow" / "sums" / "native" / "attend.cc").write_text("this is not C++")
    said, data = run_hook(build, package)
    assert "native kernel not built" in said[0]
    assert data == {"force_include": {}}
