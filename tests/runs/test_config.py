"""One schema judges words and files, and says everything that is wrong at once."""

import numpy as np
import pytest

from measureflow.runs import InputError, Simulation
from measureflow.runs.build import build
from measureflow.runs.config import read


def complaints(words, file=None):
    with pytest.raises(InputError) as caught:
        build(read(Simulation, words, file))
    return caught.value.sentences


def test_four_wrong_options_give_four_sentences():
    found = complaints({"n": "0", "beta": "nan", "attention": "sofmax", "time": "-3"})
    assert len(found) == 4
    assert [s.split("`")[1] for s in found] == ["n", "attention", "beta", "time"]
    assert "did you mean 'softmax'?" in found[1]


BAD = {
    "no tokens": ({"n": "0"}, "greater than 0; got '0'"),
    "unknown key": ({"betta": "1"}, "`betta` is not an option (did you mean 'beta'?)"),
    "unknown law": ({"init": "unifrom"}, "did you mean 'uniform'?"),
    "missing file": ({"init": "nowhere.npz"}, "there is no file 'nowhere.npz'"),
    "missing matrices": ({"matrices": "nowhere.npz"}, "there is no file 'nowhere.npz'"),
    "infinite time": ({"time": "inf"}, "finite number; got 'inf'"),
    "step missing": ({"solver": "rk4"}, "give their length with `dt`"),
    "step not used": ({"dt": "0.1"}, "'adaptive' takes `rtol`"),
    "tolerance not used": ({"solver": "rk4", "dt": "1", "rtol": "1e-3"}, "takes its step from `dt`"),
    "flat sphere": ({"dim": "1"}, "the circle is dim 2"),
    "tolerance too tight": ({"rtol": "1e-17"}, "`rtol` must be at least 2.2e-15"),
    "equal heads": ({"heads": "2"}, "choose random `weights`"),
    "bias of nothing": ({"alibi": "1"}, "add `mask` causal"),
    "growing radii": ({"norm": "pre"}, "choose `space` euclidean"),
    "step of nothing": ({"alpha": "2"}, "`alpha` is for `norm` ngpt"),
    "switch of nothing": ({"switch": "2"}, "`switch` is for `norm` mix"),
    "nothing to draw": ({"schedule": "resampled"}, "choose random `weights`"),
    "noise and adaptive": ({"noise": "0.1"}, "`solver` euler and `dt`"),
    "layers and steps": ({"layers": "3", "dt": "0.1", "solver": "rk4"}, "one frame a layer"),
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
    np.savez("nan.npz", points=np.array([[1.0, 0.0], [np.nan, 1.0]]))
    np.savez("weights.npz", points=np.eye(3), weights=np.array([1.0, -1.0, 1.0]))
    np.savez("other.npz", tokens=np.eye(3))
    np.save("flat.npy", np.ones(3))
    np.savez("B.npz", B=np.eye(3))
    np.savez("A2.npz", A=np.eye(2))
    np.savez("QK.npz", Q=np.diag([1.0, 2.0, 3.0]), K=2 * np.eye(3), V=0.5 * np.eye(3))
    (tmp_path / "words.csv").write_text("a,b\n1,2\n")
    (tmp_path / "ugly.toml").write_text("n = = 3")
    (tmp_path / "good.toml").write_text('n = 7\nattention = "softmux"\n')
    np.savetxt(tmp_path / "tokens.csv", np.eye(3), delimiter=",")


BAD_FILES = {
    "off the sphere": ({"init": "ones.npz"}, "`--project` does that"),
    "NaN": ({"init": "nan.npz", "space": "euclidean"}, "`points` has 1 NaN or infinite"),
    "negative weight": ({"init": "weights.npz"}, "`weights` must be positive; got the value -1"),
    "foreign array": ({"init": "other.npz"}, "must hold `points`"),
    "not rows": ({"init": "flat.npy"}, "tokens as rows"),
    "other count": ({"init": "ones.npz", "n": "7"}, "drop `n`"),
    "no numbers": ({"init": "words.csv"}, "Cannot read numbers from 'words.csv'"),
    "foreign matrices": ({"matrices": "B.npz"}, "it holds ['B']"),
    "wrong size": ({"matrices": "A2.npz"}, "A must be 3 x 3"),
    "two scores": ({"matrices": "QK.npz", "beta": "1"}, "give one of them"),
}


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize(("words", "expected"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_files_get_a_sentence(words, expected):
    (sentence,) = complaints(words)
    assert expected in sentence


@pytest.mark.usefixtures("in_folder")
def test_unreadable_configurations_get_a_sentence():
    assert "is not a TOML file" in complaints({}, "ugly.toml")[0]
    assert "cannot read 'none.toml'" in complaints({}, "none.toml")[0]


@pytest.mark.usefixtures("in_folder")
def test_an_option_repairs_a_wrong_value_of_the_file():
    assert "did you mean 'softmax'?" in complaints({}, "good.toml")[0]
    config = read(Simulation, {"attention": "unnormalised"}, "good.toml")
    assert (config.n, config.attention) == (7, "unnormalised")


@pytest.mark.usefixtures("in_folder")
def test_files_of_tokens_and_matrices_become_the_problem():
    problem = build(read(Simulation, {"init": "ones.npz", "project": True, "matrices": "QK.npz"}))
    np.testing.assert_allclose(problem.start.points, 3**-0.5, rtol=1e-15)
    np.testing.assert_allclose(problem.field.interaction, np.diag([2.0, 4.0, 6.0]))
    np.testing.assert_allclose(problem.field.value, 0.5 * np.eye(3))
    assert build(read(Simulation, {"init": "tokens.csv"})).start.points.shape == (3, 3)


@pytest.mark.parametrize("space", ["sphere", "euclidean"])
@pytest.mark.parametrize("init", ["uniform", "gaussian", "clusters"])
def test_every_law_is_seeded(space, init):
    words = {"space": space, "init": init, "n": 20}
    first, again, other = (build(read(Simulation, words | {"seed": seed})).start.points for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_a_saved_configuration_reads_back_the_same(tmp_path):
    config = read(Simulation, {"n": 5, "init": "clusters", "rtol": "1e-9", "movie": True, "out": "here"})
    (tmp_path / "config.toml").write_text(config.to_toml())
    again = read(Simulation, {}, str(tmp_path / "config.toml"))
    assert again == config.model_copy(update={"out": None})


def test_a_stack_of_matrices_is_a_field_of_heads(in_folder):
    rng = np.random.default_rng(0)
    Q, K, V = rng.normal(size=(3, 2, 3, 3))
    np.savez("heads.npz", Q=Q, K=K, V=V)
    problem = build(read(Simulation, {"matrices": "heads.npz", "n": 5}))
    x = np.asarray(problem.start.points)
    expected = 0
    for q, k, v in zip(Q, K, V, strict=True):
        kernel = np.exp((x @ q.T) @ (x @ k.T).T)
        expected = expected + kernel / kernel.sum(1, keepdims=True) @ x @ v.T / 2
    np.testing.assert_allclose(problem.field(0.0, problem.start.points, problem.start), expected, rtol=1e-12)


def test_drawn_weights_depend_on_the_seed_and_the_turn():
    words = {"weights": "goe", "schedule": "resampled", "period": 1, "time": 3, "n": 5}
    one, again, other = (build(read(Simulation, words | {"seed": seed})).field for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.fields.interaction, again.fields.interaction)
    assert not np.allclose(one.fields.interaction, other.fields.interaction)
    assert not np.allclose(one.fields.interaction[0], one.fields.interaction[1])
    assert one.fields.interaction.shape == (3, 3, 3)
    np.testing.assert_allclose(one.jumps, [1.0, 2.0])
