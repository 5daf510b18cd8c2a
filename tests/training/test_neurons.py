"""Two-layer networks: their risk as an energy, the factor of time, and that it is convex along mixtures alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import training
from measureflow.training import neuron_sums as module

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
FAMILIES = {
    "relu": training.Neurons(3, 2),
    "tanh with bias": training.Neurons(3, 2, activation=jnp.tanh, bias=True),
}
LABELS = {"square": (training.Square(), Y), "cross-entropy": (training.CrossEntropy(), rng.integers(0, 2, 7))}


def risk_of(family="tanh with bias", loss="square"):
    criterion, labels = LABELS[loss]
    return training.NeuronRisk(X, labels, FAMILIES[family], criterion)


def crowd(risk, n=5, seed=1):
    weights = np.random.default_rng(seed).uniform(1, 2, n)
    points = np.random.default_rng(seed).normal(size=(n, risk.neurons.size))
    return mf.Particles(risk.neurons.space, points, weights)


@pytest.mark.parametrize("loss", LABELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_risk_and_its_variation_are_those_of_the_formula(family, loss):
    risk = risk_of(family, loss)
    mu = crowd(risk)
    a, w = np.asarray(mu.points[:, :2]), np.asarray(mu.points[:, 2:5])
    b = np.asarray(mu.points[:, 5]) if risk.neurons.bias else np.zeros(5)
    active = np.maximum(X @ w.T, 0) if family == "relu" else np.tanh(X @ w.T + b)
    z = active @ (np.asarray(mu.weights)[:, None] * a)
    value = ((z - Y) ** 2).sum(1) if loss == "square" else np.log(np.exp(z).sum(1)) - z[np.arange(7), LABELS[loss][1]]
    slope = (
        2 * (z - Y) if loss == "square" else np.exp(z) / np.exp(z).sum(1, keepdims=True) - np.eye(2)[LABELS[loss][1]]
    )
    found = eqx.filter_jit(lambda risk, mu: (risk(mu), risk.variation(mu, mu.points)))(risk, mu)
    np.testing.assert_allclose(found[0], value.mean(), rtol=1e-12)
    np.testing.assert_allclose(found[1], np.einsum("sn,nv,sv->n", active, a, slope) / 7, rtol=1e-12)


def test_the_gradient_of_the_measure_is_n_times_that_of_a_neuron_so_parameters_move_n_times_as_slowly():
    risk, n = risk_of(), 6
    start = mf.Particles.iid(mf.Euclidean(risk.neurons.size), n, key=0)

    def network(points):
        return risk(mf.Particles(risk.neurons.space, points))

    wide = mf.GradientFlow(risk)(0.0, start.points, start)
    np.testing.assert_allclose(wide, -n * jax.grad(network)(start.points), atol=1e-14)

    class Euclid(mf.fields.AbstractField):  # the gradient flow of the parameters
        def __call__(self, t, xs, mu):
            return -jax.grad(network)(mu.points)

    slow = mf.evolve(Euclid(), start, [0.0, n * 0.5], mf.RK4(0.05 * n)).final.points
    fast = mf.evolve(training.Descent(risk, factor=1.0), start, [0.0, 0.5], mf.RK4(0.05)).final.points
    np.testing.assert_allclose(slow, fast, rtol=1e-12)


def test_blocks_of_neurons_change_nothing(monkeypatch):
    risk, mu = risk_of(loss="cross-entropy"), crowd(risk_of(), 40)
    psi = lambda xs: risk.variation(mu, xs).sum()  # noqa: E731
    bent = lambda: jax.jvp(jax.grad(psi), (mu.points,), (mu.points,))[1]  # noqa: E731
    both = lambda: (risk(mu), jax.grad(psi)(mu.points), bent())  # noqa: E731
    whole = both()
    monkeypatch.setattr(module, "BLOCK", 7 * 16)  # sixteen of forty neurons at a time
    for one, other in zip(whole, both(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


def test_batches_have_the_risk_as_their_mean_and_train():
    risk, mu = risk_of(), crowd(risk_of())
    keys = jax.random.split(jax.random.key(0), 4000)
    drawn = jax.jit(jax.vmap(lambda key: risk.draw(key, 2)(mu)))(keys)
    assert abs(float(drawn.mean() - risk(mu))) < 4 * float(drawn.std()) / 4000**0.5
    path = training.sgd(risk, mu, 0.02, 50, key=0, every=50)
    assert risk(path.final) < 0.9 * risk(mu)


def test_a_gaussian_of_neurons_is_the_mean_of_its_sample():
    risk = training.NeuronRisk(X, Y, training.Neurons(3, 2, activation=jnp.sin))
    normal = mf.Gaussian(np.full(5, 0.3), 0.2 * np.eye(5))
    sample = normal.sample(200_000, key=0)
    spread = np.abs(np.asarray(jax.vmap(risk.features)(sample.points[:2000]))).std(0).max()
    assert np.abs(risk.logits(normal) - risk.logits(sample)).max() < 5 * spread / 200_000**0.5


def test_the_gauge_of_relu_changes_no_prediction():
    risk = risk_of("relu")
    theta = crowd(risk).points[0]
    (along,) = risk.neurons.gauge(theta)
    moved = jax.jvp(risk.features, (theta,), (along,))[1]
    kept = jax.jvp(risk.neurons.invariants, (theta,), (along,))[1]
    assert np.abs(moved).max() < 1e-14
    assert np.abs(kept).max() < 1e-14
    assert len(FAMILIES["tanh with bias"].gauge(jnp.ones(6))) == 0


def test_bad_input_gets_a_sentence():
    with pytest.raises(ValueError, match="`inputs` must have shape"):
        training.NeuronRisk(X, Y, training.Neurons(4, 2))
    with pytest.raises(ValueError, match="`reduction` must be 'sum' or 'mean'"):
        training.NeuronRisk(X, Y, FAMILIES["relu"], reduction="none")
    with pytest.raises(ValueError, match="one number; got `outputs` 2"):
        training.Neurons(3, 2, output=False)
