"""Command lines for every command, with the files that they name: some make sense, most do not.

Each entry of `LINES` takes a random generator and a folder, writes files into the folder and returns a command line. Files with
damaged contents come from the generators of `foreign.py`, where that is there. `fuzz.py` judges how the commands end.
"""

import contextlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np

from measureflow.cli import bench, compare, plot, rerun, resume, smooth, study, sweep, train
from measureflow.runs.command import command
from measureflow.words.settings import as_toml
from measureflow.words.vocabulary import LAWS

Random = np.random.Generator
Line = Callable[[Random, Path], list[str]]

WHOLE = [-1, 0, 1, 2, 3, 5, 7, 121, 1000, 10**9, 10**18, 2**63, 2**70]
REAL = [-1.0, 0.0, 1e-300, 1e-9, 0.1, 0.5, 1.0, 3.0, 30.0, 1e3, 1e15, 1e300, float("inf"), float("nan")]
TEXT = [
    "",
    ".",
    "..",
    "/",
    "a b",
    "γ",
    "[bold]x[/red]",
    ":smile:",
    "\x1b[31m",
    "a\nb",
    "\udcff.npz",
    300 * "a",
    "{0}%s",
]
TEXT += [300 * "a" + ".npz", "nowhere.npz", "notes.txt", "tokens.npz", "A.npz", "words.csv", "a.toml"]
TEXT += ["-1", "--n", "nan", "softmax", "uniform"]
KINDS = {"init": "ARRAYS", "matrices": "ARRAYS", "matrix": "ARRAYS", "files": "ARRAYS"}
KINDS |= {"data": "TABLES", "graph": "GRAPHS", "model": "MODELS"}
"""Options that name a file, and where `foreign.py` has generators of such."""
ASIDE = ("use", "force", "out", "processes", "coordinator", "process_id", "num_processes")
"""Options that are left to others: words of one's own are programs, and processes are tested by themselves."""
TABLES = ["digits", "iris", "f1", "f2"]


def _foreign() -> Any:
    """The generators of damaged files, if they are there."""
    file = Path(__file__).with_name("foreign.py")
    if not file.is_file():
        return None
    spec = importlib.util.spec_from_file_location("foreign", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FOREIGN = _foreign()


def one(rng: Random, values: Any) -> Any:
    """One of several values."""
    values = list(values)
    return values[int(rng.integers(len(values)))]


def desk(folder: Path) -> None:
    """Files of a user, which no command may touch."""
    np.savez(folder / "tokens.npz", points=np.eye(3))
    np.savez(folder / "A.npz", A=np.eye(3))
    (folder / "notes.txt").write_text("a few words of my own, that nobody may touch\n" * 20)
    (folder / "words.csv").write_text("a,b,c\n" + "1,2,0\n3,4,1\n5,6,0\n" * 5)


def owned(folder: Path) -> dict[str, bytes]:
    """What is in the files of the user."""
    return {name: (folder / name).read_bytes() for name in ("tokens.npz", "A.npz", "notes.txt", "words.csv")}


def value(rng: Random, folder: Path, name: str, field: Any, tables: tuple) -> Any:
    """A value of an option: mostly of its own kind, now and then anything."""
    if rng.random() < 0.15:
        return one(rng, [*WHOLE, *REAL, *TEXT, True, [], ["uniform"], {"a": 1}])
    kind, text = field.annotation, str(field.annotation)
    words = [*next((table for table in tables if table.option == name), ()), *(LAWS if name == "init" else ())]
    words += TABLES if name == "data" else [word for word in get_args(kind) if isinstance(word, str)]
    if name in KINDS and FOREIGN is not None and rng.random() < 0.5:
        return str(one(rng, getattr(FOREIGN, KINDS[name]).values())(rng, folder).relative_to(folder))
    if get_origin(kind) is tuple:
        return [one(rng, WHOLE if "int" in text else REAL if "float" in text else TEXT) for _ in range(rng.integers(3))]
    if words:
        return one(rng, words)
    return one(rng, WHOLE if "int" in text else REAL if "float" in text else [True, False] if kind is bool else TEXT)


def values(rng: Random, folder: Path, schema: Any) -> dict[str, Any]:
    """Some options of a schema."""
    names = [name for name in schema.model_fields if name not in ASIDE]
    chosen = [one(rng, names) for _ in range(rng.integers(6))]
    tables = getattr(schema, "tables", ())
    return {name: value(rng, folder, name, schema.model_fields[name], tables) for name in chosen}


def typed(schema: Any, given: dict[str, Any]) -> list[str]:
    """Values as words of a command line."""
    line: list[str] = []
    for name, held in given.items():
        field = schema.model_fields[name]
        parts = [str(part) for part in (held if isinstance(held, list) else [held])]
        option = f"--{(field.alias or name).replace('_', '-')}"
        if isinstance(field.json_schema_extra, dict):
            line = [*parts, *line]
        elif field.annotation is bool and isinstance(held, bool):
            line.append(option if held else f"--no-{option[2:]}")
        else:
            line += [option, *parts]
    return line


def run_line(name: str) -> Line:
    """Lines of a command that makes runs: its options, some of them in a TOML file."""

    def line(rng: Random, folder: Path) -> list[str]:
        schema = command(name).schema({})
        given = values(rng, folder, schema)
        words = [*name.split(), *typed(schema, {key: of for key, of in given.items() if rng.random() < 0.7})]
        if rng.random() < 0.3:
            (folder / "a.toml").write_bytes(mangled(rng, toml(given)))
            words += ["--config", one(rng, ["a.toml"] * 5 + TEXT)]
        return words + (["--out", one(rng, TEXT)] if rng.random() < 0.3 else [])

    return line


def toml(given: dict[str, Any]) -> bytes:
    """Values as a TOML file, without those that no such file can hold."""
    lines = []
    for name, held in given.items():
        with contextlib.suppress(ValueError):
            lines.append(as_toml({name: held}))
    return "".join(lines).encode()


def mangled(rng: Random, raw: bytes) -> bytes:
    """A file as it is, or cut, doubled, deep, with strange bytes."""
    cut = int(rng.integers(len(raw) + 1))
    odd = [raw[:cut], raw + raw, b"\xef\xbb\xbf" + raw, raw[:cut] + b"\xff\0" + raw[cut:], raw + b"x = " + 9999 * b"["]
    return one(rng, [raw] * 6 + odd)


def sweep_line(rng: Random, folder: Path) -> list[str]:
    """A sweep file: settings of a command, and sections that may contradict them and each other."""
    name = one(rng, ["simulate", "train heads", "train neurons", "interpolate", "study", "γ"])
    known = command(name).schema({}) if name[:2] not in ("st", "γ") else command("simulate").schema({})
    parts: dict[str, Any] = {"command": name} if rng.random() < 0.7 else {}
    parts |= {
        key: one(rng, [*TEXT, "series", "final", 3])
        for key in ("title", "keep", "show", "theory")
        if rng.random() < 0.2
    }
    for section in ("grid", "zip", "random", "derived"):
        if rng.random() < (0.8 if section == "grid" else 0.25):
            parts[section] = {key: axis(rng, of, section) for key, of in values(rng, folder, known).items()}
            parts[section] |= (
                {one(rng, [*TEXT, "gamma", "count"]): axis(rng, 1.0, section)} if rng.random() < 0.4 else {}
            )
    text = toml(values(rng, folder, known)) + b"\n" + toml({"sweep": parts})
    (folder / "s.toml").write_bytes(mangled(rng, text))
    return [
        "sweep",
        one(rng, ["s.toml"] * 9 + TEXT),
        *typed_only(rng, folder, sweep.SweepWords, "file", "scheduler", "out"),
    ]


def axis(rng: Random, start: Any, section: str) -> Any:
    """What an axis takes: a list, a range, a formula, or none of these."""
    if section == "derived":
        return one(
            rng, ["n + 1", "gamma * log(n)", "(9**99999)**99999", "n n", "__import__('os')", "1/0", "", "x" * 5000]
        )
    span = {"from": one(rng, [*WHOLE, *REAL]), "to": one(rng, [*WHOLE, *REAL])}
    span |= {one(rng, ["count", "step", "scale", "γ"]): one(rng, [*WHOLE, *REAL, "log"])} if rng.random() < 0.6 else {}
    return one(rng, [[start], [start, start], [1, 2, 3], [0.5, 1.0], ["softmax", "l2"], span, span, start, []])


def typed_only(rng: Random, folder: Path, schema: Any, *without: str) -> list[str]:
    """Some options of a schema as words, but for a few."""
    given = values(rng, folder, schema)
    return typed(schema, {name: of for name, of in given.items() if name not in without})


def words_line(name: str, schema: Any, folders: bool = False) -> Line:
    """Lines of a command without a run of its own; `folders` says that it takes those of runs."""

    def line(rng: Random, folder: Path) -> list[str]:
        places = [one(rng, [*sorted(MADE), *TEXT]) for _ in range(rng.integers(1, 3))] if folders else []
        return [*name.split(), *places, *typed_only(rng, folder, schema, "run", "runs")]

    return line


def nonsense(rng: Random, folder: Path) -> list[str]:
    """Words that mean nothing, or help that somebody needs."""
    first = one(rng, [*LINES, *TEXT, "train", "study", "--help", "--version"])
    return [*first.split(), *(str(one(rng, [*TEXT, *WHOLE, "--help", "--", "-x"])) for _ in range(rng.integers(3)))]


MADE: dict[str, list[str]] = {
    "simulation": ["simulate", "--n", "3", "--time", "0.1", "--frames", "3", "--no-verify"],
    "descent": ["train", "heads", "--heads", "2", "--time", "0.02", "--frames", "2", "--optimiser", "descent"],
}
"""Folders that are there, and the commands that made them."""

LINES: dict[str, Line] = {
    name: run_line(name) for name in ("simulate", "train heads", "train neurons", "interpolate", "inspect")
}
LINES |= {
    "sweep": sweep_line,
    "smooth": words_line("smooth", smooth.Smooth),
    "bench": words_line("bench", bench.Bench),
    "study list": words_line("study list", study.ListStudies),
    "study run": words_line("study run", study.RunStudies),
    "resume": words_line("resume", resume.Resume, folders=True),
    "plot": words_line("plot", plot.Plot, folders=True),
    "rerun": words_line("rerun", rerun.Rerun, folders=True),
    "compare": words_line("compare", compare.Compare, folders=True),
    "train certify": words_line("train certify", train.Certify, folders=True),
    "train budget": words_line("train budget", train.BudgetOf, folders=True),
    "nonsense": nonsense,
}
WEIGHTS = {"simulate": 6, "train heads": 3, "train neurons": 3, "sweep": 5}
"""How often a line is drawn, beside once for the others."""


def drawn(seed: int, folder: Path) -> list[str]:
    """The command line of a seed, with its files."""
    rng = np.random.default_rng(seed)
    names = [name for name in LINES for _ in range(WEIGHTS.get(name, 1))]
    return LINES[one(rng, names)](rng, folder)
