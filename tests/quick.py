"""The tests that a change touches most: `make quick` runs them after lint and types, within three minutes in all.

Changed are the files that differ from the place where the branch left `main`, committed or not. First come changed tests and
the namesakes of changed modules, then the tests of the project's structure, then all other tests of the changed packages. Tests
marked `slow` are left out, and tests whose turn would come after `SECONDS` are skipped; the summary counts them.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SECONDS = 90
DEADLINE = "MEASUREFLOW_QUICK_DEADLINE"
STRUCTURE = [f"tests/test_{name}.py" for name in ("floors", "project", "quick", "wording", "annotations", "docs")]
EXAMPLES = "tests/test_docs.py::test_every_example_file_runs_as_it_says"


def git(root: Path, *words: str) -> list[str]:
    """The lines that git prints, none if it fails."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed(root: Path = ROOT) -> list[str]:
    """Files that differ from where the branch left `main`, and files that git does not know yet."""
    bases = [git(root, "merge-base", "HEAD", main) for main in ("main", "origin/main")]
    base = next(filter(None, bases), ["HEAD"])[0]
    return git(root, "diff", "--name-only", base) + git(root, "ls-files", "--others", "--exclude-standard")


def namesakes(file: str, root: Path = ROOT) -> list[Path]:
    """A changed test itself, or the tests with the name and place of a changed module."""
    path = Path(file)
    if path.parts[0] == "tests":
        return [path] if path.name.startswith("test_") and (root / path).is_file() else []
    test = Path("tests", *path.parts[2:]).with_name(f"test_{path.stem}.py")
    return [test] if file.startswith("src/") and (root / test).is_file() else []


def neighbours(file: str, root: Path = ROOT) -> list[Path]:
    """All tests of the package of a changed file: those of the innermost folder that has some."""
    path = Path(file)
    inside = path.parts[2:-1] if path.parts[0] == "src" else path.parts[1:-1] if path.parts[0] == "tests" else ()
    folders = [root.joinpath("tests", *inside[:depth]) for depth in range(len(inside), 0, -1)]
    found = next(filter(None, (sorted(folder.rglob("test_*.py")) for folder in folders)), [])
    return [test.relative_to(root) for test in found]


def chosen(files: list[str], root: Path = ROOT) -> list[str]:
    """Files of tests in the order in which they run, each once."""
    first = [test for file in files for test in namesakes(file, root)]
    last = [test for file in files for test in neighbours(file, root)]
    return list(dict.fromkeys([*map(str, first), *STRUCTURE, *map(str, last)]))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose turn comes too late."""
    if time.time() > float(os.environ[DEADLINE]):
        pytest.skip(f"left to `make test`: `make quick` ends after {SECONDS} s of tests")


def main() -> int:
    """Run the chosen tests on two cores, in their order."""
    files = changed()
    examples = [] if any(file.startswith("examples/") for file in files) else ["--deselect", EXAMPLES]
    words = ["-q", "-m", "not slow", "-n", "2", "--dist", "load", "--maxschedchunk", "1", "-p", "quick", *examples]
    paths = os.pathsep.join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": paths, DEADLINE: str(time.time() + SECONDS)}
    command = [sys.executable, "-m", "pytest", *words, *chosen(files)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
