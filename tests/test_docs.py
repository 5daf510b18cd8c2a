"""What the documents promise is there: references, examples and the README's code."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import measureflow as mf
from measureflow.runs.command import command
from measureflow.runs.invocation import run_settings
from measureflow.words import vocabulary

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
PACKAGE = ROOT / "src" / "measureflow"
SIMULATE = command("simulate")
BIBLIOGRAPHY = set(re.findall(r"@\w+\{([^,]+),", (ROOT / "docs" / "references.bib").read_text()))


def test_every_claim_cites_a_reference_in_the_bibliography():
    for name in mf.studies.names():
        assert set(mf.studies.claim(name).reference.split(", ")) <= BIBLIOGRAPHY, name


def test_every_citation_key_in_the_source_is_in_the_bibliography():
    source = "".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    assert set(re.findall(r"\b[a-z]+:\d\d\b", source)) <= BIBLIOGRAPHY


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_file_runs_as_it_says(file, tmp_path):
    assert f"measureflow simulate --config examples/{file.name}" in file.read_text()
    words = {"time": 0.2, "out": str(tmp_path / "run"), "verify": False}
    config = SIMULATE.settings({}, str(file))
    words |= {"n": 8} if config.has("tokens") else {}
    words |= {"layers": 3} if config.layers else {"frames": 3}
    words |= {"switch": 0.1} if config.norm == "mix" else {}
    words |= {"period": 0.1} if config.schedule != "constant" else {}
    run = run_settings("simulate", SIMULATE.settings(words, str(file)))
    assert run.ok
    assert all(np.isfinite(values).all() for values in run.data.variables.values())


def test_every_choice_of_the_command_line_has_an_example():
    shown = [SIMULATE.settings({}, str(file)) for file in EXAMPLES]
    for table in (*vocabulary.TABLES, vocabulary.LAWS):
        missing = set(table) - {getattr(config, table.option) for config in shown}
        assert not missing, (table.option, missing)
    for name in ("heads", "mlp", "noise", "layers", "alibi", "modes", "closure"):
        default = SIMULATE.schema({}).model_fields[name].default
        assert any(getattr(config, name) != default for config in shown), name


@pytest.mark.slow
def test_every_example_script_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for script in sorted((ROOT / "examples").glob("*.py")):
        runpy.run_path(str(script), run_name="__main__")
    assert "Reached t = 15." in capsys.readouterr().out
    assert (tmp_path / "first_flow.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    flow, train, read, record = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names: dict = {}
    monkeypatch.chdir(tmp_path)
    exec(flow, names)
    assert names["path"].outcome.ok
    assert Path("tokens.png").stat().st_size > 10_000
    exec(train, names)
    best = names["best"]
    assert f"{best.risk:.6f}" in train
    assert best.gap < 1e-5
    assert len(best.measure.points) == 6
    mf.runs.run("simulate", n=6, time=1.0, frames=3, verify=False)
    exec(read, names)
    assert names["run"].path == Path("runs/simulate-1")
    exec(record, names)
    assert names["run"].series["lowest"].values.shape == (51,)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.stem)
def test_links_and_pictures_of_the_documents_exist(document):
    for target in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
        assert (document.parent / target).is_file(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.stem)
def test_python_files_named_in_the_documents_exist(document):
    """They are written as from the package or from the repository."""
    for name in re.findall(r"`([a-z_]+/[a-z_/]+\.py)\b", document.read_text()):
        assert any((home / name).is_file() for home in (ROOT, PACKAGE, PACKAGE / "sums")), name


def test_the_version_is_one_number():
    assert f'version = "{mf.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f"version: {mf.__version__}" in (ROOT / "CITATION.cff").read_text()
