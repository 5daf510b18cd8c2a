"""Mixtures of experts: routing, gates, granularity and what trains."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow.networks import ConstantExperts, LinearExperts, MixtureOfExperts, ReLUExperts, experts

rng = np.random.default_rng(0)
X = rng.normal(size=(50, 3))
GATES = {
    "none": (None, False),
    "softmax over the chosen": (jax.nn.softmax, True),
    "softmax over all": (jax.nn.softmax, False),
    "sigmoid": (jax.nn.sigmoid, False),
    "normalised sigmoid": (jax.nn.sigmoid, True),
}
KINDS = {
    "constant": ConstantExperts(rng.normal(size=(6, 2))),
    "linear": LinearExperts(rng.normal(size=(6, 2, 3))),
    "relu": ReLUExperts(rng.normal(size=(6, 4, 3)), rng.normal(size=(6, 2, 4))),
}
ROUTER = rng.normal(size=(6, 3))


def expected(x, kind, active, gate):
    """The formula for one input, with loops."""
    scores = [float(row @ x) for row in ROUTER]
    best = sorted(range(6), key=lambda i: -scores[i])[:active]
    exp, sig = np.exp(scores), 1 / (1 + np.exp(-np.array(scores)))
    weights = {
        "none": np.ones(6),
        "softmax over the chosen": exp / sum(exp[i] for i in best),
        "softmax over all": exp / exp.sum(),
        "sigmoid": sig,
        "normalised sigmoid": sig / sum(sig[i] for i in best),
    }[gate]
    part = {
        "constant": lambda i: np.asarray(KINDS["constant"].values)[i],
        "linear": lambda i: np.asarray(KINDS["linear"].weights)[i] @ x,
        "relu": lambda i: (
            np.asarray(KINDS["relu"].outputs)[i] @ np.maximum(np.asarray(KINDS["relu"].weights)[i] @ x, 0)
        ),
    }[kind]
    return sum(weights[i] * part(i) for i in best), best


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gate", GATES)
def test_the_layer_is_its_formula(kind, gate, monkeypatch):
    rule, normalised = GATES[gate]
    layer = MixtureOfExperts(ROUTER, KINDS[kind], 2, rule, normalised=normalised)
    found, chosen = jax.jit(jax.vmap(lambda x: (layer(x), layer.route(x))))(jnp.asarray(X))
    monkeypatch.setattr(experts, "SPARSE", 0)
    gathered = jax.jit(jax.vmap(layer.__call__))(jnp.asarray(X))
    for x, one, sparse, numbers in zip(X, found, gathered, chosen, strict=True):
        output, best = expected(x, kind, 2, gate)
        np.testing.assert_allclose(one, output, atol=1e-13)
        np.testing.assert_allclose(sparse, output, atol=1e-13)
        assert numbers.tolist() == best


def test_with_all_experts_active_the_layer_is_their_sum():
    layer = MixtureOfExperts(ROUTER, KINDS["relu"], 6, None)
    whole = jax.jit(jax.vmap(lambda x: (layer(x), layer.experts(x).sum(0))))(jnp.asarray(X))
    np.testing.assert_allclose(*whole, atol=1e-13)


@pytest.mark.parametrize("gate", GATES)
def test_splitting_keeps_the_function_and_the_parameters(gate):
    rule, normalised = GATES[gate]
    layer = MixtureOfExperts(ROUTER, KINDS["relu"], 2, rule, normalised=normalised)
    fine = layer.split(2)
    assert (fine.experts.count, fine.active, fine.experts.size) == (12, 4, 10)
    assert (
        (fine.active_parameters, fine.total_parameters)
        == (layer.active_parameters, layer.total_parameters)
        == (40, 120)
    )
    outputs = jax.jit(lambda xs: (jax.vmap(layer)(xs), jax.vmap(fine)(xs)))(jnp.asarray(X))
    np.testing.assert_allclose(*outputs, atol=1e-12)


def test_granularity_draws_finer_experts_of_the_same_parameters():
    layers = [MixtureOfExperts.relu(3, 2, 4, 1, 8, key=0, granularity=g) for g in (1, 2, 8)]
    assert [(one.experts.count, one.active, one.experts.size) for one in layers] == [(4, 1, 40), (8, 2, 20), (32, 8, 5)]
    assert len({(one.active_parameters, one.total_parameters) for one in layers}) == 1
    wide = MixtureOfExperts.relu(50, 40, 6, 3, 30, key=1, gate=None, scale=3.0)
    outputs = jax.jit(jax.vmap(wide))(jax.random.normal(jax.random.key(0), (200, 50)))
    assert 2.0 < float(outputs.std()) < 4.0  # a scale of three, up to the draw and to what routing prefers


def test_gradients_reach_chosen_experts_and_the_router_through_gates():
    @eqx.filter_jit
    def gradient(layer, xs):
        return eqx.filter_grad(lambda one: jnp.sum(jax.vmap(one)(xs) ** 2))(layer)

    for gate, (rule, normalised) in GATES.items():
        layer = MixtureOfExperts(ROUTER, KINDS["relu"], 2, rule, normalised=normalised)
        one = gradient(layer, jnp.asarray(X[:1]))
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(one))
        met = np.abs(one.experts.outputs).sum((1, 2)) > 0
        assert set(np.flatnonzero(met)) <= set(layer.route(jnp.asarray(X[0])).tolist())
        assert np.asarray(gradient(layer, jnp.asarray(X)).router).any() == (gate != "none")
    alone = MixtureOfExperts(ROUTER, KINDS["relu"], 1)  # its only gate is one
    assert not np.asarray(gradient(alone, jnp.asarray(X)).router).any()


def test_balance_is_one_for_an_even_load_and_the_number_of_experts_for_one_that_takes_all():
    at = 2 * np.pi * np.arange(6) / 6
    even = MixtureOfExperts(np.stack([np.cos(at), np.sin(at)], 1), KINDS["constant"], 2)
    ring = 2 * np.pi * (np.arange(600) + 0.5) / 600
    xs = jnp.asarray(np.stack([np.cos(ring), np.sin(ring)], 1))
    ahead = MixtureOfExperts([[100.0]] + [[0.0]] * 5, KINDS["constant"], 1)
    both = eqx.filter_jit(lambda layer, xs: (layer.load(xs), layer.balance(xs)))
    for layer, inputs, load, loss in ((even, xs, [1 / 6] * 6, 1.0), (ahead, jnp.ones((4, 1)), [1, 0, 0, 0, 0, 0], 6.0)):
        found = both(layer, inputs)
        np.testing.assert_allclose(found[0], load, atol=1e-14)
        assert float(found[1]) == pytest.approx(loss, abs=1e-12)


def test_the_gradient_of_balance_is_that_of_probabilities_at_a_frozen_load():
    layer, xs = MixtureOfExperts(ROUTER, KINDS["constant"], 2), jnp.asarray(X)
    load = layer.load(xs)
    frozen = lambda router: 6 * load @ jax.nn.softmax(xs @ router.T).mean(0)  # noqa: E731
    slope = eqx.filter_jit(eqx.filter_grad(lambda one: one.balance(xs)))(layer).router
    np.testing.assert_allclose(slope, jax.jit(jax.grad(frozen))(layer.router), atol=1e-14)


def test_any_optimiser_trains_the_layer_and_balances_it():
    optax = pytest.importorskip("optax")
    layer = MixtureOfExperts.relu(3, 1, 6, 2, 4, key=1)
    biased = eqx.tree_at(lambda one: one.router, layer, layer.router.at[:2].multiply(8.0))
    xs, adam = jnp.asarray(X), optax.adam(0.03)
    ys = jnp.sin(xs[:, :1]) + xs[:, 1:2] ** 2

    @eqx.filter_jit
    def trained(layer, weight):
        def loss(one):
            return jnp.mean((jax.vmap(one)(xs) - ys) ** 2) + weight * one.balance(xs)

        def step(carry, _):
            layer, state = carry
            value, gradient = eqx.filter_value_and_grad(loss)(layer)
            updates, state = adam.update(gradient, state)
            return (eqx.apply_updates(layer, updates), state), value

        return jax.lax.scan(step, (layer, adam.init(layer)), None, length=200)

    with jax.numpy_dtype_promotion("standard"):  # which optax counts on
        (last, _), losses = trained(layer, 0.0)
        (even, _), _ = trained(biased, 3.0)
    assert losses[-1] < 0.1 * losses[0]
    assert not np.allclose(last.router, layer.router)
    assert float(even.load(xs).max()) < float(biased.load(xs).max()) - 0.05


def test_layers_of_one_shape_compile_once():
    traces = []

    @eqx.filter_jit
    def outputs(layer, x):
        traces.append(1)
        return layer(x)

    for key in range(3):
        outputs(MixtureOfExperts.linear(3, 2, 5, 2, key=key), jnp.asarray(X[key]))
    assert len(traces) == 1


LAYER = MixtureOfExperts(ROUTER, KINDS["relu"], 2)
BAD = {
    "too many": (
        lambda: MixtureOfExperts(ROUTER, KINDS["linear"], 7),
        "`active` must be at most 6, the number of experts; got 7. Take fewer",
    ),
    "none": (
        lambda: MixtureOfExperts(ROUTER, KINDS["linear"], 0),
        "`active` must be a whole number, at least 1; got 0",
    ),
    "router": (lambda: MixtureOfExperts(ROUTER[:5], KINDS["linear"], 1), r"`router` must have shape \(6, d\)"),
    "infinite": (lambda: MixtureOfExperts(ROUTER * np.inf, KINDS["linear"], 1), "`router` has 18 NaN or infinite"),
    "input": (lambda: LAYER(jnp.ones((5, 3))), r"`x` must be one input, of shape \(3,\); got \(5, 3\). Use `jax.vmap"),
    "route": (lambda: LAYER.route(jnp.ones(2)), r"`x` must be one input, of shape \(3,\); got \(2,\)"),
    "values": (lambda: ConstantExperts([1.0, 2.0]), r"`values` must have shape \(m, C\)"),
    "weights": (lambda: LinearExperts(np.ones((2, 3))), r"`weights` must have shape \(m, C, d\)"),
    "outputs": (
        lambda: ReLUExperts(np.ones((2, 4, 3)), np.ones((2, 1, 5))),
        r"`outputs` must have shape \(2, C, 4\); got \(2, 1, 5\)",
    ),
    "split": (
        lambda: LAYER.split(3),
        "`width` of 4 neurons cannot be cut into 3 equal parts. Take a width that 3 divides",
    ),
    "granularity": (
        lambda: MixtureOfExperts.relu(3, 1, 4, 1, 6, key=0, granularity=4),
        "`width` of 6 .* 4 equal parts",
    ),
    "width": (lambda: MixtureOfExperts.relu(3, 1, 4, 1, 0, key=0), "`width` must be a whole number, at least 1"),
    "experts": (lambda: MixtureOfExperts.constant(3, 1, 0, 1, key=0), "`experts` must be a whole number, at least 1"),
    "linear": (
        lambda: MixtureOfExperts(ROUTER, KINDS["linear"], 2).split(2),
        "`split` shares out the neurons.*`LinearExperts` have none. Use `ReLUExperts`",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_sentence(case):
    wrong, sentence = BAD[case]
    with pytest.raises(ValueError, match=sentence):
        wrong()
