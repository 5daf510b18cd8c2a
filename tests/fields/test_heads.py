"""Heads, masks, positional bias, perceptrons, depth and normalisation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.fields import ensembles

RNG = np.random.default_rng(0)
A, B, V, W = (RNG.normal(size=(3, 3)) for _ in range(4))


@pytest.fixture(scope="module")
def mu():
    return mf.Particles(mf.Euclidean(3), mf.Particles.iid(mf.Euclidean(3), 6, key=1).points, jnp.arange(1.0, 7.0))


@eqx.filter_jit
def at(field, mu, t=0.0):
    return field(t, mu.points, mu)


def test_one_head_is_no_heads(mu):
    plain = mf.SoftmaxAttention(A, V)
    np.testing.assert_allclose(at(mf.MultiHead([plain]), mu), at(plain, mu), rtol=1e-13)


def test_heads_are_projected_and_added(mu):
    values, projections = RNG.normal(size=(2, 2, 3)), RNG.normal(size=(2, 3, 2))
    heads = [mf.SoftmaxAttention(form, value) for form, value in zip((A, B), values, strict=True)]
    expected = sum(np.asarray(at(head, mu)) @ p.T for head, p in zip(heads, projections, strict=True))
    np.testing.assert_allclose(at(mf.MultiHead(heads, projections), mu), expected, rtol=1e-12)


def test_causal_attention_is_attention_on_prefixes(mu):
    for inner in (mf.SoftmaxAttention(A, V), mf.UnnormalisedAttention(A, V), mf.L2Attention(A, B, V)):
        v, prefixes = at(mf.Causal(inner), mu), on_prefixes(inner, mu)
        mass = np.cumsum(mu.weights)[:, None] if isinstance(inner, mf.UnnormalisedAttention) else 1.0
        np.testing.assert_allclose(v, mass * np.asarray(prefixes), rtol=1e-12)


@eqx.filter_jit
def on_prefixes(inner, mu):
    """What each token sees of a measure of the tokens up to it alone."""
    pasts = [mf.Particles(mu.space, mu.points[: i + 1], mu.weights[: i + 1]) for i in range(len(mu.points))]
    return jnp.concatenate([inner(0.0, past.points[-1:], past) for past in pasts])


def test_the_causal_jacobian_is_exactly_zero_above_the_diagonal(mu):
    field = mf.Causal(mf.SoftmaxAttention(A, V))
    J = jax.jit(jax.jacfwd(lambda x: field(0.0, x, mf.Particles(mu.space, x, mu.weights))))(mu.points)
    blocks = np.abs(J).max((1, 3))
    assert (np.triu(blocks, 1) == 0).all()
    assert (np.tril(blocks)[np.tril_indices(6)] > 0).all()


def test_equal_positions_see_each_other(mu):
    inner = mf.SoftmaxAttention(A, V)
    together = mf.Sequence(mu.space, mu.points, np.full(6, 0.5), mu.weights)
    np.testing.assert_allclose(at(mf.Causal(inner), together), at(inner, mu), rtol=1e-12)


def test_a_sequence_in_index_order_is_the_default(mu):
    field = mf.Causal(mf.SoftmaxAttention(A, V), mf.ALiBi(2.0))
    ordered = mf.Sequence(mu.space, mu.points, weights=mu.weights)
    np.testing.assert_array_equal(at(field, ordered), at(field, mu))


def test_alibi_adds_a_penalty_for_distance(mu):
    x, w = np.asarray(mu.points), np.asarray(mu.weights)
    s = np.arange(1, 7) / 6
    scores = x @ A.T @ x.T - 2.0 * (s[:, None] - s[None]) + np.log(w)
    scores[s[None] > s[:, None]] = -np.inf
    kernel = np.exp(scores - scores.max(1, keepdims=True))
    expected = kernel / kernel.sum(1, keepdims=True) @ x @ V.T
    field = mf.Causal(mf.SoftmaxAttention(A, V), mf.ALiBi(2.0))
    np.testing.assert_allclose(at(field, mu), expected, rtol=1e-11)


def test_positions_stay_while_tokens_move(mu):
    start = mf.Sequence(mf.Euclidean(3), mu.points, np.linspace(0, 1, 6))
    path = mf.evolve(mf.Causal(mf.SoftmaxAttention(-np.eye(3), np.eye(3))), start, [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(path.final.positions, start.positions)
    # The first token sees itself alone, so it grows like e^t.
    np.testing.assert_allclose(path.final.points[0], np.e * start.points[0], rtol=1e-7)


def test_a_perceptron_is_its_formula(mu):
    U, b = RNG.normal(size=(5, 3)), RNG.normal(size=5)
    P = RNG.normal(size=(3, 5))
    x = np.asarray(mu.points)
    expected = np.maximum(x @ U.T + b, 0) @ P.T
    np.testing.assert_allclose(at(mf.Perceptron(P, U, b), mu), expected, rtol=1e-12, atol=1e-14)


def test_layers_and_schedules_pick_the_field_of_the_moment(mu):
    fields = [mf.SoftmaxAttention(k * A, V) for k in (1.0, 2.0, 3.0)]
    cases = [
        (mf.Layered(fields), {0.0: 0, 0.99: 0, 1.0: 1, 2.5: 2, 9.0: 2}),
        (mf.Schedule(fields, [0.3, 0.7]), {0.0: 0, 0.3: 1, 0.69: 1, 0.7: 2}),
        (mf.Schedule.periodic(fields, period=3.0, until=7.0), {0.5: 0, 1.5: 1, 2.5: 2, 3.5: 0, 6.5: 0}),
    ]
    for field, turns in cases:
        for t, k in turns.items():
            t = jnp.asarray(t)
            np.testing.assert_allclose(at(field, mu, t), at(fields[k], mu, t), rtol=1e-14)


@pytest.mark.parametrize("solver", [mf.RK4(0.1), mf.Heun(0.005), mf.Adaptive()], ids=["RK4", "Heun", "Adaptive"])
def test_a_schedule_is_solved_as_accurately_as_its_pieces(solver, mu):
    pieces = [mf.SoftmaxAttention(-np.eye(3), V), mf.SoftmaxAttention(-2 * np.eye(3), -V)]
    whole = mf.evolve(mf.Schedule(pieces, [0.37]), mu, [0.0, 1.0], solver)
    tight = mf.Adaptive(1e-12, 1e-13)
    first = mf.evolve(pieces[0], mu, [0.0, 0.37], tight).final
    exact = mf.evolve(pieces[1], first, [0.37, 1.0], tight).final
    # RK4 at 0.1 and Heun at 0.005 have errors near 1e-5 on the pieces; across the jump they would lose an order.
    np.testing.assert_allclose(whole.final.points, exact.points, atol=2e-5)
    assert whole.stats["rejected"] < 10


def test_a_jump_at_the_end_is_not_felt(mu):
    pieces = [mf.SoftmaxAttention(-np.eye(3), V), mf.SoftmaxAttention(-2 * np.eye(3), -V)]
    path = mf.evolve(mf.Layered(pieces), mu, [0.0, 1.0])
    alone = mf.evolve(pieces[0], mu, [0.0, 1.0])
    assert path.stats["rejected"] == alone.stats["rejected"]
    np.testing.assert_allclose(path.final.points, alone.final.points, atol=1e-9)


@pytest.mark.parametrize("ensemble", [ensembles.goe, ensembles.wigner, ensembles.gaussian])
def test_ensembles_have_the_spectrum_of_their_law(ensemble):
    M = np.asarray(ensemble(jax.random.key(0), 400))
    # Semicircle (or quarter circle) laws: largest singular value 2 with fluctuations of order 400^(-2/3) = 0.02.
    assert np.linalg.norm(M, 2) == pytest.approx(2.0, abs=0.1)
    assert np.mean(M**2) * 400 == pytest.approx(1.0, abs=0.02)
    if ensemble is not ensembles.gaussian:
        np.testing.assert_array_equal(M, M.T)


def test_wandering_weights_have_the_law_of_ornstein_and_uhlenbeck():
    times = jnp.array([0.0, 0.5, 8.0])
    W = ensembles.ornstein_uhlenbeck(jax.random.key(0), jnp.ones((200, 200)), times, rate=0.7, spread=2.0)
    np.testing.assert_array_equal(W[0], 1.0)
    # 40 000 entries: standard errors are near 0.01 for the mean and 0.02 for the variance of 4.
    assert W[1].var() == pytest.approx(4 * (1 - np.exp(-0.7)), abs=0.08)
    assert W[2].mean() == pytest.approx(1.0, abs=0.04)
    assert W[2].var() == pytest.approx(4.0, abs=0.12)


SCHEMES = {
    "post": (mf.PostNorm(), lambda r, a: 1.0),
    "pre": (mf.PreNorm(), lambda r, a: r),
    "peri": (mf.PeriNorm(), lambda r, a: r * a),
    "ngpt": (mf.NGPT(0.5), lambda r, a: a / 0.5),
    "sqrt": (mf.SqrtDepth(), lambda r, a: np.sqrt(1 + 3.0)),
    "mix before": (mf.MixNorm(4.0), lambda r, a: 1.0),
    "mix after": (mf.MixNorm(2.0), lambda r, a: r),
}


@pytest.mark.parametrize(("scheme", "scale"), SCHEMES.values(), ids=SCHEMES.keys())
def test_directions_move_at_the_speed_of_their_scheme(scheme, scale, mu):
    inner = mf.SoftmaxAttention(A, V)
    r = np.linalg.norm(mu.points, axis=-1, keepdims=True)
    u = np.asarray(mu.points) / r
    attention = np.asarray(at(inner, mf.Particles(mu.space, u, mu.weights), jnp.asarray(3.0)))
    expected = (attention - (u * attention).sum(-1, keepdims=True) * u) / scale(
        r, np.linalg.norm(attention, axis=-1, keepdims=True)
    )
    v = np.asarray(at(mf.Normalised(inner, scheme), mu, jnp.asarray(3.0)))
    turning = (v - (u * v).sum(-1, keepdims=True) * u) / r
    np.testing.assert_allclose(turning, expected, rtol=1e-11, atol=1e-13)


def test_norms_are_their_formulas():
    x, g = np.array([1.0, -2.0, 4.0]), np.array([1.0, 2.0, 0.5])
    np.testing.assert_allclose(mf.RMSNorm(g)(jnp.asarray(x)), g * x / np.sqrt(np.mean(x**2)), rtol=1e-14)
    expected = g * (x - x.mean()) / x.std() + 0.1
    np.testing.assert_allclose(mf.LayerNorm(g, 0.1)(jnp.asarray(x)), expected, rtol=1e-14)


BAD = {
    "no heads": (lambda: mf.MultiHead([]), "`heads` is empty"),
    "two kinds": (lambda: mf.MultiHead([mf.SoftmaxAttention(A, V), mf.LinearAttention(A, V)]), "`a + b`"),
    "two sizes": (
        lambda: mf.MultiHead([mf.SoftmaxAttention(A, V), mf.SoftmaxAttention(np.eye(2), np.eye(2))]),
        "`heads` must have arrays of one shape",
    ),
    "projections": (
        lambda: mf.MultiHead([mf.SoftmaxAttention(A, V)], np.ones((2, 3, 3))),
        "`projections` must have shape (1, d, k)",
    ),
    "switches": (
        lambda: mf.Schedule([mf.SoftmaxAttention(A, V)] * 2, [0.1, 0.2]),
        "`switches` must have shape (1,); got (2,)",
    ),
    "switches fall": (lambda: mf.Schedule([mf.SoftmaxAttention(A, V)] * 3, [0.2, 0.1]), "increase strictly"),
    "perceptron": (lambda: mf.Perceptron(np.ones((3, 4)), np.ones((5, 3)), np.ones(5)), "`W` must have shape (3, 5)"),
    "position": (lambda: mf.Sequence(mf.Euclidean(1), [[1.0], [2.0]], [0.5, 2.0]), "must lie in [0, 1]"),
    "positions": (lambda: mf.Sequence(mf.Euclidean(1), [[1.0], [2.0]], [0.5]), "one position for each token"),
    "no past": (lambda: mf.Sequence(mf.Euclidean(1), [[1.0], [2.0]], [0.5, 0.7]).seen_from(0.2), "sees no token"),
}


@pytest.mark.parametrize(("make", "words"), BAD.values(), ids=BAD.keys())
def test_bad_parts_get_a_sentence(make, words):
    with pytest.raises(ValueError, match="`") as caught:
        make()
    assert words in str(caught.value)


def test_causal_attention_elsewhere_than_at_the_tokens_is_refused(mu):
    with pytest.raises(ValueError, match="is evaluated at the tokens"):
        mf.Causal(mf.SoftmaxAttention(A, V))(0.0, mu.points[:2], mu)
