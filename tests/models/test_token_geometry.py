"""What is seen of tokens and of attention, against other ways to the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import diagnostics
from measureflow.fields import FactoredAttention
from measureflow.models import attention_maps, attention_statistics, sinks, token_geometry, token_statistics

RNG = np.random.default_rng(3)
N, D = 24, 6


@pytest.fixture(scope="module")
def clouds():
    return jnp.asarray(RNG.normal(size=(2, N, D)) + 0.5)


def isotropic(beta, causal=False):
    """One head with the scores `beta <x, y>`."""
    eye = np.eye(D)[None]
    return FactoredAttention(beta * np.sqrt(D) * eye, eye, eye, eye, causal=causal)


def test_tokens_are_seen_as_by_the_diagnostics_of_measures(clouds):
    beta = jnp.asarray(1.7)
    seen = token_statistics(clouds, jnp.ones((2, N), bool), beta)
    for i, points in enumerate(np.asarray(clouds)):
        rows = points / np.linalg.norm(points, axis=1, keepdims=True)
        mu = mf.Particles(mf.Sphere(D), rows)
        np.testing.assert_allclose(seen.rank[i], diagnostics.effective_rank(mu), rtol=1e-9)
        most = np.exp(1.7) / (2 * 1.7)
        np.testing.assert_allclose(seen.energy[i], mf.InteractionEnergy(1.7)(mu) / most, rtol=1e-9)
        np.testing.assert_allclose(
            seen.histogram[i], diagnostics.overlap_histogram(mu, token_geometry.BINS)[0], atol=1e-12
        )
        pairs = [rows[a] @ rows[b] for a in range(N) for b in range(N) if a != b]
        np.testing.assert_allclose(seen.overlap[i], np.mean(pairs), rtol=1e-9)
        np.testing.assert_allclose(seen.size[i], np.median(np.linalg.norm(points, axis=1)), rtol=1e-12)


def test_tokens_left_out_are_as_if_they_were_not_there(clouds):
    kept = jnp.ones((2, N), bool).at[:, [0, 5]].set(False)
    some = token_statistics(clouds, kept, jnp.asarray(1.0))
    rest = np.delete(np.asarray(clouds), [0, 5], axis=1)
    alone = token_statistics(jnp.asarray(rest), jnp.ones((2, N - 2), bool), jnp.asarray(1.0))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), some, alone)


@pytest.mark.parametrize("causal", [False, True])
def test_isotropic_attention_has_its_own_temperature(clouds, causal):
    rows = clouds / jnp.linalg.norm(clouds, axis=2, keepdims=True)
    for beta in (0.5, 4.0, 30.0):
        found = attention_statistics(isotropic(beta, causal), rows).beta
        # Entropies are interpolated between temperatures a quarter apart in the logarithm.
        np.testing.assert_allclose(found, beta, rtol=0.02)


def test_even_attention_has_full_entropy_and_a_sharp_head_none(clouds):
    even = attention_statistics(isotropic(0.0), clouds)
    np.testing.assert_allclose(even.entropy, 1.0, rtol=1e-12)
    np.testing.assert_allclose(even.beta, 0.0, atol=1e-9)
    np.testing.assert_allclose(even.received, 1 / N, rtol=1e-9)
    first = jnp.zeros((1, N, D)).at[0, 0, 0].set(1.0).at[0, :, 1].set(1.0)
    keys = np.zeros((1, D, D))
    keys[0, 1, 0] = 1.0  # the key of the first token alone is not zero
    dumped = FactoredAttention(200 * np.eye(D)[None], keys, np.eye(D)[None], np.eye(D)[None])
    seen = attention_statistics(dumped, first)
    np.testing.assert_allclose(seen.entropy, 0.0, atol=1e-9)
    np.testing.assert_allclose(seen.received[0], np.eye(N)[0], atol=1e-9)
    assert np.isinf(seen.beta).all()  # no temperature tells the equal tokens behind the first apart
    assert np.array_equal(np.flatnonzero(sinks(first, seen.received)[0]), [0])


def test_what_few_tokens_see_is_no_sink():
    tokens = jnp.asarray(RNG.normal(size=(1, N, D)))
    received = attention_statistics(isotropic(50.0, causal=True), tokens / 3).received
    assert np.asarray(received[0, -(N // 4) :] == 0).all()
    long = tokens.at[0, 7].multiply(20.0)
    assert np.array_equal(np.flatnonzero(sinks(long, None)[0]), [7])


def test_groups_and_who_joined_them():
    def at(*angles):
        return np.array([[[np.cos(a), np.sin(a)] for a in angles]])

    kept = np.array([[True, True, True, False]])
    before = token_geometry.groups(at(0.0, 1.0, 2.0, 2.0), kept, 0.3)
    after = token_geometry.groups(at(0.0, 0.2, 2.0, 0.1), kept, 0.3)
    assert before.tolist() == [[0, 1, 2, -1]]
    assert after.tolist() == [[0, 0, 1, -1]]
    joined, parted = token_geometry.regrouped(before, after)
    np.testing.assert_allclose((joined[0], parted[0]), (1 / 3, 0.0))
    np.testing.assert_allclose(token_geometry.regrouped(after, before).parted, 1 / 3)
    stayed = token_geometry.regrouped(
        np.array([[0, 0, 1]]), np.array([[0, 0, 0]])
    )  # the first two were together before
    np.testing.assert_allclose((stayed.joined[0], stayed.parted[0]), (2 / 3, 0.0))
    np.testing.assert_allclose(token_geometry.between(at(0.0, 0.2, 2.0, 0.1), after), np.cos(1.8), rtol=1e-12)
    assert token_geometry.between(at(0.0, 0.2, 2.0, 0.1), np.zeros((1, 4), int)).tolist() == [-1.0]


def test_outputs_of_equal_heads_are_parallel(clouds):
    W = RNG.normal(size=(3, D, D))
    stack = [np.stack([one, one, two]) for one, two in zip(W, RNG.normal(size=(3, D, D)), strict=True)]
    field = FactoredAttention(*stack, np.stack([np.eye(D), -2 * np.eye(D), np.eye(D)]))
    found = np.asarray(attention_maps.output_cosines(field, clouds))
    np.testing.assert_allclose(found[0, 1], -1.0, rtol=1e-9)
    added = [np.asarray(field.by_head(xs, mf.Particles(mf.Euclidean(D), xs))) for xs in clouds]
    a, b = (np.concatenate([each[h].ravel() for each in added]) for h in (0, 2))
    np.testing.assert_allclose(found[0, 2], a @ b / np.linalg.norm(a) / np.linalg.norm(b), rtol=1e-9)


def test_what_theory_discards(clouds):
    W = RNG.normal(size=(4, 1, D, D))
    assert float(attention_maps.discarded(FactoredAttention(*W), clouds[0])) == 0.0
    biased = FactoredAttention(*W, output_bias=jnp.asarray(RNG.normal(size=D)))
    whole = np.asarray(biased(0.0, clouds[0], mf.Particles(mf.Euclidean(D), clouds[0])))
    share = N * np.sum(np.asarray(biased.output_bias) ** 2) / np.sum(whole**2)
    np.testing.assert_allclose(attention_maps.discarded(biased, clouds[0]), share, rtol=1e-9)
