"""Heads by what no change of basis alters, against dense matrices; slopes against dense Jacobians; random doubles."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import models
from measureflow.fields import FactoredAttention, Rotary
from measureflow.models import (
    adversarial_cloud,
    bound_terms,
    effective_head_count,
    head_cosines,
    head_statistics,
    lipschitz,
    null_models,
)
from measureflow.models.architectures import build
from measureflow.theory import bounds

RNG = np.random.default_rng(5)
H, G, K, D = 4, 2, 4, 9


def heads(**options):
    shapes = (H, K, D), (G, K, D), (G, K, D), (H, D, K)
    return FactoredAttention(*(RNG.normal(size=shape) / np.sqrt(D) for shape in shapes), **options)


def dense(one):
    query, key, value, output = (np.asarray(part) for part in one.each())
    return np.einsum("hke,hkd->hed", key, query), output @ value


@pytest.fixture(scope="module")
def layer():
    return heads()


def test_heads_of_a_group_share_their_keys(layer):
    x = RNG.normal(size=(5, D))
    mu = mf.Particles(mf.Euclidean(D), x)
    whole = layer.by_head(mu.points, mu)
    for h in range(H):
        np.testing.assert_allclose(layer.head(h)(0.0, mu.points, mu), whole[h], rtol=1e-10, atol=1e-12)
    A, U = dense(layer)
    for h in range(H):
        theirs = mf.SoftmaxAttention(A[h], U[h])(0.0, mu.points, mu)
        np.testing.assert_allclose(theirs, whole[h], rtol=1e-10, atol=1e-12)


def test_heads_look_as_their_dense_matrices_do(layer):
    found, (A, U) = head_statistics(layer), dense(layer)
    for h in range(H):
        np.testing.assert_allclose(found.score_norm[h], np.linalg.norm(A[h], 2), rtol=1e-9)
        np.testing.assert_allclose(found.value_norm[h], np.linalg.norm(U[h], 2), rtol=1e-9)
        part = np.linalg.norm((A[h] + A[h].T) / 2) ** 2 / np.linalg.norm(A[h]) ** 2
        np.testing.assert_allclose(found.symmetric[h], part, rtol=1e-9)
        cosine = np.sum(A[h] * U[h]) / np.linalg.norm(A[h]) / np.linalg.norm(U[h])
        np.testing.assert_allclose(found.aligned[h], cosine, rtol=1e-9)
        np.testing.assert_allclose(found.like_identity[h], np.trace(U[h]) / np.linalg.norm(U[h]) / 3, rtol=1e-9)
        values = np.linalg.eigvals(A[h])
        real = values.real[np.abs(values.imag) < 1e-9]
        np.testing.assert_allclose((found.lowest[h], found.highest[h]), (real.min(), real.max()), atol=1e-9)
        gamma = max(-found.lowest[h], found.highest[h] / 8)
        np.testing.assert_allclose(gamma, bounds.temptation(np.where(np.abs(A[h]) > 0, A[h], 0)), atol=1e-9)


def test_leading_eigenvalues_make_good_triples():
    def head(U, A):
        eye = np.eye(2)[None]
        return FactoredAttention(np.sqrt(2) * A[None], eye, U[None], eye)

    good = head_statistics(head(np.diag([2.0, 1.0]), np.diag([3.0, -5.0])))
    np.testing.assert_allclose((good.lead[0], good.lead_score[0]), (2.0, 3.0), rtol=1e-12)
    assert good.good_triple[0]
    for U, A in (
        (np.diag([2.0, 1.0]), np.diag([-3.0, 5.0])),  # the vector scores itself negatively
        (np.diag([-2.0, 1.0]), np.eye(2)),  # it leads, but is negative
        (np.diag([1.0, -1.0]), np.eye(2)),  # of one modulus with another
        (np.array([[0.0, -1.0], [1.0, 0.0]]), np.eye(2)),  # not real
    ):
        assert not head_statistics(head(U, A)).good_triple[0]


def test_no_change_of_basis_alters_heads(layer):
    M, N = (np.linalg.qr(RNG.normal(size=(G, K, K)))[0] * np.linspace(0.5, 2.0, K) for _ in range(2))
    each = np.repeat(np.linalg.inv(M).swapaxes(1, 2), H // G, axis=0)
    outputs = np.repeat(np.linalg.inv(N), H // G, axis=0)
    other = dataclasses.replace(
        layer, query=each @ layer.query, key=M @ layer.key, value=N @ layer.value, output=layer.output @ outputs
    )
    was, now = head_statistics(layer), head_statistics(other)
    for name in was._fields:
        if not name.endswith("defect"):
            np.testing.assert_allclose(getattr(now, name), getattr(was, name), rtol=1e-6, err_msg=name)
    np.testing.assert_allclose(head_cosines([layer, other])[:H, H:].diagonal(), 1.0, rtol=1e-5)  # in float32
    assert np.abs(now.query_defect - was.query_defect).max() > 1e-3


def test_cosines_are_those_of_dense_matrices(layer):
    other = heads()
    found = head_cosines([layer, other])
    A, U = (np.concatenate(pair).reshape(2 * H, -1) for pair in zip(dense(layer), dense(other), strict=True))
    A, U = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (A, U))
    np.testing.assert_allclose(found, (A @ A.T + U @ U.T) / 2, atol=1e-6)  # in float32


def test_atoms_count_different_heads():
    np.testing.assert_allclose(effective_head_count(np.eye(5)), 5.0)
    np.testing.assert_allclose(effective_head_count(np.ones((5, 5))), 1.0, rtol=1e-6)
    np.testing.assert_allclose(effective_head_count(np.kron(np.eye(2), np.ones((3, 3)))), 2.0, rtol=1e-6)


def test_balanced_heads_have_no_defect():
    W = RNG.normal(size=(2, K, D))
    turned = W @ np.linalg.qr(RNG.normal(size=(D, D)))[0]
    found = head_statistics(FactoredAttention(W, turned, turned, W.swapaxes(1, 2)))
    np.testing.assert_allclose(found.query_defect, 0.0, atol=1e-12)
    np.testing.assert_allclose(found.value_defect, 0.0, atol=1e-12)
    small = head_statistics(FactoredAttention(W, 1e-6 * turned, turned, 1e-6 * W.swapaxes(1, 2)))
    np.testing.assert_allclose((small.query_defect, small.value_defect), 1.0, rtol=1e-9)


def jacobian(field, x):
    def velocity(x):
        return field(0.0, x, mf.Particles(mf.Euclidean(D), x))

    return np.asarray(jax.jacobian(velocity)(x)).reshape(x.size, x.size)


@pytest.mark.parametrize("causal", [False, True])
def test_slopes_are_norms_of_jacobians_and_stay_below_their_bound(causal):
    biases = dict(query_bias=jnp.asarray(RNG.normal(size=(H, K))), key_bias=jnp.asarray(RNG.normal(size=(G, K))))
    for options in ({}, biases, {"rotary": Rotary.of_base(K)}, {**biases, "rotary": Rotary.of_base(K)}):
        field = heads(causal=causal, **options)
        x = jnp.asarray(2 * RNG.normal(size=(6, D)))
        norm = np.linalg.norm(jacobian(field, x), 2)
        np.testing.assert_allclose(lipschitz.slope(field, x).value, norm, rtol=1e-5)
        known = bound_terms(field, x)
        bound = float(np.sum(bounds.finite_lipschitz(6, known.value, known.score, known.radius)))
        assert norm <= bound
        np.testing.assert_allclose(known.value, head_statistics(field).value_norm, rtol=1e-9)
    assert bound_terms(heads(query_norm=mf.RMSNorm(jnp.ones(K))), x) is None


def test_with_biases_a_head_is_one_without_for_longer_tokens():
    a, b = (jnp.asarray(RNG.normal(size=(1, K))) for _ in range(2))
    W = RNG.normal(size=(3, 1, K, D))
    field = FactoredAttention(*W, RNG.normal(size=(1, D, K)), query_bias=a, key_bias=b)
    x = jnp.asarray(RNG.normal(size=(7, D)))
    known = bound_terms(field, x)
    longer = [np.concatenate([part[0], bias[0][:, None]], 1) for part, bias in ((W[0], a), (W[1], b))]
    np.testing.assert_allclose(known.score, np.linalg.norm(longer[1].T @ longer[0], 2) / np.sqrt(K), rtol=1e-9)
    np.testing.assert_allclose(known.radius, np.sqrt(np.linalg.norm(x, axis=1).max() ** 2 + 1), rtol=1e-9)
    scores = np.c_[x, np.ones(7)] @ longer[0].T @ longer[1] @ np.c_[x, np.ones(7)].T / np.sqrt(K)
    np.testing.assert_allclose(field.scores(x)[0], scores, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scales", [(3.0, 0.5), (-3.0, -0.5), (3.0, -0.5)])
def test_the_worst_cloud_is_as_steep_as_theory_promises(scales):
    # Of 3 and -1/2 the second tempts more: a token across the origin is twice as far as one behind half the others.
    query = np.eye(K, D)[None] * np.array([*scales, 0.2, 0.1])[None, :, None]
    W = np.eye(K, D)[None], RNG.normal(size=(1, K, D)), RNG.normal(size=(1, D, K))
    field = FactoredAttention(query, *W)
    found = adversarial_cloud(field)
    A, U = (part[0] for part in dense(field))
    np.testing.assert_allclose(
        found.gain, np.linalg.norm(U @ (np.eye(D) - np.outer(found.along, found.along)), 2), rtol=1e-9
    )
    np.testing.assert_allclose(found.temptation, bounds.temptation(A), rtol=1e-9)
    slopes = []
    for n in (8, 32):
        cloud = jnp.asarray(found.tokens(n, 4.0))
        assert np.linalg.norm(cloud, axis=1).max() <= 4.0 + 1e-9
        bare = lipschitz.bilinear_head(field, found.head)
        slopes.append(float(lipschitz.slope(bare, cloud).value))
        sure = found.gain * float(bounds.adversarial_lipschitz(n, found.temptation, 4.0))
        assert slopes[-1] >= sure * (1 - 1e-3)
        assert slopes[-1] <= 1.6 * sure  # nearly all of it: the others follow one token
    np.testing.assert_allclose(slopes[1] / slopes[0], np.sqrt(31 / 7), rtol=0.1)


def test_places_are_those_of_the_longer_text():
    field = heads(rotary=Rotary.of_base(K), slopes=jnp.asarray(RNG.uniform(size=H)), causal=True)
    x = jnp.asarray(RNG.normal(size=(9, D)))
    some = lipschitz.spread_places(4, 9)
    assert some.tolist() == [0, 3, 5, 8]
    part = lipschitz.at_places(field, some).scores(x[some])
    np.testing.assert_allclose(part, field.scores(x)[:, some][:, :, some], rtol=1e-9)
    with pytest.raises(ValueError, match="`places`"):
        lipschitz.at_places(field, some).scores(x)
    assert lipschitz.with_mask(field, False).causal is False


@pytest.mark.parametrize("kind", ["bert", "qwen"])
def test_random_doubles_have_the_spectrum_of_the_model(kind, made):
    model = build(*made.kinds[kind]())
    double = null_models.with_random_weights(model, jax.random.key(0))
    for k in range(model.depth):
        was, now = head_statistics(model.attention(k)), head_statistics(double.attention(k))
        np.testing.assert_allclose(now.score_norm, was.score_norm, rtol=1e-4)  # in float32
        np.testing.assert_allclose(now.value_norm, was.value_norm, rtol=1e-4)
        assert np.abs(now.aligned - was.aligned).max() > 1e-2
        ours, theirs = (one.layer(k).steps[1].field for one in (model, double))
        for part in ("up", "down", *(["gate"] if kind == "qwen" else [])):
            spectra = [np.linalg.svd(np.asarray(getattr(one, part)), compute_uv=False) for one in (ours, theirs)]
            np.testing.assert_allclose(*spectra, rtol=1e-4)
            assert np.abs(np.asarray(getattr(ours, part)) - np.asarray(getattr(theirs, part))).max() > 1e-2
    assert double.embedding.table is model.embedding.table


def test_what_text_would_be_by_chance():
    windows = np.arange(40).reshape(4, 10)
    rng = np.random.default_rng(0)
    mixed, chance = (
        null_models.shuffled_tokens(windows, rng, (1, 2)),
        null_models.random_tokens(windows, rng, 7, (1, 2)),
    )
    for found in (mixed, chance):
        assert np.array_equal(found[:, 0], windows[:, 0])
        assert np.array_equal(found[:, 8:], windows[:, 8:])
    assert np.array_equal(np.sort(mixed[:, 1:8].ravel()), np.sort(windows[:, 1:8].ravel()))
    assert not np.array_equal(mixed, windows)
    assert chance[:, 1:8].max() < 7


def test_one_layer_for_ever(made):
    model = build(*made.gpt2())
    mu = model.start(made.ids)
    depths = np.array([0.0, 1.0, 2.0, 4.0])
    found = models.repeated_layer(model, 1, mu.points, depths, 0.4)
    layer = jax.jit(lambda at: at + model.sublayer(1)(0.0, at, model.particles(at)))
    at, overlaps = mu.points, []
    for step in range(5):
        rows = np.asarray(at) / np.linalg.norm(at, axis=1, keepdims=True).astype(float)
        if step in depths:
            overlaps.append((np.sum(rows @ rows.T) - len(rows)) / len(rows) / (len(rows) - 1))
        at = layer(at)
    np.testing.assert_allclose(found.overlap_by_layers, overlaps, rtol=1e-4)  # in float32
    assert found.overlap[0] == found.overlap_by_layers[0]
    assert found.error < 1e-2
    assert (found.groups >= 1).all()


def test_when_tokens_have_come_together():
    depths, overlaps = np.array([0.0, 2.0, 4.0, 6.0]), np.array([0.5, 0.95, 0.8, 1.0])
    assert models.extended_depth.settling_depth(depths, overlaps, 0.9) == pytest.approx(5.0)
    assert models.extended_depth.settling_depth(depths, overlaps, 0.5) == 0.0
    assert np.isinf(models.extended_depth.settling_depth(depths, overlaps[::-1], 0.9))
