"""One schema judges words and files, and says everything that is wrong at once."""

import numpy as np
import pytest

import measureflow as mf
from measureflow.runs.command import command
from measureflow.words import InputError

SIMULATE = command("simulate")


def complaints(words, file=None):
    with pytest.raises(InputError) as caught:
        SIMULATE.job(SIMULATE.settings(words, file))
    return caught.value.sentences


def flow(**words):
    return SIMULATE.job(SIMULATE.settings(words)).flow


def test_four_wrong_options_give_four_sentences():
    found = complaints({"n": "0", "beta": "nan", "attention": "sofmax", "time": "-3"})
    assert len(found) == 4
    assert [s.split("`")[1] for s in found] == ["n", "attention", "beta", "time"]
    assert "did you mean 'softmax'?" in found[1]


BAD = {
    "a seed beyond 63 bits": ({"seed": 2**63}, "`seed`: input should be less than"),
    "too many tokens": ({"n": 10**12}, "TB of memory"),
    "too long a leg": ({"frames_per_leg": 10**12, "n": 8}, "`frames_per_leg` smaller"),
    "too long a leg of a Gaussian": ({"frames_per_leg": 10**12, "measure": "gaussian"}, "`frames_per_leg` smaller"),
    "too long a leg of a density": ({"frames_per_leg": 10**12, "measure": "circle"}, "`frames_per_leg` smaller"),
    "too fine a sphere": ({"measure": "sphere", "modes": 3000}, "make `modes` smaller"),
    "too many turns": ({"schedule": "resampled", "weights": "goe", "period": 1e-12, "dim": 300}, "or `time` smaller"),
    "a step below the clock": ({"solver": "euler", "dt": 1e-300}, "`dt` is 1e-300, which float64 does not resolve"),
    "no tokens": ({"n": "0"}, "greater than 0; got '0'"),
    "unknown key": ({"betta": "1"}, "`betta` is not an option (did you mean 'beta'?)"),
    "unknown law": ({"init": "unifrom"}, "did you mean 'uniform'?"),
    "missing file": ({"init": "nowhere.npz"}, "there is no file 'nowhere.npz'"),
    "missing matrices": ({"matrices": "nowhere.npz"}, "there is no file 'nowhere.npz'"),
    "infinite time": ({"time": "inf"}, "finite number; got 'inf'"),
    "step missing": ({"solver": "rk4"}, "give their length with `dt`"),
    "step not used": ({"dt": "0.1"}, "`dt` is for `solver` euler and heun and rk4"),
    "tolerance not used": ({"solver": "rk4", "dt": "1", "rtol": "1e-3"}, "`rtol` is for `solver` adaptive and stiff"),
    "flat sphere": ({"dim": "1"}, "the circle is dim 2"),
    "tolerance too tight": ({"rtol": "1e-17"}, "`rtol` must be at least 2.2e-15"),
    "equal heads": ({"heads": "2"}, "choose random `weights`"),
    "bias of nothing": ({"alibi": "1"}, "`alibi` is for `mask` causal"),
    "growing radii": ({"norm": "pre"}, "choose `space` euclidean"),
    "step of nothing": ({"alpha": "2"}, "`alpha` is for `norm` ngpt"),
    "switch of nothing": ({"switch": "2"}, "`switch` is for `norm` mix"),
    "nothing to draw": ({"schedule": "resampled"}, "choose random `weights`"),
    "noise and adaptive": ({"noise": "0.1"}, "`solver` euler and `dt`"),
    "layers and steps": ({"layers": "3", "dt": "0.1", "solver": "rk4"}, "one frame a layer"),
    "period of nothing": ({"period": "2"}, "`period` is for `schedule` resampled and periodic"),
    "radius of nothing": ({"radius": "2"}, "`radius` is for `space` ball"),
    "size of a product": ({"space": "product", "dim": "4"}, "drop `dim`"),
    "factors of nothing": ({"space": "product", "factors": "sfere:2"}, "`factors` names spaces"),
    "flat factor": ({"space": "product", "factors": "sphere:1"}, "`factors`: `dim` must be a whole number, at least 2"),
    "projected law": ({"project": True}, "a law is on its space already"),
    "law of no noise": ({"noise_law": "langevin"}, "give its temperature"),
    "rescaled sphere": ({"frame": "rescaled"}, "choose `space` euclidean"),
    "rescaled heads": (
        {"frame": "rescaled", "space": "euclidean", "heads": "2", "weights": "goe"},
        "for one head of softmax attention alone",
    ),
    "tilted flat": ({"init": "tilted", "space": "euclidean"}, "is a law on spheres"),
    "unseen positions": ({"measure": "sequence", "mask": "none"}, "only a `mask` sees"),
    "foreign words": ({"use": "nowhere.py"}, "there is no 'nowhere.py'"),
    "masked sinkhorn": ({"attention": "sinkhorn", "mask": "causal"}, "drop `mask`"),
    "one frame": ({"frames": "1"}, "greater than or equal to 2"),
}


@pytest.mark.parametrize(("words", "expected"), BAD.values(), ids=BAD.keys())
def test_bad_words_get_a_sentence(words, expected):
    (sentence,) = complaints(words)
    assert expected in sentence
    assert sentence.endswith(".")


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("ones.npz", points=np.ones((4, 3)))
    np.savez("zero.npz", points=np.zeros((2, 3)))
    np.savez("flat.npz", mean=np.zeros(2), cov=np.diag([1.0, 0.0]))
    np.savez("QK.npz", Q=np.diag([1.0, 2.0, 3.0]), K=2 * np.eye(3), V=0.5 * np.eye(3))
    (tmp_path / "good.toml").write_text('n = 7\nattention = "softmux"\n')
    np.savetxt(tmp_path / "tokens.csv", np.eye(3), delimiter=",")


BAD_FILES = {
    "no direction": ({"init": "zero.npz", "space": "euclidean", "norm": "pre"}, "token 0 is zero, which has none"),
    "noise on a line": (
        {"init": "flat.npz", "measure": "gaussian", "noise": 0.1, "solver": "euler", "dt": 0.1},
        "`cov` that is not singular",
    ),
    "two scores": ({"matrices": "QK.npz", "beta": "1"}, "give one of them"),
}


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize(("words", "expected"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_files_get_a_sentence(words, expected):
    (sentence,) = complaints(words)
    assert expected in sentence


@pytest.mark.usefixtures("in_folder")
def test_an_option_repairs_a_wrong_value_of_the_file():
    assert "did you mean 'softmax'?" in complaints({}, "good.toml")[0]
    config = SIMULATE.settings({"attention": "unnormalised"}, "good.toml")
    assert (config.n, config.attention) == (7, "unnormalised")


@pytest.mark.usefixtures("in_folder")
def test_files_of_tokens_and_matrices_become_the_problem():
    problem = flow(init="ones.npz", project=True, matrices="QK.npz")
    np.testing.assert_allclose(problem.start.points, 3**-0.5, rtol=1e-15)
    np.testing.assert_allclose(problem.field.interaction, np.diag([2.0, 4.0, 6.0]))
    np.testing.assert_allclose(problem.field.value, 0.5 * np.eye(3))
    assert flow(init="tokens.csv").start.points.shape == (3, 3)


def test_the_command_line_gives_up_when_the_library_does():
    assert flow(n=3).solver.most_steps == mf.Adaptive().most_steps
