"""Two runs side by side, as a user meets them."""

import numpy as np
import pytest
from PIL import Image

import measureflow as mf
from measureflow.cli import main
from measureflow.runs import Simulation
from measureflow.runs.compare import compare, restored
from measureflow.runs.config import read
from measureflow.runs.simulate import simulate

FLAT = {"beta": 0.3, "time": 0.2, "frames": 3, "verify": False}
ROUND = {"beta": 1.0, "time": 0.2, "frames": 3, "verify": False, "init": "clusters"}
RUNS = {
    "gaussian": FLAT | {"measure": "gaussian"},
    "gaussian-tokens": FLAT | {"space": "euclidean", "dim": 2, "init": "gaussian", "n": 400},
    "mixture": FLAT | {"measure": "mixture"},
    "mixture-tokens": FLAT | {"space": "euclidean", "dim": 2, "init": "clusters", "n": 400},
    "circle": ROUND | {"measure": "circle", "modes": 32},
    "circle-tokens": ROUND | {"dim": 2, "n": 400},
    "sphere": ROUND | {"measure": "sphere", "modes": 32},
    "sphere-tokens": ROUND | {"n": 400},
    "shorter": ROUND | {"dim": 2, "n": 400, "time": 0.15, "frames": 4},
    "coarser": ROUND | {"dim": 2, "n": 400, "solver": "euler", "dt": 0.05},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    for name, words in RUNS.items():
        simulate(read(Simulation, words | {"out": str(folder / name)}))
    return folder


@pytest.fixture(autouse=True)
def in_folder(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(runs)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def complaint(capsys, *words):
    assert main(["compare", *words]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("kind", ["gaussian", "mixture", "circle", "sphere"])
def test_tokens_are_drawn_over_their_limit_with_the_distance(kind, tmp_path, capsys):
    picture = tmp_path / "picture.png"
    assert main(["compare", f"{kind}-tokens", kind, "--out", str(picture)]) == 0
    printed = capsys.readouterr().out
    for word in ("measure", "particles", kind, "last common frame", "drawn from the limit", "picture"):
        assert word in printed
    with Image.open(picture) as drawn:
        assert min(drawn.size) > 1000


@pytest.mark.parametrize("kind", ["gaussian", "mixture", "circle", "sphere"])
def test_tokens_are_as_near_to_their_limit_as_a_sample(kind):
    found = compare(f"{kind}-tokens", kind)
    assert found.kinds == ("particles", kind)
    np.testing.assert_allclose(found.times, [0.0, 0.1, 0.2])
    # At these short times the tokens are still a sample: distances agree up to chance, which is up to a factor of two
    # for each side where blobs get more or less than their share.
    assert (found.distance < 4 * found.sampling).all()
    assert (found.sampling < 4 * found.distance).all()


def test_the_distance_of_a_gaussian_is_that_of_moments():
    found = compare("gaussian", "gaussian-tokens")
    tokens = mf.runs.open("gaussian-tokens").data.points.values[-1]
    limit = restored(mf.runs.open("gaussian"), -1)
    fitted = mf.Gaussian(tokens.mean(0), np.cov(tokens.T, bias=True))
    # Two ways to the same closed form, roots of a number of size 0.01 known to rounding 1e-15.
    np.testing.assert_allclose(found.distance[-1], mf.transport.wasserstein(fitted, limit), rtol=1e-9)


def test_runs_of_one_kind_differ_by_their_frames(capsys):
    found = compare("circle-tokens", "coarser")
    one, other = (mf.runs.open(name).data.points.values for name in ("circle-tokens", "coarser"))
    np.testing.assert_array_equal(found.distance, np.abs(one - other).max((1, 2)))
    assert found.distance[0] == 0 < found.distance[-1] < 0.01  # Euler: dt times half the acceleration, over a time 0.2
    assert [row[0] for row in found.settings] == ["solver", "dt"]
    assert found.sampling is None
    assert main(["compare", "circle-tokens", "coarser"]) == 0
    assert "largest difference of the frames" in capsys.readouterr().out
    with Image.open("compare.png") as drawn:
        assert drawn.size == (1800, 750)


def test_only_frames_of_one_time_are_compared():
    np.testing.assert_allclose(compare("circle", "shorter").times, [0.0, 0.1])


def test_a_gaussian_and_a_mixture_are_compared_without_tokens(tmp_path, capsys):
    assert main(["compare", "gaussian", "mixture", "--out", str(tmp_path / "limits.png")]) == 0
    assert "drawn from the limit" not in capsys.readouterr().out


def test_bad_input_gets_a_sentence(capsys, tmp_path):
    assert "'nowhere' is not a run folder" in complaint(capsys, "circle", "nowhere")
    assert "takes two run folders; got 1" in complaint(capsys, "circle")
    assert "Sphere(2) and Sphere(3)" in complaint(capsys, "circle", "sphere")
    assert "Euclidean(2) and Sphere(2)" in complaint(capsys, "gaussian", "circle")
    assert "must end in .png" in complaint(capsys, "circle", "circle-tokens", "--out", "picture.doc")
    assert "there is no folder 'none'" in complaint(capsys, "circle", "circle-tokens", "--out", "none/picture.png")
    assert "`out` needs the name" in complaint(capsys, "circle", "circle-tokens", "--out")
    assert "`--loud` is not an option" in complaint(capsys, "circle", "circle-tokens", "--loud")
    (tmp_path / "config.toml").write_text('optimiser = "sgd"\n')
    assert "is a training run" in complaint(capsys, "circle", str(tmp_path))
    (tmp_path / "config.toml").write_text("n = 5\n")
    assert "has no saved frames" in complaint(capsys, "circle", str(tmp_path))
    assert main(["compare"]) == 0
    assert "usage: measureflow compare" in capsys.readouterr().out
