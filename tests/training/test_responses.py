"""Best responses: closed forms, searches, and bounds that hold against every head that is tried."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import training
from measureflow.training import fixtures
from measureflow.training.landscape import TURNS, enclose

RISK = fixtures.f1()
BALLS = RISK.heads.balls(query=2.0, key=2.0, value=1.0, output=1.0)
ZERO = mf.Particles(RISK.heads.space, jnp.zeros((1, 24)))
SCORES = fixtures.f2()
FEW = {"starts": 16, "steps": 100}


def plane(key_dim):
    """The example of the sheet: full heads on the data of the second fixture, all radii 3/2."""
    risk = SCORES.with_heads(training.FullHeads(2, key_dim, 1))
    return risk, risk.heads.balls(query=1.5, key=1.5, value=1.5, output=1.5)


@functools.cache
def problem(name):
    risk, space = (SCORES, SCORES.heads.balls(scores=3.0)) if name == "scores" else plane(int(name[-1]))
    mu = mf.Particles.iid(space, 3, key=1)
    cotangents = eqx.filter_jit(risk.cotangents)(mu)
    return risk, space, cotangents, risk.landscape(cotangents, risk.heads.radii(space))


PROBLEMS = ["scores", "full, d_k = 1", "full, d_k = 2"]


def test_the_best_response_to_zero_heads():
    response = training.best_response(RISK, ZERO, BALLS, starts=24, steps=150)
    # Printed digits of the sheet.
    assert response.value == pytest.approx(-1.573700, abs=1e-6)
    assert response.proof == "heuristic-LMO"
    assert response.bound == response.value
    BALLS.check(response.particle[None])
    assert RISK.variation(ZERO, response.particle[None])[0] == pytest.approx(response.value, abs=1e-13)
    blocks = RISK.heads.unfold(response.particle)
    assert np.linalg.matrix_rank(blocks["value"] @ blocks["output"]) == 1


def test_turns_and_reflections_split_singular_values():
    w = np.random.default_rng(0).standard_normal((50, 4))
    a, b = np.linalg.norm(w[:, :2], axis=1), np.linalg.norm(w[:, 2:], axis=1)
    found = np.linalg.svd(np.tensordot(w, TURNS, 1), compute_uv=False)
    np.testing.assert_allclose(found, np.stack([a + b, abs(a - b)], 1), atol=1e-14)
    np.testing.assert_allclose(found.sum(1), 2 * np.maximum(a, b))


@pytest.mark.parametrize("name", PROBLEMS)
def test_heights_are_those_of_heads_in_the_set(name):
    risk, space, cotangents, heights = problem(name)

    @jax.jit
    @jax.vmap
    def both(normal):
        point = heights.project(normal)
        head = risk.located(point, risk.heads.radii(space))
        if name == "scores":
            return head, heights.height(point), -risk.against(cotangents, head[None])[0]
        return head, heights.height(point), 1.5**2 * jnp.linalg.norm(risk.outer_against(cotangents, head), 2)

    heads, height, reached = both(jax.random.normal(jax.random.key(0), (50, 4)))
    space.check(heads)
    np.testing.assert_allclose(height, reached, atol=1e-13)


@pytest.mark.parametrize("name", PROBLEMS)
def test_roofs_are_above_every_point_of_their_box(name):
    *_, heights = problem(name)

    @jax.jit
    @jax.vmap
    def clearance(key):
        one, two, three = jax.random.split(key, 3)
        scale = heights.radii.max()
        point = heights.project(2 * scale * jax.random.uniform(one, (4,), minval=-1.0))
        h = scale * 10 ** jax.random.uniform(two, (4,), minval=-4.0, maxval=0.0)
        middle = point + h * jax.random.uniform(three, (4,), minval=-1.0)
        return heights.roof(middle, h) - heights.height(point)

    found = clearance(jax.random.split(jax.random.key(0), 20_000))
    assert found.min() > -heights.margin()
    # The test has teeth: small boxes have roofs that nearly touch.
    assert np.quantile(found, 0.01) < 0.02


@pytest.mark.parametrize("name", PROBLEMS)
def test_roofs_are_exact_to_second_order(name):
    *_, heights = problem(name)
    # Where all parts are shorter than the radii only the linear part decides, and its largest value is at a corner.
    sizes = np.array([4e-3, 2e-3, 1e-3])

    @jax.jit
    def around(point):
        p = 0.6 * heights.project(point)
        height, slope = jax.value_and_grad(heights.height)(p)
        return height, slope, jax.vmap(lambda h: heights.roof(p, jnp.full(4, h)))(jnp.asarray(sizes))

    height, slope, roofs = map(np.asarray, around(jnp.array([0.4, -0.3, 0.1, 0.5])))
    excess = roofs - height - np.abs(slope).sum() * sizes
    np.testing.assert_allclose(excess[:-1] / excess[1:], 4.0, rtol=0.05)


def test_frozen_scores_have_a_closed_form():
    heads = training.ValueHeads(jnp.asarray(np.random.default_rng(3).standard_normal((3, 3))), 2)
    risk, space = RISK.with_heads(heads), heads.balls(value=1.3, output=0.7)
    mu = mf.Particles.iid(space, 3, key=0)
    response = training.best_response(risk, mu, space)
    assert response.proof == "proved-LMO"
    assert response.bound == response.value
    assert response.value == pytest.approx(-1.3 * 0.7 * np.linalg.norm(risk.outer(mu, response.particle), 2), abs=1e-14)
    # A search that does not know the closed form: one ball for all parameters has it too, at equal shares of the radius.
    shared = mf.Ball(heads.size, 1.1)
    searched = training.best_response(risk, mu, shared, starts=4, steps=300)
    assert searched.proof == "heuristic-LMO"
    assert searched.value == pytest.approx(response.value / (1.3 * 0.7) * 1.1**2 / 2, rel=1e-6)


def test_one_parameter_against_a_fine_grid():
    heads = training.ScoreHeads(jnp.eye(2), jnp.asarray([[[1.0, 0.5], [-0.5, 2.0]]]))
    risk, space = SCORES.with_heads(heads), mf.Ball(1, 20.0)
    mu = mf.Particles(space, jnp.array([[0.3], [-7.0]]))
    response = training.best_response(risk, mu, space, prove=1e-8, **FEW)
    grid = jnp.linspace(-20.0, 20.0, 100_001)[:, None]
    least = float(eqx.filter_jit(risk.variation)(mu, grid).min())
    assert response.proof == "proved-LMO"
    assert response.value - response.bound <= 1.01e-8
    assert response.bound <= least
    # Half a step of the grid, and curvatures of order one.
    assert response.value == pytest.approx(least, abs=1e-7)


@functools.cache
def proof():
    """A proof for four score parameters that several tests look at."""
    space = SCORES.heads.balls(scores=2.0)
    mu = mf.Particles.iid(space, 4, key=5)
    return mu, space, training.best_response(SCORES, mu, space, prove=1e-3, **FEW)


def test_a_proved_bound_holds_for_random_heads():
    mu, space, response = proof()
    assert response.boxes > 1000
    assert 0 < response.value - response.bound <= 1.001e-3
    points = jax.jit(jax.vmap(space.sample))(jax.random.split(jax.random.key(0), 5000))
    assert eqx.filter_jit(SCORES.variation)(mu, points).min() >= response.bound


def test_a_limit_on_boxes_leaves_a_bound_that_holds():
    mu, space, response = proof()
    loose = training.best_response(SCORES, mu, space, prove=1e-3, boxes=500, **FEW)
    assert loose.proof == "proved-LMO"
    assert loose.boxes <= 500
    assert loose.bound < response.bound < response.value == loose.value


def test_branching_finds_what_a_poor_search_misses():
    mu, space, response = proof()
    heights = SCORES.landscape(SCORES.cotangents(mu), SCORES.heads.radii(space))
    found = enclose(heights, -1e3, 1e-3, 10**6)
    assert -found.upper <= response.value
    assert found.value == pytest.approx(-response.value, abs=1e-3)
    poor = training.best_response(SCORES, mu, space, prove=1e-3, starts=1, steps=1)
    assert poor.value - poor.bound <= 1.001e-3
    assert SCORES.variation(mu, poor.particle[None])[0] == pytest.approx(poor.value, abs=1e-13)


def test_certificates_use_the_proved_bound():
    mu, space, response = proof()
    certificate = training.duality_gap(SCORES, mu, space, prove=1e-3, **FEW)
    assert certificate.proof == "proved-LMO"
    on_average = float(mu.weights @ SCORES.variation(mu, mu.points))
    assert certificate.gap == pytest.approx(on_average - response.bound, abs=1e-14)
    assert not certificate.optimal
    best = training.frank_wolfe(SCORES, space, prove=1e-3, tolerance=1e-5, **FEW)
    assert best.proof == "proved-LMO"
    # The tolerances of search and proof add up.
    assert best.gap <= 1e-5 + 1.001e-3
    assert certificate.lower_bound <= best.risk
    assert training.duality_gap(SCORES, best.measure, space, prove=1e-3, **FEW).optimal


def test_what_cannot_be_proved_is_refused():
    with pytest.raises(ValueError, match="got FullHeads of 24 parameters on tokens of 3 coordinates"):
        training.best_response(RISK, ZERO, BALLS, prove=1e-3)
    many = RISK.with_heads(training.ScoreHeads(jnp.eye(3)))
    with pytest.raises(ValueError, match="`ScoreHeads` of at most 4 parameters"):
        training.best_response(many, mf.Particles(mf.Euclidean(9), jnp.zeros((1, 9))), mf.Ball(9, 1.0), prove=1e-3)
    mu, space, _ = proof()
    with pytest.raises(ValueError, match="`prove` must be positive"):
        training.best_response(SCORES, mu, space, prove=0.0)


@pytest.mark.busy
@pytest.mark.parametrize("key_dim", [1, 2])
def test_frank_wolfe_encloses_the_least_risk(key_dim):
    risk, space = plane(key_dim)
    best = training.frank_wolfe(risk, space, prove=1e-3, tolerance=1e-5, starts=32, steps=150)
    assert best.proof == "proved-LMO"
    # The tolerances of search and proof add up.
    assert best.gap <= 1e-5 + 1.001e-3
    if key_dim == 1:
        # The sheet has these from many starts, without proof.
        assert best.lower_bound <= 3.77318 <= best.risk <= 3.77337
