"""One schema judges words and files, and says everything that is wrong at once."""

import jax
import numpy as np
import pytest

import measureflow as mf
from measureflow.runs import session
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
    "a truth for a number": ({"n": True}, "`n` must be a number or a word, not true"),
    "a seed beyond 63 bits": ({"seed": 2**63}, "`seed`: input should be less than"),
    "no name of a file": ({"matrices": "a\0b"}, "`matrices` must not hold a NUL character"),
    "too many tokens": ({"n": 10**12}, "TB of memory"),
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
    np.savez("nan.npz", points=np.array([[1.0, 0.0], [np.nan, 1.0]]))
    np.savez("weights.npz", points=np.eye(3), weights=np.array([1.0, -1.0, 1.0]))
    np.savez("other.npz", tokens=np.eye(3))
    np.save("flat.npy", np.ones(3))
    np.savez("B.npz", B=np.eye(3))
    np.savez("A2.npz", A=np.eye(2))
    np.savez("zero.npz", points=np.zeros((2, 3)))
    np.savez("flat.npz", mean=np.zeros(2), cov=np.diag([1.0, 0.0]))
    (tmp_path / "empty.csv").write_text("")
    np.savez("complex.npz", points=np.eye(3) * 1j)
    np.savez("two.npz", A=np.ones((2, 3, 3)), V=np.eye(3))
    np.savez("rows.npz", Q=np.ones((2, 3)), K=np.ones((3, 3)))
    np.savez("none.npz", A=np.ones((0, 3, 3)))
    np.savez("inf.npz", A=np.full((3, 3), np.inf))
    np.savez("QK.npz", Q=np.diag([1.0, 2.0, 3.0]), K=2 * np.eye(3), V=0.5 * np.eye(3))
    (tmp_path / "words.csv").write_text("a,b\n1,2\n")
    (tmp_path / "ugly.toml").write_text("n = = 3")
    (tmp_path / "good.toml").write_text('n = 7\nattention = "softmux"\n')
    np.savetxt(tmp_path / "tokens.csv", np.eye(3), delimiter=",")


BAD_FILES = {
    "no numbers at all": ({"init": "empty.csv"}, "Cannot read numbers from 'empty.csv'"),
    "no direction": ({"init": "zero.npz", "space": "euclidean", "norm": "pre"}, "token 0 is zero, which has none"),
    "noise on a line": (
        {"init": "flat.npz", "measure": "gaussian", "noise": 0.1, "solver": "euler", "dt": 0.1},
        "`cov` that is not singular",
    ),
    "complex tokens": ({"init": "complex.npz"}, "points is complex and would lose its imaginary part"),
    "one V for two heads": ({"matrices": "two.npz"}, "one matrix of each kind for each head; got 2 in A, 1 in V"),
    "other rows": ({"matrices": "rows.npz"}, "Q and K are compared, so they have as many rows; got 2 and 3"),
    "no heads": ({"matrices": "none.npz"}, "A must have 3 rows and 3 columns"),
    "infinite matrix": ({"matrices": "inf.npz"}, "A has entries that are NaN or infinite"),
    "off the sphere": ({"init": "ones.npz"}, "`--project` puts them there"),
    "NaN": ({"init": "nan.npz", "space": "euclidean"}, "`points` has 1 NaN or infinite"),
    "negative weight": ({"init": "weights.npz"}, "`weights` must be positive; got the value -1"),
    "foreign array": ({"init": "other.npz"}, "must hold `points`"),
    "not rows": ({"init": "flat.npy"}, "tokens as rows"),
    "other count": ({"init": "ones.npz", "n": "7"}, "drop `n`"),
    "no numbers": ({"init": "words.csv"}, "Cannot read numbers from 'words.csv'"),
    "foreign matrices": ({"matrices": "B.npz"}, "it holds ['B']"),
    "wrong size": ({"matrices": "A2.npz"}, "A must have 3 rows and 3 columns"),
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
    config = SIMULATE.settings({"attention": "unnormalised"}, "good.toml")
    assert (config.n, config.attention) == (7, "unnormalised")


@pytest.mark.usefixtures("in_folder")
def test_files_of_tokens_and_matrices_become_the_problem():
    problem = flow(init="ones.npz", project=True, matrices="QK.npz")
    np.testing.assert_allclose(problem.start.points, 3**-0.5, rtol=1e-15)
    np.testing.assert_allclose(problem.field.interaction, np.diag([2.0, 4.0, 6.0]))
    np.testing.assert_allclose(problem.field.value, 0.5 * np.eye(3))
    assert flow(init="tokens.csv").start.points.shape == (3, 3)


@pytest.mark.parametrize("space", ["sphere", "euclidean"])
@pytest.mark.parametrize("init", ["uniform", "gaussian", "clusters"])
def test_every_law_is_seeded(space, init):
    words = {"space": space, "init": init, "n": 20}
    first, again, other = (flow(**words, seed=seed).start.points for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_a_saved_configuration_reads_back_the_same(tmp_path):
    config = SIMULATE.settings({"n": 5, "init": "clusters", "rtol": "1e-9", "movie": True, "out": "here"})
    (tmp_path / "config.toml").write_text(config.to_toml())
    again = SIMULATE.settings({}, str(tmp_path / "config.toml"))
    assert again == config.model_copy(update={"out": None})


def test_a_stack_of_matrices_is_a_field_of_heads(in_folder):
    rng = np.random.default_rng(0)
    Q, K, V = rng.normal(size=(3, 2, 3, 3))
    np.savez("heads.npz", Q=Q, K=K, V=V)
    problem = flow(matrices="heads.npz", n=5)
    x = np.asarray(problem.start.points)
    expected = 0
    for q, k, v in zip(Q, K, V, strict=True):
        kernel = np.exp((x @ q.T) @ (x @ k.T).T)
        expected = expected + kernel / kernel.sum(1, keepdims=True) @ x @ v.T / 2
    np.testing.assert_allclose(problem.field(0.0, problem.start.points, problem.start), expected, rtol=1e-12)


def test_l2_attention_has_the_queries_and_keys_of_its_file(in_folder):
    rng = np.random.default_rng(1)
    Q, K, V = rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), rng.normal(size=(3, 3))
    np.savez("head.npz", Q=Q, K=K, V=V)
    problem = flow(matrices="head.npz", attention="l2", n=5, space="euclidean")
    x = np.asarray(problem.start.points)
    kernel = np.exp(-(((x @ Q.T)[:, None] - (x @ K.T)[None]) ** 2).sum(-1))
    expected = kernel / kernel.sum(1, keepdims=True) @ x @ V.T
    np.testing.assert_allclose(problem.field(0.0, problem.start.points, problem.start), expected, rtol=1e-12)


def test_drawn_weights_depend_on_the_seed_and_the_turn():
    words = {"weights": "goe", "schedule": "resampled", "period": 1, "time": 3, "n": 5}
    one, again, other = (flow(**words, seed=seed).field for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.fields.interaction, again.fields.interaction)
    assert not np.allclose(one.fields.interaction, other.fields.interaction)
    assert not np.allclose(one.fields.interaction[0], one.fields.interaction[1])
    assert one.fields.interaction.shape == (3, 3, 3)
    np.testing.assert_allclose(one.jumps, [1.0, 2.0])


def test_tokens_of_a_file_may_have_weights_and_positions_and_nothing_else(in_folder):
    np.savez("sequence.npz", points=np.eye(3), positions=[0.1, 0.1, 0.9])
    start = flow(init="sequence.npz", measure="sequence").start
    np.testing.assert_allclose(start.positions, [0.1, 0.1, 0.9])
    np.savez("misspelt.npz", points=np.eye(3), weight=np.ones(3))
    assert "it holds ['points', 'weight']" in complaints({"init": "misspelt.npz"})[0]


def test_a_product_has_the_size_of_its_factors():
    start = flow(space="product", factors="sphere:2 ball:3:1.5", n=6).start
    assert start.points.shape == (6, 5)
    assert float(start.space.spaces[1].radius) == 1.5
    np.testing.assert_allclose(np.linalg.norm(start.points[:, :2], axis=1), 1.0, rtol=1e-14)


def test_the_rescaled_frame_is_the_flow_of_tokens_divided_by_their_growth():
    """For V = I the rescaled tokens are `e^{-t} x`."""
    words = {"space": "euclidean", "dim": 2, "n": 6, "beta": 1.0, "time": 1.0, "frames": 2}
    plain, rescaled = (flow(**words, **frame).run().final.points for frame in ({}, {"frame": "rescaled"}))
    np.testing.assert_allclose(rescaled, np.exp(-1) * plain, rtol=1e-6)  # two runs at tolerance 1e-8


def test_a_law_by_its_height_has_the_mean_of_its_density():
    start = flow(init="tilted", dim=3, n=40_000, seed=3).start
    # The density 1 + z/2 has mean height 1/6; four standard errors of a height of variance 1/3.
    assert abs(float(start.points[:, 0].mean()) - 1 / 6) < 4 * (1 / 3 / 40_000) ** 0.5


def test_one_seed_gives_the_same_tokens_in_both_precisions_and_float32_is_told(tmp_path):
    words = {"n": 6, "time": 0.1, "frames": 2, "verify": False}
    double = mf.runs.run("simulate", out=str(tmp_path / "double"), **words)
    session.warn_once.cache_clear()
    with jax.enable_x64(False), pytest.warns(UserWarning, match="computes in float32"):
        single = mf.runs.run("simulate", out=str(tmp_path / "single"), **words)
    assert (single.info["precision"], double.info["precision"]) == ("float32", "float64")
    assert single.points.dtype == np.float32
    # Rounding to float32 at the start; at the end its tolerance of 1e-5.
    np.testing.assert_allclose(single.points[0], double.points[0], atol=1e-7)
    np.testing.assert_allclose(single.points[-1], double.points[-1], atol=1e-4)


def test_the_command_line_gives_up_when_the_library_does():
    assert flow(n=3).solver.most_steps == mf.Adaptive().most_steps
