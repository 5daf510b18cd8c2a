"""Training from the command line, as a user meets it."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import measureflow as mf
from measureflow import training
from measureflow.cli import main
from measureflow.cli.compare import _table
from measureflow.cli.printing import Printer
from measureflow.cli.showing import print_report
from measureflow.commands.train.certificate import reopen
from measureflow.wording import Report


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def complaint(capsys, *words):
    assert main(["train", *words]) == 2
    return capsys.readouterr().err


def test_help_and_complaints_do_not_load_jax():
    code = "import sys; from measureflow.cli import main; main({}); sys.exit('jax' in sys.modules)"
    for words in ("['train', '--help']", "['train', 'heads', '--heads', '0']"):
        assert subprocess.run([sys.executable, "-c", code.format(words)], capture_output=True).returncode == 0, words


@pytest.mark.parametrize("optimiser", ["sgd", "momentum"])
def test_the_limit_follows_the_mean_field_equation_and_not_the_samples(optimiser):
    words = {"data": "f2", "heads": 4, "limit": 32, "step": 0.02, "time": 0.2, "frames": 3, "optimiser": optimiser}
    run = mf.runs.run("train heads", **words, out="limit")
    risk = training.fixtures.f2()
    start, times = risk.heads.gaussian(32, 0.5, key=0), [0.0, 0.1, 0.2]
    descent = training.Descent(risk)
    field = descent if optimiser == "sgd" else training.HeavyBall(descent, 1.0)
    path = mf.evolve(field, field.start(start), times, mf.RK4(0.01))
    risks = path.map(lambda mu: risk(field.particles(mu)))
    np.testing.assert_allclose(run.data.limit, risks, rtol=1e-4)  # the tolerance of its steps is 1e-5
    quarters = [float(risk(mf.Particles(start.space, part))) for part in np.split(np.asarray(start.points), 4)]
    np.testing.assert_allclose(run.data.limit_error[0], np.std(quarters, ddof=1) / 2, rtol=1e-9)
    assert "known within" in dict(run.table.rows)["mean-field limit"]
    assert ("on_samples" in run.data) == (optimiser == "sgd")
    if optimiser == "sgd":
        noisy = training.sgd(risk, start, 0.02, 10, key=0, every=5).map(risk)
        np.testing.assert_allclose(run.data.on_samples, noisy, rtol=1e-12)
        assert np.abs(noisy - risks).max() > 1e-3  # the samples tell them apart


def test_the_limit_of_fewer_heads_than_quarters_has_no_error():
    run = mf.runs.run("train heads", heads=2, limit=3, time=0.02, frames=2, optimiser="descent", out="few")
    assert np.isfinite(run.data.limit).all()
    assert np.isnan(run.data.limit_error).all()
    assert len(run.figure.axes)


@pytest.mark.slow
def test_a_small_training_writes_all_it_promises_and_can_be_certified(capsys):
    few = ["--data", "f2", "--heads", "4", "--time", "0.04", "--frames", "4", "--frames-per-leg", "2", "--out", "run"]
    assert main(["train", "heads", *few, "--limit", "8"]) == 0
    printed = capsys.readouterr().out
    for word in ("risk", "dissipation", "gap", "mean-field limit", "Reached t = 0.04.", "run/figure.png"):
        assert word in printed
    with Image.open("run/figure.png") as picture:
        assert min(picture.size) > 800
    _, problem, mu, _ = reopen("run")
    data = mf.runs.open("run").data
    assert data.points.dims == ("time", "token", "coordinate")
    np.testing.assert_allclose(problem.risk(mu), data.risk.values[-1], rtol=1e-12)
    limit = mf.runs.open("run").data["limit"].values
    assert limit.shape == (4,)  # the curve is stored, so that its picture can be drawn again
    assert main(["plot", "run"]) == 0
    assert "mean-field limit" in capsys.readouterr().out
    assert main(["train", "certify", "run"]) == 1
    printed = capsys.readouterr().out
    for word in (
        "at rest",
        "no, dissipation",
        "least eigenvalues",
        "lower bound of the risk",
        "heuristic-LMO",
        "optimal",
        "log V",
        "H_tr: how Ψ curves when all move",
        "offender: of least Ψ",
    ):
        assert word in printed
    assert "H_tr = H + K" not in printed
    assert main(["train", "certify", "run", "--prove", "1e-3", "--explain", "--rounds", "2"]) == 1
    printed = capsys.readouterr().out
    for word in ("proved-LMO", "H_tr = H + K", "Frank-Wolfe", "after 2 rounds"):
        assert word in " ".join(printed.split())  # lines break anywhere


TEXT = "to be [or] not to be, that is the question\n" * 9
SMALL = [
    "--heads",
    "3",
    "--dim",
    "4",
    "--head-dim",
    "2",
    "--length",
    "5",
    "--windows",
    "4",
    "--time",
    "0.03",
    "--frames",
    "3",
]


@pytest.mark.slow
def test_training_on_text_says_what_its_risk_is_worth(capsys):
    Path("text.txt").write_text(TEXT)
    assert main(["train", "heads", "--data", "text.txt", *SMALL, "--out", "run", "--explain"]) == 0
    printed = capsys.readouterr().out
    run = mf.runs.open("run")
    assert "explain" not in (run.path / "config.toml").read_text()
    rows, stats = dict(run.table.rows), run.stats
    _, problem, mu, _ = reopen("run")
    np.testing.assert_allclose(stats["held_out_risk"], problem.source.held_out(4)(mu), rtol=1e-12)
    chance = np.log(len(set(TEXT)))
    assert rows["baselines"].startswith(f"{chance:.4g} by chance (log V), {stats['unigram']:.4g} unigram")
    assert rows["baselines"].endswith(f", {stats['bigram']:.4g} bigram entropy")
    assert stats["bigram"] < stats["unigram"] < chance
    assert rows["held out"].startswith(f"risk {stats['held_out_risk']:.6g}, accuracy ")
    assert rows["accuracy"].endswith("% of next tokens")
    assert len(stats["continuation"]) == 80
    assert set(stats["continuation"]) <= set(TEXT)
    assert rows["continuation"] == repr(stats["continuation"])  # brackets and line ends too
    for word in ("baselines", "held out", "continuation", "exp(R) is the number", "H_tr = H + K"):
        assert word in " ".join(printed.split())
    assert main(["train", "certify", "run"]) == 1
    assert "on data not trained" in capsys.readouterr().out


@pytest.mark.slow
def test_heads_at_rest_are_classified_with_their_rate(capsys):
    words = ["--data", "f2", "--optimiser", "flow", "--decay", "0.3", "--heads", "2", "--time", "60", "--frames", "4"]
    assert main(["train", "heads", *words, "--out", "rest"]) == 0
    capsys.readouterr()
    assert main(["train", "certify", "rest"]) == 0
    printed = capsys.readouterr().out
    # Twice the least eigenvalue of the fixture's Hessian, 0.232870.
    for word in ("yes, dissipation", "stable: decay at rate 0.4657", "0 directions change nothing"):
        assert word in printed


def test_brackets_that_heads_write_are_no_markup(capsys):
    wrote = ("continuation", "a [/k] [bold]", "[/]")
    print_report(Printer(), Report((wrote[:2],)))
    assert "a [/k] [bold]" in capsys.readouterr().out
    found = SimpleNamespace(runs=(1, 2), names=("one", "two"), settings=[], results=[wrote], distances=())
    Printer().print(_table(found))
    assert "a [/k] [bold]" in capsys.readouterr().out


def test_bad_input_gets_a_sentence(capsys):
    for optimiser in ("sgd", "momentum", "langevin"):
        assert "is beyond the stability limit" in complaint(capsys, "heads", "--step", "5", "--optimiser", optimiser)
    words = ["heads", "--optimiser", "langevin", "--profile", "inverse"]
    assert "`profile` must be constant for langevin" in complaint(capsys, *words)
    assert "there is no file 'nowhere'" in complaint(capsys, "heads", "--data", "nowhere")
    assert "`length` is for text" in complaint(capsys, "heads", "--length", "3")
    assert "`held_out` is for text" in complaint(capsys, "heads", "--held-out", "0.2")
    assert "`held_out`: input should be less than 1" in complaint(capsys, "heads", "--held-out", "1")
    assert "`rounds`: input should be greater than or equal to 0" in complaint(
        capsys, "certify", "run", "--rounds", "-1"
    )
    assert "is not a run folder" in complaint(capsys, "certify", "nowhere")
    assert "`run` is needed" in complaint(capsys, "certify")
    assert "takes one run folder; got 2" in complaint(capsys, "certify", "one", "two")
    assert "`prove`: input should be a valid number" in complaint(capsys, "certify", "run", "--prove", "ten")
    assert "`prove`: input should be greater than 0" in complaint(capsys, "certify", "run", "--prove", "-1")
    Path("latin.txt").write_bytes(b"\xe9" * 99)
    Path("empty.txt").write_text("")
    assert "'latin.txt' is not a text in UTF-8" in complaint(capsys, "heads", "--data", "latin.txt")
    assert "at least 2 characters" in complaint(capsys, "heads", "--data", "empty.txt")
    assert "would take 1e+300 steps" in complaint(capsys, "heads", "--step", "1e-300")
    assert "`scale`: input should be less than" in complaint(capsys, "heads", "--scale", "1e300")
    assert "of memory" in complaint(capsys, "heads", "--limit", str(10**12))
    assert "`friction` is for `optimiser` momentum" in complaint(capsys, "heads", "--friction", "2")
    assert "'tails' is not something to train" in complaint(capsys, "tails")
    assert "must be one of flow" in complaint(capsys, "heads", "--optimiser", "sdg")
