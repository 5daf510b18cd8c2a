"""The risk of heads as an energy, against its formula and the reference values of the theory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import training
from measureflow.theory import heads as oracle
from measureflow.training import fixtures

RISK = fixtures.f1()
HEADS = fixtures.f1_heads(7)


def heads(points, weights=None):
    return mf.Particles(mf.Euclidean(points.shape[1]), points, weights)


@eqx.filter_jit
def value(energy, mu):
    return energy(mu)


@eqx.filter_jit
def psi(energy, mu, xs):
    return energy.variation(mu, xs)


@eqx.filter_jit
def flow(energy, xs, mu):
    return mf.GradientFlow(energy)(0.0, xs, mu)


def test_reference_values_of_the_first_fixture():
    mu, mean = heads(HEADS[:3]), fixtures.f1("mean")
    # Printed digits of the sheet.
    np.testing.assert_allclose(value(RISK, heads(jnp.zeros((1, 24)))), 4 * np.log(4), rtol=1e-14)
    np.testing.assert_allclose(value(RISK, heads(HEADS[:1])), 5.519949408726793, atol=1e-14)
    np.testing.assert_allclose(value(RISK, mu), 5.553382599143548, atol=1e-14)
    np.testing.assert_allclose(value(mean, mu), 1.388345649785887, atol=1e-14)
    expected = [-0.0063720916883, 0.0598342683959, 0.0333704088812]
    np.testing.assert_allclose(psi(RISK, mu, mu.points), expected, atol=1e-13)
    np.testing.assert_allclose(psi(mean, mu, mu.points), np.array(expected) / 4, atol=1e-13)
    slope = -flow(RISK, HEADS[:1], mu)[0, :3]
    np.testing.assert_allclose(slope, [-0.012224824849, 0.020669980215, 0.000189747788], atol=1e-12)
    row = [0.070224886578, -0.278512413167, 0.001544695481, 0.278114362151]
    np.testing.assert_allclose(eqx.filter_jit(RISK.features)(HEADS[0])[0, 0], row, atol=1e-12)


def test_features_and_risk_are_the_formula_written_out():
    labels = np.argmax(RISK.targets, -1)
    written = jax.jit(lambda th, x: oracle.features(x, *RISK.heads.unfold(th).values(), RISK.unembedding))
    logits = sum(np.stack([written(th, x) for x in RISK.tokens]) / 2 for th in HEADS[:2])
    np.testing.assert_allclose(eqx.filter_jit(RISK.logits)(heads(HEADS[:2])), logits, atol=1e-14)
    written = np.mean([oracle.cross_entropy(y, z) for y, z in zip(labels, logits, strict=True)])
    np.testing.assert_allclose(value(RISK, heads(HEADS[:2])), written, rtol=1e-14)


ENERGIES = {
    "full": (RISK, 24),
    "scores": (fixtures.f2(), 4),
    "values": (RISK.with_heads(training.ValueHeads(np.arange(9.0).reshape(3, 3) / 9, 2)), 12),
    "ridge": (RISK + training.Ridge(0.3, np.linspace(0, 1, 24)), 24),
    "features": (training.FeatureRisk(lambda theta, x: jnp.tanh(x @ theta), np.eye(3), np.ones(3), 3), 3),
    "deep": (training.DeepHeadRisk(fixtures.f2(), 3), 12),
}


@pytest.fixture(params=ENERGIES.values(), ids=ENERGIES.keys())
def energy(request):
    return request.param[0]


@pytest.fixture
def mu(energy):
    size = next(d for e, d in ENERGIES.values() if e is energy)
    points = np.random.default_rng(0).standard_normal((5, size))
    return heads(jnp.asarray(points), jnp.arange(1.0, 6.0))


def test_the_gradient_of_the_variation_is_the_head_gradient_over_its_weight(energy, mu):
    gradient = jax.jit(jax.grad(lambda x: energy(heads(x, mu.weights))))(mu.points)
    moved = flow(energy, mu.points, mu)
    np.testing.assert_allclose(moved, -gradient / mu.weights[:, None], atol=1e-13)


def test_the_variation_is_the_derivative_along_mixtures_and_the_risk_is_convex(energy, mu):
    nu = heads(mu.points[::-1] * 0.5 + 0.1)
    both = jnp.concatenate([mu.points, nu.points])

    def mixture(share):
        return energy(heads(both, jnp.concatenate([(1 - share) * mu.weights, share * nu.weights])))

    slope = nu.weights @ psi(energy, mu, nu.points) - mu.weights @ psi(energy, mu, mu.points)
    derivative = jax.jit(lambda s: jax.jvp(mixture, (s,), (1.0,))[1])
    # Weights must be positive, so the derivative is taken at 1e-9; the curvature is of order 10.
    np.testing.assert_allclose(derivative(1e-9), slope, atol=1e-7)
    if not isinstance(energy, training.DeepHeadRisk):  # several layers compose, and are not convex
        slopes = [float(derivative(s)) for s in (0.01, 0.3, 0.6, 0.9)]
        assert (np.diff(slopes) >= -1e-14).all()


def test_a_batch_is_unbiased_and_shares_one_sample():
    mu = heads(HEADS[:3])
    parts = [eqx.tree_at(lambda r: (r.tokens, r.targets, r.shares), RISK, one) for one in _sequences(RISK)]
    mean = sum(flow(part, mu.points, mu) for part in parts) / len(parts)
    np.testing.assert_allclose(mean, flow(RISK, mu.points, mu), atol=1e-15)
    drawn = RISK.draw(jax.random.key(0), 2)
    assert drawn.tokens.shape == (2, 4, 3)
    known = np.asarray(RISK.tokens)
    assert all((np.asarray(token) == known).all((1, 2)).any() for token in drawn.tokens)
    np.testing.assert_allclose(drawn.shares.sum(), RISK.shares.sum())


def _sequences(risk):
    count = len(risk.tokens)
    return [(risk.tokens[i : i + 1], risk.targets[i : i + 1], count * risk.shares[i : i + 1]) for i in range(count)]


def test_a_hidden_position_counts_for_nothing():
    mask = np.ones((6, 4), bool)
    mask[:, 3] = False
    labels = np.argmax(RISK.targets, -1)
    hidden = training.HeadRisk(RISK.tokens, labels, RISK.unembedding, RISK.heads, mask=mask)
    short = training.HeadRisk(RISK.tokens[:, :3], labels[:, :3], RISK.unembedding, RISK.heads)
    np.testing.assert_allclose(value(hidden, heads(HEADS)), value(short, heads(HEADS)), rtol=1e-14)
    half = training.HeadRisk(RISK.tokens, labels, RISK.unembedding, RISK.heads, mask=mask, reduction="mean")
    np.testing.assert_allclose(3 * value(half, heads(HEADS)), value(short, heads(HEADS)), rtol=1e-14)


def test_homogeneity_and_the_gauge_group():
    mu, theta = heads(HEADS[:3]), HEADS[4]
    score = psi(RISK, mu, theta[None])[0]
    slope = RISK.heads.unfold(-flow(RISK, theta[None], mu)[0])
    blocks = RISK.heads.unfold(theta)
    for name in ("value", "output"):
        np.testing.assert_allclose(jnp.vdot(blocks[name], slope[name]), score, atol=1e-15)
    np.testing.assert_allclose(blocks["query"].T @ slope["query"], slope["key"].T @ blocks["key"], atol=1e-15)
    np.testing.assert_allclose(blocks["value"].T @ slope["value"], slope["output"] @ blocks["output"].T, atol=1e-15)
    tangents = jax.jit(RISK.heads.gauge)(theta)
    moved = jax.jit(jax.vmap(lambda g: jax.jvp(RISK.features, (theta,), (g,))[1]))(tangents)
    assert tangents.shape == (8, 24)
    np.testing.assert_allclose(moved, 0.0, atol=1e-15)


def test_the_variation_is_the_trace_against_the_outer_matrix():
    mu, theta = heads(HEADS[:3]), HEADS[4]
    blocks = jax.tree.map(np.asarray, RISK.heads.unfold(theta))
    outer = eqx.filter_jit(RISK.outer)
    score = np.trace((blocks["value"] @ blocks["output"]).T @ np.asarray(outer(mu, theta)))
    np.testing.assert_allclose(score, psi(RISK, mu, theta[None])[0], atol=1e-15)
    zero = oracle.zero_head_matrix(RISK.tokens, np.argmax(RISK.targets, -1), RISK.unembedding)
    np.testing.assert_allclose(outer(heads(jnp.zeros((1, 24))), jnp.zeros(24)), zero, atol=1e-14)


def test_blocks_of_sequences_change_nothing_and_keep_memory_linear(monkeypatch):
    mu = heads(HEADS)
    whole = value(RISK, mu), flow(RISK, mu.points, mu)
    monkeypatch.setattr("measureflow.training.head_sums.BLOCK", 1000)
    np.testing.assert_allclose(value(RISK, mu), whole[0], rtol=1e-14)
    np.testing.assert_allclose(flow(RISK, mu.points, mu), whole[1], atol=1e-15)


def test_memory_of_the_gradient_is_linear_in_the_heads():
    def temporaries(n):
        field = jax.jit(lambda x: mf.GradientFlow(RISK)(0.0, x, heads(x)))
        return field.lower(jnp.zeros((n, 24))).compile().memory_analysis().temp_size_in_bytes

    # A few arrays of fixed size apart, twice the heads take twice the memory.
    assert temporaries(4096) < 2.2 * temporaries(2048)


def test_single_precision_stays_single_and_agrees():
    mu = mf.Particles(mf.Euclidean(24), HEADS.astype(jnp.float32))
    assert value(RISK, mu).dtype == jnp.float32
    assert flow(RISK, mu.points, mu).dtype == jnp.float32
    np.testing.assert_allclose(
        value(RISK, mu), value(RISK, heads(HEADS)), rtol=1e-6
    )  # a few times the spacing of float32


def test_folding_and_unfolding_are_inverse():
    np.testing.assert_array_equal(RISK.heads.fold(RISK.heads.unfold(HEADS[0])), HEADS[0])
    strengths = RISK.heads.by_block(value=2.0)
    np.testing.assert_array_equal(strengths, np.repeat([0.0, 2.0, 0.0], [12, 6, 6]))
    with pytest.raises(ValueError, match="`keys` is no block"):
        RISK.heads.by_block(keys=1.0)


def test_the_adjoint_of_several_layers_ends_in_the_softmax_residual():
    deep = training.DeepHeadRisk(fixtures.f2(), 3)
    mu = heads(jnp.asarray(np.random.default_rng(1).standard_normal((4, 12))))

    @eqx.filter_jit
    def ends(mu):
        z = deep.states(mu)[-1] @ deep.risk.unembedding
        residual = (jax.nn.softmax(z) - deep.risk.targets) / len(z)
        return deep.adjoints(mu)[-1], residual @ deep.risk.unembedding.T

    np.testing.assert_allclose(*ends(mu), atol=1e-15)


def bad(match, **changes):
    parts = {
        "tokens": RISK.tokens,
        "labels": np.argmax(RISK.targets, -1),
        "unembedding": RISK.unembedding,
        "heads": RISK.heads,
    }
    with pytest.raises(ValueError, match=match):
        training.HeadRisk(**{**parts, **changes})


def test_bad_data_get_a_sentence():
    labels = np.argmax(RISK.targets, -1)
    bad(r"`labels` must lie between 0 and 3.*got 4", labels=np.where(labels == 3, 4, labels))
    bad("got -1", labels=labels - 1)
    bad("sequences of equal length; pad shorter ones", tokens=[[[1.0] * 3] * 4, [[1.0] * 3] * 2])
    bad("NaN", tokens=RISK.tokens.at[0, 0, 0].set(jnp.nan))
    bad("NaN", unembedding=RISK.unembedding.at[0, 0].set(jnp.inf))
    bad("`labels` must have shape", labels=labels[:, :2])
    bad("sum to one", labels=2 * RISK.targets)
    bad("hides every position", mask=np.zeros((6, 4), bool))
    bad("`reduction`", reduction="median")
    bad("`tokens` must have shape", heads=training.FullHeads(5, 1, 1))
    with pytest.raises(ValueError, match="not be negative"):
        training.Ridge(-1.0)
    with pytest.raises(ValueError, match="at least 1"):
        training.FullHeads(3, 0, 2)


def test_no_logits_go_below_the_entropy_of_the_targets():
    laws = jax.nn.softmax(jax.random.normal(jax.random.key(0), (6, 4, 4)))
    soft = training.HeadRisk(RISK.tokens, laws, RISK.unembedding, RISK.heads)
    np.testing.assert_allclose(soft.loss(jnp.log(laws)), soft.floor(), rtol=1e-14)
    assert soft.loss(jnp.log(laws) + 0.1 * jax.random.normal(jax.random.key(1), laws.shape)) > soft.floor()
    assert RISK.floor() == 0.0
