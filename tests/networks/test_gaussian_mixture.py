"""Gaussian-mixture layers: closed forms of neurons with normal parameters, and descent as the Bures-Wasserstein flow."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import measureflow as mf
from measureflow import networks, training
from measureflow.networks import Diagonal, Full, GaussianMixtureLayer, Isotropic, LowRank
from measureflow.training import hidden

CLOSED = {
    "relu": training.ReLU(),
    "squared relu": training.SquaredReLU(),
    "leaky relu": training.LeakyReLU(0.2),
    "erf": training.Erf(),
    "probit": training.Probit(),
    "gelu": training.GELU(),
    "sine": training.Sine(),
    "cosine": training.Cosine(),
    "exponential": training.Exponential(),
}
OTHERS = {"sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh, "softplus": jax.nn.softplus}
FAMILIES = {"full": Full(), "low rank": LowRank(2), "diagonal": Diagonal(), "isotropic": Isotropic()}
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(10, 2)), rng.normal(size=10)
PLACES, VARIANCES = rng.normal(size=20), np.append(rng.uniform(0.01, 4, 19), 0.0)


def layer_of(family="full", activation=None, **options):
    activation = training.ReLU() if activation is None else activation
    choices = dict(key=1, bias=True, spread=0.7, covariances=FAMILIES[family]) | options
    layer = GaussianMixtureLayer.normal(2, 1, 3, activation=activation, **choices)
    bent = jax.random.normal(jax.random.key(5), layer.spreads.shape) / 5
    return eqx.tree_at(lambda one: one.spreads, layer, layer.spreads + bent)


def risk_of(layer):
    return training.NeuronRisk(X, Y, layer.neurons)


@eqx.filter_jit
def plain_gradient(layer):
    risk = risk_of(layer)
    return eqx.filter_grad(lambda one: risk.loss(jax.vmap(one)(risk.inputs)))(layer)


def dense_average(function, m, v):
    """The mean over a normal law by Gauss-Legendre rules on forty panels on either side of zero, where kinks are."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    places = ((np.arange(40)[:, None] + (nodes[None] + 1) / 2) / 40).ravel()
    m, s, shares = m[:, None], np.sqrt(v)[:, None], np.tile(weights / 80, 40)
    low, high = m - 14 * s, m + 14 * s
    middle, total = np.clip(0.0, low, high), 0.0
    for start, length in ((low, middle - low), (middle, high - middle)):
        z = start + length * places[None]
        total = total + (np.asarray(function(jnp.asarray(z))) * norm.pdf(z, m, s) * length) @ shares
    return total


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_are_the_averages_over_a_normal_law(name):
    law, (m, v) = CLOSED[name], (jnp.asarray(PLACES), jnp.asarray(VARIANCES))

    @jax.jit
    def forms(m, v):
        slope = jax.vmap(jax.grad(law))
        gradients = jax.grad(lambda m, v: law.average(m, v).sum() + law.slope(m, v).sum(), (0, 1))(m, v)
        return law.average(m, v), law.slope(m, v), jax.vmap(jax.grad(law.average))(m, v), law(m), slope(m), gradients

    average, mean_slope, derived, value, slope, gradients = forms(m, v)
    wide = np.asarray(v) > 0
    np.testing.assert_allclose(average[wide], dense_average(law, PLACES[wide], VARIANCES[wide]), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(mean_slope, derived, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(average[~wide], value[~wide], rtol=1e-14)
    np.testing.assert_allclose(mean_slope[~wide], slope[~wide], rtol=1e-14)
    assert all(np.isfinite(one).all() for one in gradients)


@pytest.mark.parametrize("name", CLOSED)
def test_averages_obey_the_heat_equation(name):
    law = CLOSED[name]
    inside = jax.jit(jax.vmap(jax.grad(law.average, 1)))(jnp.asarray(PLACES[:19]), jnp.asarray(VARIANCES[:19]))
    bend = jax.jit(jax.vmap(jax.grad(law.slope)))(jnp.asarray(PLACES[:19]), jnp.asarray(VARIANCES[:19]))
    np.testing.assert_allclose(inside, bend / 2, rtol=1e-10, atol=1e-14)


def test_gauss_hermite_agrees_with_closed_forms_where_there_are_both():
    m, v = jnp.asarray(PLACES), jnp.asarray(VARIANCES)
    for law, function in (
        (training.Sine(), jnp.sin),
        (training.Exponential(), jnp.exp),
        (training.GELU(), training.GELU()),
    ):
        by_rule = training.Quadrature(function)
        for rule, exact in ((by_rule.average, law.average), (by_rule.slope, law.slope)):
            np.testing.assert_allclose(jax.jit(rule)(m, v), jax.jit(exact)(m, v), rtol=1e-10, atol=1e-12)
    sloped = jax.jit(jax.grad(lambda v: training.Quadrature(jnp.tanh).average(m, v).sum()))(jnp.zeros_like(v))
    assert np.isfinite(sloped).all()


@pytest.mark.parametrize("function", OTHERS.values(), ids=OTHERS)
def test_a_function_without_closed_form_is_averaged_in_one_dimension(function):
    layer = layer_of(activation=function, bias=False)
    z, weights = np.polynomial.hermite_e.hermegauss(24)
    nodes = np.stack(np.meshgrid(z, z, z, indexing="ij"), -1).reshape(-1, 3)
    shares = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * 3, indexing="ij"), -1).reshape(-1, 3), -1)
    mu = layer.mixture

    @jax.jit
    def by_product(x):
        points = mu.means[:, None] + jnp.einsum("kde,ne->knd", mu.parts.root, nodes)
        active = function(points[..., 1:] @ x) * points[..., 0]
        return jnp.mean(active @ shares)

    # Twenty-four nodes a coordinate leave an error of tanh itself.
    np.testing.assert_allclose(layer(jnp.asarray(X[0])), by_product(jnp.asarray(X[0]))[None], atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_layer_is_the_network_of_its_mixture_and_of_many_samples(family):
    layer = layer_of(family, training.GELU())
    risk, outputs = risk_of(layer), jax.jit(jax.vmap(layer))(jnp.asarray(X))
    np.testing.assert_allclose(outputs, risk.logits(layer.mixture), atol=1e-14)
    sample = layer.sample(200_000, key=0)
    spread = np.asarray(jax.vmap(risk.features)(sample.points[:2000])).std(0).max()
    assert np.abs(outputs - risk.logits(sample)).max() < 5 * spread / 200_000**0.5


def test_without_covariance_the_layer_is_a_layer_of_its_means_with_finite_gradients():
    rngs = np.random.default_rng(3)
    W, V, b = rngs.normal(size=(4, 2)), rngs.normal(size=(3, 4)), rngs.normal(size=4)
    plain = GaussianMixtureLayer.from_dense(W, V, b)
    block = V @ np.maximum(W @ X.T + b[:, None], 0)
    np.testing.assert_allclose(jax.vmap(plain)(jnp.asarray(X)).T, block, atol=1e-14)
    back = plain.to_dense()
    for one, other in ((back.weights, W), (back.outputs, V), (back.bias, b)):
        np.testing.assert_allclose(one, other, atol=1e-15)
    np.testing.assert_allclose(jax.vmap(back)(jnp.asarray(X)).T, block, atol=1e-14)
    gradient = jax.jit(jax.grad(lambda layer: jnp.sum(jax.vmap(layer)(jnp.asarray(X)) ** 2)))(plain)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    assert not np.asarray(gradient.spreads).any()  # a direction without variance stays closed
    near = GaussianMixtureLayer.from_dense(W, V, b, spread=1e-4)
    assert np.abs(jax.vmap(near)(jnp.asarray(X)).T - block).max() < 1e-3


def test_sampled_blocks_approach_the_layer_like_the_inverse_root_of_their_width():
    layer = layer_of()
    exact, keys = jax.vmap(layer)(jnp.asarray(X)), jax.random.split(jax.random.key(0), 20)

    def error(n):
        off = lambda key: jnp.abs(jax.vmap(layer.to_dense(n, key=key))(jnp.asarray(X)) - exact).mean()  # noqa: E731
        return float(jax.jit(jax.vmap(off))(keys).mean())

    errors = error(100), error(10_000)
    assert 7 < errors[0] / errors[1] < 14  # ten, up to the scatter of twenty draws
    assert layer.to_dense(100).weights.shape == (100, 2)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_gradient_in_the_root_is_twice_that_in_the_covariance_and_steps_keep_their_form(family):
    layer = layer_of(family)
    risk, mu, D = risk_of(layer), layer.mixture, layer.neurons.size
    cotangents = risk.residuals(mu)

    @jax.jit
    def hessians(means, covs):
        """`H = 2 dF_k/dS`, from averages of the first variation as functions of the covariance."""

        def average(mean, cov):
            x = jnp.concatenate([jnp.zeros((10, 1)), jnp.asarray(X), jnp.ones((10, 1))], axis=1)
            m, v, c = x @ mean, jnp.einsum("sd,de,se->s", x, cov, x), x @ cov[0]
            law = training.ReLU()
            return jnp.sum(cotangents[:, 0] * (law.average(m, v) * mean[0] + law.slope(m, v) * c))

        one = jax.vmap(jax.grad(average, (0, 1)))(means, covs)
        return one[0], one[1] + one[1].mT

    slopes, H = hessians(mu.means, mu.covs)
    gradient = layer.bures(plain_gradient(layer))
    np.testing.assert_allclose(gradient.means, slopes, atol=1e-13)
    diagonal = jnp.diagonal(H, axis1=1, axis2=2)
    rule = {
        "full": lambda: H @ layer.spreads,
        "low rank": lambda: H @ layer.spreads,
        "diagonal": lambda: diagonal * layer.spreads,
        "isotropic": lambda: diagonal.sum(-1) * layer.spreads / D,
    }[family]()
    np.testing.assert_allclose(gradient.spreads, rule, atol=1e-13)
    if family in ("full", "low rank"):
        stepped = eqx.tree_at(lambda one: one.spreads, layer, layer.spreads - 0.05 * gradient.spreads).mixture.covs
        shrunk = jnp.eye(D)[None] - 0.05 * H
        np.testing.assert_allclose(stepped, shrunk @ mu.covs @ shrunk, atol=1e-13)
        assert np.linalg.matrix_rank(stepped).tolist() == [layer.spreads.shape[-1]] * 3


@pytest.mark.parametrize("activation", [training.ReLU(), training.Sine(), jnp.tanh], ids=["relu", "sine", "tanh"])
def test_descent_of_the_mixture_is_plain_descent_of_means_and_roots_by_the_mass(activation):
    layer = layer_of(activation=activation)
    layer = GaussianMixtureLayer(layer.neurons, layer.means, layer.spreads, weights=[1.0, 2.0, 3.0])
    path = mf.evolve(training.Descent(risk_of(layer), factor=1.0), layer.mixture, [0.0, 0.2], mf.Euler(0.02))
    trained = layer
    for _ in range(10):
        steepest = trained.bures(plain_gradient(trained))
        trained = eqx.apply_updates(trained, jax.tree.map(lambda g: -0.02 * g, steepest))
    np.testing.assert_allclose(path.final.means, trained.means, atol=1e-13)
    np.testing.assert_allclose(path.final.covs, trained.mixture.covs, atol=1e-13)
    np.testing.assert_allclose(path.final.weights, [1 / 6, 1 / 3, 1 / 2], rtol=1e-14)


def test_closed_rates_are_those_of_quadrature_where_it_is_good():
    neurons = training.Neurons(1, activation=training.Sine())
    risk = training.NeuronRisk(X[:, :1], Y, neurons)
    mu = mf.GaussianMixture([1.0, 2.0], [[0.5, 0.3], [-0.2, 1.0]], [0.3 * np.eye(2), [[0.2, 0.1], [0.1, 0.4]]])
    field = training.Descent(risk + training.Ridge(0.1))
    rates = jax.jit(lambda mu: (mu.drift(field, 0.0), mu.transport(lambda xs: field(0.0, xs, mu))))
    averages = jax.jit(lambda mu: (risk.average(mu, mu), mu.integrate(lambda xs: risk.variation(mu, xs))))
    closed, ruled = rates(mu)
    np.testing.assert_allclose(closed.means, ruled.means, atol=1e-13)
    np.testing.assert_allclose(closed.parts.root, ruled.parts.root, atol=1e-13)
    average, integral = averages(mu)
    np.testing.assert_allclose(average, integral, atol=1e-13)


def test_a_gaussian_and_a_mixture_of_one_move_alike_and_lower_the_risk_in_many_dimensions():
    data = np.random.default_rng(2).normal(size=(40, 64))
    neurons = training.Neurons(64)
    risk = training.NeuronRisk(data, np.sign(data[:, 0] * data[:, 1]), neurons, training.Logistic())
    start = GaussianMixtureLayer.normal(64, 1, 1, key=0, bias=False)
    descent = training.Descent(risk)
    mixture = mf.evolve(descent, start.mixture, [0.0, 0.2, 0.4], mf.Euler(0.1))
    normal = mf.Gaussian.from_root(start.means[0], start.spreads[0])
    both = eqx.filter_jit(lambda field, one, mu: (field.project(0.0, one, one), mu.drift(field, 0.0)))
    alone, member = both(descent, normal, start.mixture)
    np.testing.assert_allclose(alone[0], member.means[0], atol=1e-14)
    np.testing.assert_allclose(alone[1], member.parts.root[0], atol=1e-14)
    assert (np.diff(mixture.map(risk)) < 0).all()
    back = GaussianMixtureLayer.from_mixture(neurons, mixture.final)
    np.testing.assert_allclose(jax.vmap(back)(jnp.asarray(data)), risk.logits(mixture.final), atol=1e-13)


def test_batches_of_data_move_a_mixture_too():
    layer = layer_of()
    field = training.StochasticDescent(risk_of(layer), 0, 0.05, batch=4)
    drift = eqx.filter_jit(lambda mu, field: mu.drift(field, 0.0).means)
    whole = training.Descent(field.sampled(0.0))
    np.testing.assert_allclose(drift(layer.mixture, field), drift(layer.mixture, whole), atol=1e-15)


def test_any_optimiser_trains_the_layer():
    optax = pytest.importorskip("optax")
    layer, inputs = layer_of(), jnp.asarray(X)
    risk, adam = risk_of(layer), optax.adam(0.03)

    @eqx.filter_jit
    def trained(layer):
        def step(carry, _):
            layer, state = carry
            loss, gradient = jax.value_and_grad(lambda one: risk.loss(jax.vmap(one)(inputs)))(layer)
            updates, state = adam.update(gradient, state)
            return (eqx.apply_updates(layer, updates), state), loss

        return jax.lax.scan(step, (layer, adam.init(layer)), None, length=200)

    with jax.numpy_dtype_promotion("standard"):  # which optax counts on
        (last, _), losses = trained(layer)
    assert losses[-1] < 0.2 * losses[0]
    np.testing.assert_allclose(last.weights, layer.weights, rtol=1e-14)


def test_layers_of_one_shape_compile_once():
    traces = []

    @jax.jit
    def outputs(layer, x):
        traces.append(1)
        return layer(x)

    for key in range(3):
        outputs(layer_of(key=key), jnp.asarray(X[key]))
    assert len(traces) == 1


def test_blocks_of_data_change_nothing(monkeypatch):
    layer = layer_of()
    whole = risk_of(layer)(layer.mixture)
    monkeypatch.setattr(hidden, "WIDE", 30)  # two data at a time
    np.testing.assert_allclose(risk_of(layer)(layer.mixture), whole, rtol=1e-13)


BAD = {
    "exact": (lambda: layer_of(activation=jnp.tanh, exact=True), "`exact=True` needs an `activation`.*got tanh.*GELU"),
    "means": (
        lambda: GaussianMixtureLayer(training.Neurons(2), np.ones((1, 4)), np.ones((1, 3, 3))),
        "`means` must have shape",
    ),
    "spreads": (
        lambda: GaussianMixtureLayer(training.Neurons(2), np.ones((1, 3)), np.ones((1, 3)), Isotropic()),
        r"`spreads` must have shape \(1,\).*`Isotropic` roots",
    ),
    "weights": (
        lambda: GaussianMixtureLayer(training.Neurons(2), np.ones((1, 3)), np.ones(1), Isotropic(), weights=[-1.0]),
        "`weights` must be positive",
    ),
    "input": (lambda: layer_of()(jnp.ones((5, 2))), r"`x` must be one input, of shape \(2,\).*jax.vmap"),
    "no spread": (lambda: layer_of(spread=0.0), "`spread` must be positive"),
    "negative spread": (
        lambda: GaussianMixtureLayer.from_dense(np.ones((1, 2)), np.ones((1, 1)), spread=-1.0),
        "`spread` is a standard deviation",
    ),
    "outputs": (lambda: GaussianMixtureLayer.from_dense(np.ones((3, 2)), np.ones((3, 1))), "`outputs` must have shape"),
    "bias": (
        lambda: GaussianMixtureLayer.from_dense(np.ones((3, 2)), np.ones((1, 3)), np.ones(2)),
        "`bias` must have shape",
    ),
    "rank": (lambda: layer_of(covariances=LowRank(9)), "`rank` must be at most 4.*Use `Full"),
    "sample": (lambda: layer_of().to_dense(), "`n` says how many neurons to sample"),
    "mixture": (
        lambda: GaussianMixtureLayer.from_mixture(training.Neurons(5), layer_of().mixture),
        "`mixture.means` must have shape",
    ),
    "nodes": (lambda: training.Quadrature(jnp.tanh, nodes=1), "`nodes` must be a whole number, at least 2"),
    "roots": (lambda: mf.GaussianMixture.from_roots([1.0], [[0.0]], [[1.0]]), "`roots` must have shape"),
    "measure": (
        lambda: risk_of(layer_of()).logits(mf.CircleDensity(np.full(8, 0.5 / np.pi))),
        "Neurons are `Particles`, a `Gaussian` or a `GaussianMixture`",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_sentence(case):
    wrong, sentence = BAD[case]
    with pytest.raises((ValueError, TypeError), match=sentence):
        wrong()


def test_known_functions_are_closed_forms_and_the_approximate_gelu_is_not():
    assert GaussianMixtureLayer.normal(2, 1, 1, key=0, activation=jnp.sin, exact=True).neurons.activation is jnp.sin
    with pytest.raises(ValueError, match="got gelu"):
        GaussianMixtureLayer.normal(2, 1, 1, key=0, activation=jax.nn.gelu, exact=True)
    assert networks.GaussianMixtureLayer is GaussianMixtureLayer
