"""Initial laws: seeded, the same for tokens and for limits, and tokens from files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow.runs.command import command
from measureflow.words import InputError
from measureflow.words.initial_laws import SPREAD, blob
from measureflow.words.vocabulary import LAWS, MEASURES

SIMULATE = command("simulate")


def flow(**words):
    return SIMULATE.job(SIMULATE.settings(words)).flow


@pytest.mark.parametrize("space", ["sphere", "euclidean"])
@pytest.mark.parametrize("init", ["uniform", "gaussian", "clusters"])
def test_every_law_is_seeded(space, init):
    words = {"space": space, "init": init, "n": 20}
    first, again, other = (flow(**words, seed=seed).start.points for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_a_law_by_its_height_has_the_mean_of_its_density():
    start = flow(init="tilted", dim=3, n=40_000, seed=3).start
    # The density 1 + z/2 has mean height 1/6; four standard errors of a height of variance 1/3.
    assert abs(float(start.points[:, 0].mean()) - 1 / 6) < 4 * (1 / 3 / 40_000) ** 0.5


def test_a_product_has_the_size_of_its_factors():
    start = flow(space="product", factors="sphere:2 ball:3:1.5", n=6).start
    assert start.points.shape == (6, 5)
    assert float(start.space.spaces[1].radius) == 1.5
    np.testing.assert_allclose(np.linalg.norm(start.points[:, :2], axis=1), 1.0, rtol=1e-14)


SAME_LAW = [("gaussian", "gaussian"), ("mixture", "clusters"), ("mixture", "gaussian"), *(
    (kind, law) for kind in ("circle", "cells", "sphere") for law in LAWS if "own coordinates" not in LAWS[law].traits
)]  # fmt: skip


@pytest.mark.parametrize(("measure", "init"), SAME_LAW)
def test_tokens_are_a_sample_of_the_law_that_the_limit_starts_from(measure, init):
    n = 200_000
    asked = SIMULATE.settings({"measure": measure, "init": init, "seed": 4})
    limit = MEASURES[measure].start(asked)
    words = {"n": n, "init": init, "seed": 4, "space": asked.space, "dim": asked.dim, "beta": 1.0}
    tokens = MEASURES["particles"].start(SIMULATE.settings(words))

    def features(x):  # low moments, which tell these laws apart
        return jnp.concatenate([x, jnp.outer(x, x).ravel(), x**3, x**4])

    f = jax.vmap(features)(tokens.points)
    spread = np.asarray(f.std(0)) / np.sqrt(n)
    # Five standard errors, for some twenty numbers in eleven cases: a failure by chance has probability 1e-4.
    # Tokens of ripples are drawn within cells of a grid: 5e-4 is the square of the width of a cell.
    # Cells see features at their middles: 512 of them are off by the square of the width too, 2e-5.
    bound = 5 * spread + (5e-4 if init == "ripples" else 2e-5 if measure == "cells" else 1e-12)
    assert (np.abs(f.mean(0) - limit.expect(features)) <= bound).all()


@pytest.mark.parametrize("dim", [2, 3])
def test_a_blob_is_the_direction_of_a_normal_vector(dim):
    centre = jnp.eye(dim)[0]
    x = jnp.concatenate([jnp.array([0.3]), jnp.sqrt(1 - 0.09)[None], jnp.zeros(dim - 2)])
    r = np.linspace(0, 5, 200_001)
    gaps = ((r[:, None] * np.asarray(x) - np.asarray(centre)) ** 2).sum(1)
    integrand = r ** (dim - 1) * np.exp(-gaps / (2 * SPREAD**2)) / (2 * np.pi * SPREAD**2) ** (dim / 2)
    # The trapezoidal rule with step 2.5e-5 on a bump of width 0.2: its error is far below rounding of the sum.
    np.testing.assert_allclose(blob(x[None], centre)[0], np.trapezoid(integrand, r), rtol=1e-9)


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("ones.npz", points=np.ones((4, 3)))
    np.savez("nan.npz", points=np.array([[1.0, 0.0], [np.nan, 1.0]]))
    np.savez("weights.npz", points=np.eye(3), weights=np.array([1.0, -1.0, 1.0]))
    np.savez("other.npz", tokens=np.eye(3))
    np.save("flat.npy", np.ones(3))


BAD_FILES = {
    "off the sphere": ({"init": "ones.npz"}, "`--project` puts them there"),
    "NaN": ({"init": "nan.npz", "space": "euclidean"}, "`points` has 1 NaN or infinite"),
    "negative weight": ({"init": "weights.npz"}, "`weights` must be positive; got the value -1"),
    "foreign array": ({"init": "other.npz"}, "must hold `points`"),
    "not rows": ({"init": "flat.npy"}, "tokens as rows"),
    "other count": ({"init": "ones.npz", "n": "7"}, "drop `n`"),
}


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize(("words", "expected"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_tokens_get_a_sentence(words, expected):
    with pytest.raises(InputError) as caught:
        flow(**words)
    (sentence,) = caught.value.sentences
    assert expected in sentence


def test_tokens_of_a_file_may_have_weights_and_positions_and_nothing_else(in_folder):
    np.savez("sequence.npz", points=np.eye(3), positions=[0.1, 0.1, 0.9])
    start = flow(init="sequence.npz", measure="sequence").start
    np.testing.assert_allclose(start.positions, [0.1, 0.1, 0.9])
    np.savez("misspelt.npz", points=np.eye(3), weight=np.ones(3))
    with pytest.raises(InputError, match=r"it holds \['points', 'weight'\]"):
        flow(init="misspelt.npz")
