"""Oversmoothing from the command line, as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from PIL import Image
from scipy import sparse

from measureflow import networks
from measureflow.cli import main
from measureflow.commands.smooth.job import NAMED, graph_of, smoothing, weights_of
from measureflow.commands.smooth.report import table

FEW = ["--layers", "24", "--seeds", "3", "--features", "3"]


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("two.txt").write_text("a b\nb c\nc a\nd e\ne f\n")
    return tmp_path


def test_the_default_writes_a_table_a_picture_and_numbers(capsys):
    assert main(["smooth", *FEW]) == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for word in (
        "karate: 34 vertices, 78 edges",
        "connected",
        "0.89883 (exact)",
        "(measured) on 3 runs of eigencoordinates",
        "keeps μ above 0.5",
    ):
        assert word in printed
    with Image.open("smooth.png") as picture:
        assert min(picture.size) > 600
    stored = json.loads(Path("smooth.json").read_text())
    spectrum = graph_of("karate").spectrum()
    law = networks.smoothing_rate(spectrum, networks.GaussianWeights(3, 3**-0.5), 0.3)
    assert stored["rates"]["with_residuals"] == {"value": law.value, "kind": "exact", "error": 0.0}
    assert np.shape(stored["log_similarities"]["with_residuals"]) == (3, 25)
    measured = stored["measured"]["without_residuals"]
    assert measured["value"] == pytest.approx(spectrum.rest[0], abs=1e-9)


def test_a_graph_in_pieces_is_told_with_its_components(capsys):
    assert main(["smooth", "two.txt", *FEW, "--activation", "relu", "--normalisation", "walk", "--out", "a.pdf"]) == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for word in (
        "2, of 3, 3 vertices",
        "nothing is lost across them",
        "for ReLU a guide only",
        "where rounding begins",
    ):
        assert word in printed
    assert Path("a.pdf").exists()
    assert Path("a.json").exists()


@pytest.mark.parametrize(
    ("kind", "words"),
    [("fixed", "(exact)"), ("diagonal", "nothing is lost at any depth"), ("bounded", "rate at least")],
)
def test_every_law_of_weights_is_reported(kind, words):
    weights = weights_of(kind, 3, None, None, 0)
    found = smoothing("karate", graph_of("karate"), weights, layers=24, seeds=3)
    assert words in " ".join(text for _, text in table(found).rows)
    assert found.enough > 0
    assert np.all(found.over[: np.searchsorted(found.alphas, 0.99 * found.enough)] >= found.wanted - 1e-9)


def test_large_graphs_have_fewer_runs(monkeypatch):
    monkeypatch.setattr("measureflow.commands.smooth.job.WORK", 1.0)
    found = smoothing("karate", graph_of("karate"), networks.GaussianWeights(3, 1.0), layers=24, seeds=5)
    assert len(found.runs[0]) == 2


def test_graphs_come_by_name_and_from_files():
    for name in NAMED:
        assert graph_of(name).n > 5
    sparse.save_npz("karate.npz", nx.to_scipy_sparse_array(nx.karate_club_graph(), dtype=float))
    np.testing.assert_allclose(graph_of("karate.npz").degrees, graph_of("karate").degrees)


SENTENCES = {
    "name": (["karat"], "did you mean 'karate'?"),
    "file": (["bad.txt"], "edge 2 reads 'c'"),
    "two": (["karate", "davis"], "must be one graph; got 2"),
    "layers": (["--layers", "0"], "`layers`"),
    "weights": (["--weights", "gauss"], "did you mean 'gaussian'?"),
    "lost": (["--lost", "2"], "`lost`"),
    "matrix": (["--matrix", "wide.csv"], "`matrix` is for `weights` fixed"),
    "wide": (["--weights", "fixed", "--matrix", "wide.csv"], "must be square"),
    "no matrix": (["--weights", "fixed", "--matrix", "none.csv"], "`matrix`: 'none.csv' cannot be read"),
    "folder": (["--out", "nowhere/a.png"], "there is no folder"),
    "option": (["--depth", "3"], ""),
    "too deep": (["--layers", "100000000000"], "make `layers`, `seeds` or `features` smaller"),
    "too many runs": (["--seeds", "100000000000"], "make `layers`, `seeds` or `features` smaller"),
    "too wide": (["--features", "1000000000"], "make `features` smaller"),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_bad_input_gets_a_sentence(name, capsys):
    Path("bad.txt").write_text("a b\nc\n")
    Path("wide.csv").write_text("1,2,3\n4,5,6\n")
    words, sentence = SENTENCES[name]
    try:
        code = main(["smooth", *words])
    except SystemExit as exit:
        code = exit.code
    assert code == 2
    said = capsys.readouterr()
    assert sentence in said.err + said.out
    assert not Path("smooth.png").exists()


def test_help_does_not_load_jax():
    code = (
        "import sys; from measureflow.cli import main; main(['smooth', '--lost', '2']); sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_networkx_is_named_where_it_is_missing(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "networkx", None)
    assert main(["smooth", "karate"]) == 2
    assert "pip install measureflow[graphs]" in capsys.readouterr().err
