"""The floors of the house: each imports only floors above it in the list."""

import ast
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

import measureflow

ROOT = Path(measureflow.__file__).parent
FLOORS = [
    "spaces",
    "sums",
    "measures",
    "fields",
    "energies",
    "flows",
    "transport",
    "diagnostics",
    "training",
    "networks",
    "models",
    "plotting",
    "words",
    "runs",
    "sweeps",
    "commands",
    "studies",
    "figures",
    "cli",
    "studio",
]
READS_THEORY = {"theory", "sweeps", "commands", "studies", "figures", "cli", "studio"}


def imported_floors(file: Path) -> set[str]:
    """The floors of measureflow that a file imports, at its top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "measureflow":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("measureflow.")}
    return found


def files(floor: str) -> list[Path]:
    return sorted((ROOT / floor).rglob("*.py"))


def test_every_folder_is_a_floor_with_content():
    folders = {p.name for p in ROOT.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= {*FLOORS, "theory"}
    assert all(any(len(f.read_text().splitlines()) > 10 for f in files(folder)) for folder in folders)


def test_each_floor_imports_only_floors_above_it():
    for position, floor in enumerate(FLOORS):
        allowed = {
            *FLOORS[: position + 1],
            "annotations",
            "files",
            "memory",
            "checks",
            "precision",
            "signatures",
            "wording",
            "results",
            "lazy",
            "__version__",
        } | ({"theory"} if floor in READS_THEORY else set())
        for file in files(floor):
            assert imported_floors(file) <= allowed, (
                f"{file.relative_to(ROOT)} imports {imported_floors(file) - allowed}"
            )


def test_theory_imports_nothing_of_ours_but_names_of_types():
    for file in files("theory"):
        assert imported_floors(file) <= {"theory", "annotations", "signatures"}
    assert not imported_floors(ROOT / "annotations.py") | imported_floors(ROOT / "signatures.py")


def test_matplotlib_is_imported_by_plotting_alone():
    for file in ROOT.rglob("*.py"):
        if "plotting" not in file.parts:
            assert "import matplotlib" not in file.read_text()
            assert "from matplotlib" not in file.read_text()


def test_importing_the_package_leaves_the_configuration_of_jax_alone():
    for file in ROOT.rglob("*.py"):
        if not {"cli", "studio", "studies", "runs"} & set(file.parts):
            assert "config.update" not in file.read_text()


def test_no_module_hides_behind_a_function_of_its_name():
    for floor in (*FLOORS, "theory"):
        if not (ROOT / floor).is_dir():
            continue
        package = importlib.import_module(f"measureflow.{floor}")
        inside = {module.name for module in pkgutil.iter_modules(package.__path__)}
        shown = {name for name in inside & set(dir(package)) if not isinstance(getattr(package, name), ModuleType)}
        assert not shown, (floor, shown)
