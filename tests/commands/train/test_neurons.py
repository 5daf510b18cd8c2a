"""Two-layer networks, several layers and error budgets from the command line."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import measureflow as mf
from measureflow import training
from measureflow.cli import main
from measureflow.commands.train.data import of_neurons
from measureflow.runs.command import command
from measureflow.words.settings import InputError

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
Y = X[:, 0] * X[:, 1]
FEW = ["--neurons", "5", "--time", "0.04", "--step", "0.02", "--frames", "3"]


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    np.savez("numbers.npz", inputs=X, labels=Y)
    words = np.where(Y > 0, "cat", "dog")
    rows = "\n".join(f"{a},{kind},{b}" for (a, b), kind in zip(X, words, strict=True))
    Path("kinds.csv").write_text(f"a,kind,b\n{rows}\n")
    return tmp_path


def data(**words):
    return of_neurons(command("train neurons").settings(words))


def test_a_table_is_read_standardised_and_held_out_in_part():
    found = data(data="numbers.npz", held_out=0.25, seed=3)
    assert found.words == "40 rows (10 held out), 2 inputs, target `labels`: a number"
    inputs, targets = np.asarray(found.risk.inputs), np.asarray(found.risk.targets)[:, 0]
    np.testing.assert_allclose(inputs.mean(0), 0, atol=1e-14)
    np.testing.assert_allclose([inputs.std(0)[0], targets.std()], 1)
    assert isinstance(found.risk.criterion, training.Square)
    raw = data(data="numbers.npz", standardise=False, held_out=0.0)
    assert raw.unseen is None
    assert sorted(np.asarray(raw.risk.targets)[:, 0]) == pytest.approx(sorted(Y))


def test_words_are_classes_and_the_loss_follows_from_them():
    found = data(data="kinds.csv", target="kind")
    assert isinstance(found.risk.criterion, training.CrossEntropy)
    assert found.words.endswith("2 inputs, target `kind`: 2 classes")
    signs = data(data="kinds.csv", target="kind", loss="logistic", held_out=0.0)
    assert sorted(np.unique(np.asarray(signs.risk.targets))) == [-1.0, 1.0]
    assert float(np.mean(np.asarray(signs.risk.targets) < 0)) == pytest.approx(np.mean(Y > 0))  # cats come first


def test_digits_come_by_name():
    found = data(data="digits")
    assert found.words == "1797 rows (359 held out), 64 inputs, target: 10 classes"
    assert found.risk.baselines().uniform == pytest.approx(np.log(10))


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_images_of_the_format_of_mnist_are_read_with_their_labels(ending):
    pixels, kinds = rng.integers(0, 256, (12, 3, 2)), np.arange(12) % 3
    for name, array in (("images-idx3", pixels), ("labels-idx1", kinds)):
        raw = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.astype(np.uint8).tobytes()
        Path(f"t10k-{name}-ubyte{ending}").write_bytes(gzip.compress(raw) if ending else raw)
    found = data(data=f"t10k-images-idx3-ubyte{ending}", held_out=0.0, standardise=False, activation="gelu")
    assert found.words == "12 rows, 6 inputs, target: 3 classes"
    order = np.random.default_rng(0).permutation(12)
    np.testing.assert_allclose(found.risk.inputs, pixels.reshape(12, 6)[order] / 255)
    assert np.argmax(np.asarray(found.risk.targets), 1).tolist() == kinds[order].tolist()
    Path(f"t10k-images-idx3-ubyte{ending}").write_bytes(gzip.compress(b"no") if ending else b"no")
    with pytest.raises(InputError, match="no file of bytes in the format of MNIST"):
        data(data=f"t10k-images-idx3-ubyte{ending}")
    Path(f"t10k-labels-idx1-ubyte{ending}").unlink()
    with pytest.raises(InputError, match="needs its labels beside it"):
        data(data=f"t10k-images-idx3-ubyte{ending}")


@pytest.mark.slow
def test_neurons_are_trained_certified_and_drawn(capsys):
    assert main(["train", "neurons", "--data", "numbers.npz", *FEW, "--out", "run", "--limit", "8"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for word in (
        "variance explained",
        "40 rows (8 held out)",
        "by the best constant",
        "mean-field limit",
        "by 8 neurons",
    ):
        assert word in printed
    with Image.open("run/figure.png") as picture:
        assert min(picture.size) > 800
    run = mf.runs.open("run")
    assert run.command.name == "train neurons"
    assert main(["train", "certify", "run"]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    for word in ("among neurons of the set", "What theorems suppose", "has a kink", "Theorem 7.5", "support condition"):
        assert word in printed


@pytest.mark.slow
def test_layers_are_trained_and_have_no_certificate(capsys):
    words = ["--data", "f2", "--layers", "2", "--heads", "3", "--optimiser", "flow", "--time", "0.1", "--frames", "3"]
    assert main(["train", "heads", *words, "--out", "deep"]) == 0
    capsys.readouterr()
    run = mf.runs.open("deep")
    assert run.data.points.shape == (3, 3, 8)
    deep = training.DeepHeadRisk(training.fixtures.f2(), 2)
    np.testing.assert_allclose(run.data.risk[-1], deep(run.final), rtol=1e-12)
    assert "gap" not in dict(run.table.rows)
    assert {artist.get_gid() for artist in run.plot().findobj()} >= {"layer 1", "layer 2"}
    assert main(["train", "certify", "deep"]) == 2
    assert "not convex in their measure" in capsys.readouterr().err


@pytest.mark.slow
def test_a_budget_is_measured_drawn_and_stored(capsys):
    Path("config.toml").write_text(
        'data = "numbers.npz"\nneurons = 32\nactivation = "tanh"\nstep = 0.04\ntime = 0.2\nbatch = 4\n'
    )
    assert main(["train", "budget", "config.toml", "--repeats", "4", "--error", "0.1"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for word in ("empirical measure", "fitted exponent", "32 neurons, step 0.04", "for an error of 0.1", "budget.png"):
        assert word in printed
    stored = json.loads(Path("budget.json").read_text())
    assert np.shape(stored["total"]) == (3, 3, 4)
    assert stored["budget"]["sample"] > 0
    with Image.open("budget.png") as picture:
        assert min(picture.size) > 500


SENTENCES = {
    "no column 'z'": (["--data", "kinds.csv", "--target", "z"], "`target` 'z' is no column"),
    "a word among inputs": (
        ["--data", "kinds.csv"],
        "column 'kind' of 'kinds.csv' has 'dog' in line 2, which is no number",
    ),
    "words as numbers": (["--data", "kinds.csv", "--target", "kind", "--loss", "square"], "has words such as 'dog'"),
    "numbers as classes": (["--data", "numbers.npz", "--loss", "cross-entropy"], "`--loss square` for numbers"),
    "no file": (["--data", "digitz"], "there is no file 'digitz'"),
    "another file": (["--data", "a.txt"], "a file that ends in .csv, .npz"),
    "gaps": (["--data", "gaps.csv"], "not finite in row 2"),
    "rows": (["--data", "rows.csv"], "line 2 of 'rows.csv' has 1 columns, not 2"),
    "arrays": (["--data", "arrays.npz"], "has no array 'labels', only inputs"),
    "activation": (["--activation", "rel"], "did you mean 'relu'?"),
    "target of digits": (["--target", "a"], "`target` is for files"),
    "step of a smooth flow": (
        ["--activation", "tanh", "--optimiser", "flow", "--step", "0.1"],
        "`step` is for `optimiser`",
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_bad_input_gets_a_sentence(name, capsys):
    Path("a.txt").write_text("text")
    Path("gaps.csv").write_text("a,b\n1,2\nnan,3\n2,5\n")
    Path("rows.csv").write_text("1,2\n3\n")
    np.savez("arrays.npz", inputs=X)
    words, sentence = SENTENCES[name]
    assert main(["train", "neurons", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_budget_needs_a_training_run_with_enough_particles(capsys):
    Path("few.toml").write_text('data = "f2"\nheads = 8\n')
    assert main(["train", "budget", "few.toml"]) == 2
    assert "`heads` must be at least 32" in capsys.readouterr().err
    Path("wrong.toml").write_text("heads = [")
    assert main(["train", "budget", "wrong.toml"]) == 2
    assert "is not a TOML file" in capsys.readouterr().err


def test_help_does_not_load_jax():
    words = "['train', 'neurons', '--neurons', '0']"
    code = f"import sys; from measureflow.cli import main; main({words}); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_scikit_learn_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InputError, match=r"pip install measureflow\[data\]"):
        data(data="digits")
