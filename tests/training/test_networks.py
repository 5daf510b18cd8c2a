"""What certifies heads certifies neurons: best responses, proofs, gaps, Frank-Wolfe, stability, weight decay in all of them."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import training
from measureflow.training import fixtures, neuron_landscape
from measureflow.training.landscape import enclose

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(9, 2)), rng.normal(size=9)
FEW = {"starts": 16, "steps": 100}
RELU, TANH = training.Neurons(2), training.Neurons(2, activation=jnp.tanh, bias=True)
RISK = training.NeuronRisk(X, Y, RELU)
BALLS = RELU.balls(output=2.0, weight=1.0)
PROBLEMS = {
    "relu": (RISK, BALLS),
    "tanh with bias": (training.NeuronRisk(X, Y, TANH), TANH.balls(output=2.0, weight=2.0, bias=1.0)),
    "two outputs": (
        training.NeuronRisk(X, rng.normal(size=(9, 2)), training.Neurons(2, 2)),
        training.Neurons(2, 2).balls(output=1.5, weight=1.0),
    ),
    "no output": (
        training.NeuronRisk(X, Y, training.Neurons(2, activation=jnp.sin, output=False)),
        training.Neurons(2, activation=jnp.sin, output=False).balls(weight=2.0),
    ),
}


@functools.cache
def problem(name):
    risk, space = PROBLEMS[name]
    mu = mf.Particles.iid(space, 3, key=1)
    cotangents = risk.cotangents(mu)
    return risk, space, mu, cotangents, risk.landscape(cotangents, risk.family.radii(space))


@pytest.mark.parametrize("activation", [jax.nn.relu, *neuron_landscape.SMOOTH])
def test_activations_keep_to_their_lines(activation):
    u, r = rng.uniform(-4, 4, 300), 10 ** rng.uniform(-3, 1, 300)
    alpha, beta, error = (
        np.asarray(part) for part in neuron_landscape.lines(activation, jnp.asarray(u), jnp.asarray(r))
    )
    inside = u[:, None] + r[:, None] * np.linspace(-1, 1, 101)
    apart = np.abs(np.asarray(activation(jnp.asarray(inside))) - alpha[:, None] * inside - beta[:, None]).max(1)
    assert (apart <= error + 1e-12).all()
    # The lines are no looser than they must be: twice the error is reached somewhere among intervals that matter.
    assert (apart / np.maximum(error, 1e-300))[error > 1e-12].max() > 0.5


@pytest.mark.parametrize("name", PROBLEMS)
def test_heights_are_those_of_neurons_and_roofs_are_above_them(name):
    risk, space, _, cotangents, heights = problem(name)
    k, radii = heights.inputs.shape[1], risk.family.radii(space)

    @jax.jit
    @jax.vmap
    def one(key):
        keys = jax.random.split(key, 3)
        point = heights.project(3 * jax.random.uniform(keys[0], (k,), minval=-1.0))
        h = 10 ** jax.random.uniform(keys[1], (k,), minval=-4.0, maxval=0.0)
        middle = point + h * jax.random.uniform(keys[2], (k,), minval=-1.0)
        neuron = risk.best_output(cotangents, radii, {}, risk.located(point, radii))
        reached = -risk.against(cotangents, neuron[None])[0]
        return neuron, heights.height(point), reached, heights.roof(middle, h) - heights.height(point)

    neurons, height, reached, clearance = one(jax.random.split(jax.random.key(0), 5000))
    space.check(neurons)
    np.testing.assert_allclose(height, reached, atol=1e-13)
    assert clearance.min() > -heights.margin()
    assert np.quantile(clearance, 0.01) < 0.02  # the test has teeth: small boxes have roofs that nearly touch


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_proved_response_is_below_every_neuron(name):
    risk, space, mu, _, heights = problem(name)
    response = training.best_response(risk, mu, space, prove=1e-3, **FEW)
    assert response.proof == "proved-LMO"
    assert response.value - response.bound <= 1.001e-3
    tried = jax.vmap(space.sample)(jax.random.split(jax.random.key(0), 5000))
    assert eqx.filter_jit(risk.variation)(mu, tried).min() >= response.bound
    assert enclose(heights, -1e3, 1e-3, 10**6).value == pytest.approx(-response.value, abs=1e-3)


def test_the_gap_bounds_the_excess_risk_and_closes_at_the_optimum():
    best = training.frank_wolfe(RISK, BALLS, tolerance=1e-7, prove=1e-4, **FEW)
    assert best.gap <= 1e-7 + 1.001e-4
    assert "neurons" in repr(best)
    mu = mf.Particles.iid(BALLS, 5, key=2)
    found = training.duality_gap(RISK, mu, BALLS, prove=1e-4, **FEW)
    assert found.gap >= found.risk - best.risk > 0
    assert found.noun == "neurons"
    assert training.duality_gap(RISK, best.measure, BALLS, prove=1e-4, **FEW).optimal
    assert (training.certificates.violations(RISK, mu, found.offender) < 0).any()


@pytest.mark.parametrize("name", ["heads", "neurons", "frozen scores"])
def test_best_outputs_under_weight_decay_are_the_least_of_all(name):
    """Closed forms against a search that does not know them, in a set where both factors may shorten."""
    frozen = training.ValueHeads(np.random.default_rng(3).normal(size=(3, 3)), 2)
    risk, radii = {
        "heads": (fixtures.f1(), {"query": 2.0, "key": 2.0, "value": 0.7, "output": 1.5}),
        "neurons": (RISK, {"output": 2.0, "weight": 1.0}),
        "frozen scores": (fixtures.f1().with_heads(frozen), {"value": 0.6, "output": 2.0}),
    }[name]
    family, space = risk.family, risk.family.balls(**radii)
    mu = mf.Particles.iid(space, 3, key=0)
    for strength in (0.1, 0.7, 30.0):
        energy = risk + training.Ridge(strength)
        found = training.best_response(energy, mu, space, **FEW)
        assert energy.variation(mu, found.particle[None])[0] == pytest.approx(found.value, abs=1e-13)
        # Strengths that differ by a rounding are not one number on a block, so outputs are searched like all else.
        uneven = training.Ridge(strength * (1 + 1e-15 * np.arange(family.size)))
        assert uneven.by_block(family) is None
        searched = training.best_response(risk + uneven, mu, space, starts=32, steps=400)
        assert found.value <= searched.value + 1e-12
        assert found.value == pytest.approx(searched.value, abs=1e-3)
    assert abs(found.value) < 1e-12  # so much decay keeps everything at zero


def test_frank_wolfe_with_decay_agrees_with_the_ridge_criterion():
    """At the optimum of a ridge on both factors the largest `-Psi` of unit neurons is the decay itself."""
    decay, wide = 0.05, RELU.balls(output=4.0, weight=4.0)
    energy = RISK + training.Ridge(decay)
    best = training.frank_wolfe(energy, wide, tolerance=1e-8, **FEW)
    assert best.gap <= 1e-6
    assert float(energy(best.measure)) == pytest.approx(best.risk, rel=1e-12)
    largest = -training.certificates.ridge_criterion(RISK, best.measure, prove=1e-5, starts=32).value
    assert largest == pytest.approx(decay, rel=1e-3)
    found = training.duality_gap(energy, best.measure, wide, **FEW)
    assert found.gap <= 1e-6
    with pytest.raises(ValueError, match="`prove` is for a risk without weight decay"):
        training.best_response(energy, best.measure, wide, prove=1e-3)


def test_the_critical_decay_of_neurons_is_where_zero_turns():
    smooth = training.NeuronRisk(X, Y, training.Neurons(2, activation=jnp.tanh))
    # grad^2 Psi at zero is the pairing of outputs with weights by sum_s c_s x_s.
    pull = np.linalg.norm(np.einsum("s,sd->d", 2 * (0 - Y) / 9, X))
    assert training.perturbation.critical_decay(smooth) == pytest.approx(pull, rel=1e-12)
    relu = training.perturbation.critical_decay(RISK)
    angles = np.linspace(0, 2 * np.pi, 4001)
    rays = np.maximum(X @ np.stack([np.cos(angles), np.sin(angles)]), 0)
    assert relu == pytest.approx(np.abs((2 * Y / 9) @ rays).max(), rel=1e-5)


def test_relu_neurons_conserve_their_balance():
    start = RELU.gaussian(6, key=0)
    path = mf.evolve(training.Descent(RISK), start, np.linspace(0, 1, 3), mf.RK4(1e-3))
    # Kinks are crossed, where Runge-Kutta is of first order.
    assert training.convergence.balance_drift(RELU, path)[-1] < 1e-3
    assert np.abs(path.final.points - start.points).max() > 0.1
    with pytest.raises(ValueError, match="conserves nothing that is known"):
        training.convergence.balance_drift(training.Neurons(2, activation=jnp.tanh), path)


def test_neurons_at_rest_are_examined():
    smooth = training.NeuronRisk(X, Y, training.Neurons(2, activation=jnp.tanh))
    energy = smooth + training.Ridge(0.1)
    theta = training.perturbation.rest_point(energy, jnp.array([0.5, 0.5, 0.5]))
    mu = mf.Particles(smooth.neurons.space, theta[None])
    found = training.examine(smooth, mu, decay=0.1, starts=8, steps=50)
    assert found.stability is not None
    push = 1e-4 * jnp.asarray(found.stability.direction)
    apart = found.stability.rate == -2 * found.stability.splitting[0]
    observed = training.perturbation.observed_rate(
        energy, theta, jnp.concatenate([push, -push]) if apart else push, (0.5, 1.5)
    )
    assert observed == pytest.approx(found.stability.rate, rel=1e-3)
    assert "neurons" in dict(found.report.rows)["offender"]


def test_samples_of_a_risk_with_decay_have_an_error_that_falls_with_the_batch():
    field = training.Descent(RISK + training.Ridge(0.1))
    mu = RELU.gaussian(8, 0.5, key=0)
    times = np.array([0.0, 0.2])
    one, many = (training.chaos.sample_error(field, mu, 0.01, times, seeds=32, batch=b).risk for b in (1, 16))
    assert 2 < one / many < 8  # four, the root of sixteen, within what 32 seeds tell
    drawn = field.energy.draw(jax.random.key(0), 4)
    assert type(drawn) is type(field.energy)


def test_predictions_are_judged_by_their_loss():
    mu = RELU.gaussian(8, key=0)
    z = np.asarray(RISK.logits(mu))[:, 0]
    assert float(RISK.judged(mu)) == pytest.approx(1 - ((z - Y) ** 2).mean() / Y.var(), rel=1e-12)
    assert RISK.quality == "variance explained"
    assert RISK.baselines().uniform == pytest.approx((Y**2).mean(), rel=1e-12)
    assert RISK.baselines().unigram == pytest.approx(Y.var(), rel=1e-12)
    signs = np.where(Y > 0, 1.0, -1.0)
    logistic = training.NeuronRisk(X, signs, RELU, training.Logistic())
    assert float(logistic.judged(mu)) == pytest.approx(np.mean(z * signs > 0), rel=1e-12)
    share = np.mean(signs > 0)
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert logistic.baselines().unigram == pytest.approx(entropy, rel=1e-12)
    assert logistic.baselines().uniform == pytest.approx(np.log(2), rel=1e-12)


@pytest.mark.parametrize("loss", [training.CrossEntropy(), training.Square(), training.Logistic()])
def test_divergences_are_excess_losses_over_tangents(loss):
    V = 1 if isinstance(loss, training.Logistic) else 3
    y = jnp.ones((4, 1)) if V == 1 else jax.nn.softmax(jnp.asarray(rng.normal(size=(4, V))))
    z, at = (jnp.asarray(rng.normal(size=(4, V))) for _ in range(2))
    tangent = loss(at, y) + jnp.sum(loss.residual(at, y) * (z - at), -1)
    np.testing.assert_allclose(loss.divergence(z, at), loss(z, y) - tangent, atol=1e-14)
    hessian = jnp.abs(jax.vmap(lambda v: loss.curved(z, y, jnp.broadcast_to(v, z.shape)))(jnp.eye(V))).max()
    assert hessian <= loss.smoothness


def test_what_is_no_risk_has_no_certificate():
    mu = mf.Particles.iid(mf.Ball(3, 1.0), 3, key=0)
    with pytest.raises(ValueError, match="`risk` must be a risk that is convex in the measure"):
        training.duality_gap(mf.InteractionEnergy(1.0), mu, mf.Ball(3, 1.0))
    wide = training.Neurons(5, activation=jnp.tanh)
    risk, space = training.NeuronRisk(np.eye(5), np.ones(5), wide), wide.balls(output=1.0, weight=1.0)
    with pytest.raises(ValueError, match="at most 4 inputs, the bias among them"):
        training.best_response(risk, mf.Particles.iid(space, 2, key=0), space, prove=1e-3)
    with pytest.raises(ValueError, match="no blocks that may be scaled"):
        training.certificates.ridge_criterion(risk, mf.Particles.iid(space, 2, key=0))
