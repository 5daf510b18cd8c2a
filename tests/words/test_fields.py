"""Fields in words: matrices from files and from seeds, schedules and frames."""

import numpy as np
import pytest

from measureflow.runs.command import command
from measureflow.words import InputError

SIMULATE = command("simulate")


def flow(**words):
    return SIMULATE.job(SIMULATE.settings(words)).flow


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("B.npz", B=np.eye(3))
    np.savez("A2.npz", A=np.eye(2))
    np.savez("two.npz", A=np.ones((2, 3, 3)), V=np.eye(3))
    np.savez("rows.npz", Q=np.ones((2, 3)), K=np.ones((3, 3)))
    np.savez("none.npz", A=np.ones((0, 3, 3)))
    np.savez("inf.npz", A=np.full((3, 3), np.inf))


BAD_FILES = {
    "one V for two heads": ({"matrices": "two.npz"}, "one matrix of each kind for each head; got 2 in A, 1 in V"),
    "other rows": ({"matrices": "rows.npz"}, "Q and K are compared, so they have as many rows; got 2 and 3"),
    "no heads": ({"matrices": "none.npz"}, "A must have 3 rows and 3 columns"),
    "infinite matrix": ({"matrices": "inf.npz"}, "A has entries that are NaN or infinite"),
    "foreign matrices": ({"matrices": "B.npz"}, "it holds ['B']"),
    "wrong size": ({"matrices": "A2.npz"}, "A must have 3 rows and 3 columns"),
}


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize(("words", "expected"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_matrices_get_a_sentence(words, expected):
    with pytest.raises(InputError) as caught:
        flow(**words)
    (sentence,) = caught.value.sentences
    assert expected in sentence


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


def test_the_rescaled_frame_is_the_flow_of_tokens_divided_by_their_growth():
    """For V = I the rescaled tokens are `e^{-t} x`."""
    words = {"space": "euclidean", "dim": 2, "n": 6, "beta": 1.0, "time": 1.0, "frames": 2}
    plain, rescaled = (flow(**words, **frame).run().final.points for frame in ({}, {"frame": "rescaled"}))
    np.testing.assert_allclose(rescaled, np.exp(-1) * plain, rtol=1e-6)  # two runs at tolerance 1e-8
