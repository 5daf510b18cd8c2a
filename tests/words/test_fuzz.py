"""Any words at all: each configuration runs or is refused with a sentence, and no file of the user is touched."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from measureflow.cli import main
from measureflow.runs.command import command
from measureflow.runs.reader import open as open_run
from measureflow.runs.replacement import is_run
from measureflow.words import InputError, memory
from measureflow.words.vocabulary import LAWS, TABLES

WHOLE = st.sampled_from([-1, 0, 1, 2, 3, 5, 7, 121, 10**4, 10**9, 10**18, 2**63, 2**70])
REAL = st.sampled_from(
    [-1.0, 0.0, 1e-300, 1e-9, 0.1, 0.5, 1.0, 3.0, 30.0, 1e3, 1e15, 1e300, float("inf"), float("nan")]
)
TEXT = st.sampled_from(["", "nowhere.npz", "tokens.npz", "A.npz", "notes.txt", "\0", "softmax", "uniform", "-1"])
ANY = st.one_of(WHOLE, REAL, TEXT, st.booleans(), st.none())
TABLE_WORDS = {table.option: st.sampled_from(list(table)) for table in TABLES} | {"init": st.sampled_from(list(LAWS))}


def kinds(schema) -> dict[str, st.SearchStrategy]:
    """For each option, mostly values of its own kind and now and then anything."""
    found = {}
    for name, field in schema.model_fields.items():
        if name in ("out", "force", "use"):
            continue
        text = str(field.annotation)
        own = WHOLE if "int" in text else REAL if "float" in text else st.booleans() if "bool" in text else TEXT
        own = TABLE_WORDS.get(name, own)
        found[name] = st.one_of(own, own, own, ANY)
    return found


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with files of the user, which must be there afterwards as they were."""
    monkeypatch.chdir(tmp_path)
    np.savez("tokens.npz", points=np.eye(3))
    np.savez("A.npz", A=np.eye(3))
    Path("notes.txt").write_text("a few words of my own, that nobody may touch\n" * 20)
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("name", ["simulate", "train heads"])
def test_any_words_are_settings_or_sentences(name, desk):
    """Also what they would take of memory is known without taking it."""
    held, known, runnable, said = content(desk), command(name), [], []

    @settings(max_examples=400, derandomize=True, deadline=None, database=None)
    @given(st.fixed_dictionaries({}, optional=kinds(known.schema({}))))
    def judged(words):
        try:
            found = known.settings({name: value for name, value in words.items() if value is not None})
            memory.check(found)
        except InputError as refused:
            said.extend(refused.sentences)
        else:
            runnable.append(found.numbers())

    judged()
    assert runnable
    assert np.isfinite(runnable).all()
    assert all(sentence.endswith(".") for sentence in said)
    assert content(desk) == held


SMALL = {
    "measure": st.sampled_from(["particles", "sequence", "gaussian", "mixture", "circle", "cells", "sphere", "axial"]),
    "attention": TABLE_WORDS["attention"],
    "space": TABLE_WORDS["space"],
    "weights": TABLE_WORDS["weights"],
    "norm": TABLE_WORDS["norm"],
    "mask": TABLE_WORDS["mask"],
    "init": st.sampled_from([*LAWS, "tokens.npz", "notes.txt"]),
    "matrices": st.sampled_from(["A.npz", "tokens.npz"]),
    "schedule": TABLE_WORDS["schedule"],
    "beta": st.sampled_from([-3.0, 0.0, 1.0, 30.0, 1e300]),
    "time": st.sampled_from([1e-300, 0.1, 1.0]),
    "noise": st.sampled_from([0.1, 1e308]),
    "layers": st.sampled_from([1, 2]),
    "merge": st.sampled_from([0.1, 1e300]),
    "mlp": st.sampled_from([0, 4]),
    "seed": st.sampled_from([0, 2**63 - 1]),
    "tolerance": st.sampled_from([1e-300, 0.1, 1e300]),
}
TINY = {"n": "3", "modes": "4", "cells": "8", "degree": "4", "frames": "3", "frames_per_leg": "2", "verify": "False"}


def asked(words: dict) -> list[str]:
    """The words as a command line, with the sizes that their measure takes."""
    measure = words.get("measure", "particles")
    sized = {"particles": ["n"], "sequence": ["n"], "circle": ["modes"], "sphere": ["modes"], "cells": ["cells"]}
    sized |= {"axial": ["degree"]}
    small = {name: TINY[name] for name in ([] if "init" in words and "." in words["init"] else sized.get(measure, []))}
    frames = ["--frames-per-leg", "2"] if words.get("layers") else ["--frames", "3", "--frames-per-leg", "2"]
    options = [part for name, value in (small | words).items() for part in (f"--{name}", str(value))]
    return [*options, *frames, "--no-verify", "--out", "run"]


def test_any_small_run_ends_with_a_code_and_a_whole_folder_or_none(desk, capsys):
    """Never a traceback, a hang, a folder half made or a file of the user touched."""
    held, codes = content(desk), []

    @settings(
        max_examples=40,
        derandomize=True,
        deadline=None,
        database=None,
        phases=(Phase.generate,),  # a run is too dear to look for a simpler one
        suppress_health_check=list(HealthCheck),
    )
    @given(st.fixed_dictionaries({}, optional=SMALL))
    def ran(words):
        code = main(["simulate", *asked(words), "--force"])
        out = capsys.readouterr()
        codes.append(code)
        assert code in (0, 1, 2), (words, code, out.err)
        assert "Traceback" not in out.err
        run = desk / "run"
        if code != 2:
            assert is_run(run)
            assert (run / "commit.json").is_file()
            assert open_run(run).ended.code == code
        assert {name: data for name, data in content(desk).items() if not name.startswith("run/")} == held

    ran()
    assert codes.count(0) >= 8


@pytest.fixture(scope="module")
def fuzz():
    """The script that judges command lines."""
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "fuzz.py")))


def test_any_command_line_is_taken_or_refused_with_a_sentence(fuzz, tmp_path, monkeypatch):
    """The first of those of `make fuzz`, up to where settings and files are known."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    fuzz.lines.desk(tmp_path)
    commands, found = set(), {}
    with fuzz.dry(build=False):
        for seed in range(100):
            words = fuzz.lines.drawn(seed, tmp_path)
            commands.add(words[0])
            if wrong := fuzz.judged(words, tmp_path):
                found[seed] = words, wrong
    assert not found
    assert len(commands) > 12  # every command has its turn


def test_a_command_that_breaks_is_found(fuzz, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    fuzz.lines.desk(tmp_path)
    fuzz.judged.__globals__["SECONDS"] = 0.5

    def hangs():
        while True:
            pass

    broken = {
        lambda: 1 / 0: "exit code 70",
        lambda: 2: "is refused without a word",
        lambda: (tmp_path / "notes.txt").write_text("gone") and 0: "touches a file of the user",
        hangs: "takes too long",
    }
    for does, said in broken.items():
        monkeypatch.setattr("measureflow.cli.study.main", lambda argv, does=does: does())
        assert said in fuzz.judged(["study"], tmp_path)
        fuzz.lines.desk(tmp_path)
    monkeypatch.setattr("measureflow.cli.study.main", lambda argv: 0)
    assert fuzz.judged(["study"], tmp_path) == ""
