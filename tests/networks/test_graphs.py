"""Rates of oversmoothing: formulas against integrals, dense matrices and runs, and runs against plain iteration."""

import doctest
import functools

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import exp1, psi

import measureflow as mf
from measureflow import networks
from measureflow.networks.weights import log_length

W = np.array([[0.4, 1.0, 0.0], [-0.3, 0.2, 0.5], [0.1, -0.6, -0.9]])
FAMILIES = {
    "fixed": networks.FixedWeights(W),
    "gaussian": networks.GaussianWeights(3, 0.8),
    "complex": networks.GaussianWeights(3, 0.8, unitary=True),
    "commuting": networks.CommutingWeights([0.5, -0.2, 1.0], 0.7, np.linalg.qr(W)[0]),
    "bounded": networks.BoundedWeights(3, 0.9),
}


@functools.cache
def graph(walk=False):
    return mf.Graph.of_networkx(nx.gnp_random_graph(30, 0.2, seed=1), walk=walk)


@functools.cache
def spectrum():
    return graph().spectrum()


@pytest.mark.parametrize("k", [1, 3, 4, 7])
@pytest.mark.parametrize("s", [0.02, 0.3, 1.0, 20.0])
def test_the_mean_logarithm_of_a_noncentral_chi_is_an_integral(k, s):
    """`E log X = ∫ (e^{-t} - E e^{-tX}) dt / t`, with the Laplace transform of the noncentral chi-square law; t = e^u."""

    def integrand(u):
        t = np.exp(u)
        return np.exp(-t) - (1 + 2 * s**2 * t) ** (-k / 2) * np.exp(-t / (1 + 2 * s**2 * t))

    parts = [quad(integrand, a, a + 6, epsabs=1e-13, epsrel=1e-12, limit=200)[0] for a in range(-42, 90, 6)]
    np.testing.assert_allclose(log_length(np.array([s]), k)[0], sum(parts) / 2, atol=1e-9)


def test_the_mean_logarithm_has_its_closed_forms():
    s = np.array([0.05, 0.3, 1.0, 4.0])
    np.testing.assert_allclose(log_length(s, 2), exp1(1 / (2 * s**2)) / 2, atol=1e-12)
    far = 1e7  # the unit vector is lost, and a central chi is left
    for k in (2, 4, 9):
        np.testing.assert_allclose(
            log_length(np.array([far]), k) - np.log(far), (psi(k / 2) + np.log(2)) / 2, rtol=1e-9
        )
    for k in (1, 3, 16):  # where the series takes over
        edge = np.sqrt(1e-3 / (k + 8))
        np.testing.assert_allclose(
            *(log_length(np.array([edge * c]), k) / c**2 for c in (1 - 1e-9, 1 + 1e-9)), rtol=1e-8
        )


@pytest.mark.parametrize("family", ["fixed", "gaussian", "complex", "commuting"])
def test_growth_is_the_top_exponent_of_products(family):
    """Top exponents by QR of 4000 products in 16 runs; four standard errors are passed by chance once in 900 times."""
    weights, s, depth = FAMILIES[family], 0.7, 4000

    @jax.jit
    @jax.vmap
    def exponent(key):
        def layer(Q, key):
            draw = weights.draw(key)
            Q, R = jnp.linalg.qr((jnp.eye(3, dtype=draw.dtype) + s * draw) @ Q)
            return Q, jnp.log(jnp.abs(R[0, 0]))

        start = jnp.eye(3, dtype=jax.eval_shape(weights.draw, key).dtype)
        return jax.lax.scan(layer, start, jax.random.split(key, depth))[1][depth // 8 :].mean()

    found = np.asarray(exponent(jax.random.split(jax.random.key(2), 16)))
    law = weights.growth(np.array([s]))
    assert law.low[0] == law.high[0]
    error = max(
        found.std(ddof=1) / 4, 1e-3
    )  # a fixed complex pair turns, and its mean over finite depth errs by 1 / depth
    np.testing.assert_allclose(found.mean(), law.low[0], atol=4 * error)


def test_the_growth_of_bounded_weights_lies_between_its_bounds():
    weights = FAMILIES["bounded"]
    draws = jax.jit(jax.vmap(weights.draw))(jax.random.split(jax.random.key(0), 50))
    np.testing.assert_allclose(np.linalg.norm(draws, 2, axis=(1, 2)), 0.9, rtol=1e-12)
    low, high = (x[0] for x in weights.growth(np.array([0.7])))
    singular = np.linalg.svd(np.eye(3) + 0.7 * np.asarray(draws), compute_uv=False)
    assert low < np.log(singular.min()) < np.log(singular.max()) < high
    rate = networks.smoothing_rate(spectrum(), weights, 0.3)
    assert rate.kind == "at least"
    curves = [networks.log_similarities(graph(), weights, 1500, alpha=0.3, key=k) for k in range(4)]
    assert rate.value < networks.measured_rate(curves).value


@pytest.mark.parametrize("alpha", [0.3, 1.5])
def test_the_rate_of_fixed_weights_is_that_of_the_whole_matrix(alpha):
    """Spectral radii of `I + alpha P ⊗ W^T` on the complement and on the dominant eigenspace."""
    P, v = np.asarray(graph()(jnp.eye(30))), np.asarray(graph().dominant)
    lead = np.outer(v, v) / (v @ v)
    radii = [
        np.abs(np.linalg.eigvals(np.kron(Q, np.eye(3)) + alpha * np.kron(Q @ P, W.T))).max()
        for Q in (np.eye(30) - lead, lead)
    ]
    rate = networks.smoothing_rate(spectrum(), networks.FixedWeights(W), alpha)
    assert rate.kind == "exact"
    np.testing.assert_allclose(rate.value, min(1.0, radii[0] / radii[1]), rtol=1e-10)


@pytest.mark.parametrize("walk", [False, True])
@pytest.mark.parametrize("alpha", [None, 0.6])
@pytest.mark.parametrize("family", ["gaussian", "complex"])
def test_parts_followed_apart_are_the_network_itself(family, alpha, walk):
    weights, key = FAMILIES[family], jax.random.key(3)
    found = networks.log_similarities(graph(walk), weights, 8, alpha=alpha, key=key)
    first, rest = jax.random.split(key)
    x = np.asarray(jax.random.normal(first, (30, 3), jax.eval_shape(weights.draw, key).dtype))
    P, expected = np.asarray(graph(walk)(jnp.eye(30))), []
    for k in jax.random.split(rest, 8):
        moved = P @ x @ np.asarray(weights.draw(k))
        x = moved if alpha is None else x + alpha * moved
        expected.append(float(networks.similarity(graph(walk), jnp.asarray(x))))
    np.testing.assert_allclose(np.exp(found[1:]), expected, rtol=1e-9)


def test_modes_are_the_network_in_the_eigenbasis():
    values = spectrum().values
    curves = [networks.log_modes(values, FAMILIES["gaussian"], 400, key=k) for k in range(3)]
    ratios = np.stack(curves)[:, -1, :2] @ np.array([-1.0, 1.0])
    halves = np.stack(curves)[:, 200, :2] @ np.array([-1.0, 1.0])
    np.testing.assert_allclose((ratios - halves) / 200, np.log(values[1]), rtol=1e-12)


@pytest.mark.parametrize("family", ["fixed", "gaussian", "commuting", "bounded"])
def test_without_residuals_weights_do_not_matter(family):
    curve = networks.log_similarities(graph(), FAMILIES[family], 1200, key=0)
    law = networks.smoothing_rate(spectrum(), FAMILIES[family])
    assert law.kind == "exact"
    np.testing.assert_allclose(networks.measured_rate(curve[None]).value, law.value, rtol=1e-9)
    assert curve[-1] < np.log(1e-100)  # far beyond what rounding would leave


@pytest.mark.parametrize("family", ["gaussian", "complex", "commuting"])
def test_with_residuals_runs_follow_the_formula(family):
    """Sixteen runs; the interval for 99.99% of means is passed by chance once in ten thousand times."""
    law = networks.smoothing_rate(spectrum(), FAMILIES[family], 1.0)
    assert (law.kind, law.value < 0.97) == ("exact", True)
    curves = [networks.log_similarities(graph(), FAMILIES[family], 2000, alpha=1.0, key=k) for k in range(16)]
    found = networks.measured_rate(curves)
    assert found.error < 0.02
    np.testing.assert_allclose(
        found.value, law.value, atol=1.9 * found.error
    )  # t quantiles with 15 degrees: 5.24 / 2.95


def test_components_have_rates_of_their_own_and_nothing_crosses():
    one, other = nx.path_graph(3), nx.complete_graph(4)
    both = mf.Graph.of_networkx(nx.disjoint_union(one, other))
    rates = [
        networks.smoothing_rate(mf.Graph.of_networkx(g).spectrum(), FAMILIES["fixed"]).value
        for g in (one, other, nx.disjoint_union(one, other))
    ]
    assert rates[2] == pytest.approx(max(rates[:2]))
    lonely = mf.Graph.of_edges([[0, 0], [1, 1]])
    assert networks.smoothing_rate(lonely.spectrum(), FAMILIES["fixed"]).value == 0
    curve = networks.log_similarities(both, FAMILIES["gaussian"], 300, key=0)
    np.testing.assert_allclose(networks.measured_rate(curve[None]).value, rates[2], rtol=1e-9)


def test_without_residuals_the_largest_in_size_decides():
    """Of a heavy edge between two vertices the second eigenvalue is `(1 - w) / (1 + w)`."""
    heavy = mf.Graph(np.array([[0.0, 9.0], [9.0, 0.0]])).spectrum()
    assert networks.smoothing_rate(heavy, FAMILIES["fixed"]).value == pytest.approx(0.8)


def test_the_strongest_residual_keeps_the_rate():
    weights = FAMILIES["gaussian"]
    alpha = networks.strongest_residual(spectrum(), weights, 0.95)
    assert networks.smoothing_rate(spectrum(), weights, alpha).value == pytest.approx(0.95, abs=1e-9)
    assert networks.strongest_residual(spectrum(), weights, 1.0) == 0
    negative = networks.FixedWeights(-np.diag([0.5, 1.0]))
    free = networks.strongest_residual(spectrum(), negative, 1.0)
    assert networks.smoothing_rate(spectrum(), negative, 0.999 * free).value == 1
    assert networks.smoothing_rate(spectrum(), negative, 1.01 * free).value < 1
    # Up to two features Gaussian weights smooth nothing that small steps would not undo.
    assert networks.smoothing_rate(spectrum(), networks.GaussianWeights(1, 1.0), 0.3).value == 1


def test_relu_is_measured_above_the_floor_of_rounding():
    weights = networks.GaussianWeights(8, 0.5)
    curves = [networks.log_similarities(graph(), weights, 200, activation=jax.nn.relu, key=k) for k in range(6)]
    assert np.nanmin(curves) < np.log(1e-15)  # there is only rounding
    found = networks.measured_rate(curves, floor=networks.graphs.FLOOR)
    assert 0.3 < found.value < 0.85
    assert "measured" in str(found)


@pytest.mark.parametrize("module", [networks.graphs, networks.weights], ids=lambda module: module.__name__)
def test_examples_print_what_they_say(module):
    found = doctest.testmod(module, extraglobs={"mf": mf, "np": np, "jnp": jnp})
    assert found.attempted >= 3
    assert not found.failed


def test_rates_say_what_they_are():
    assert str(networks.Rate(0.5, "exact")) == "0.5 (exact)"
    assert str(networks.Rate(0.5, "at least")) == "at least 0.5"
    assert networks.Rate(0.1, "exact").depth(1e-3) == pytest.approx(3)
    assert networks.Rate(1.0, "exact").depth() == np.inf
    with pytest.raises(ValueError, match="`W` must be square"):
        networks.FixedWeights(np.ones((2, 3)))
    with pytest.raises(ValueError, match="`sigma` must be positive"):
        networks.GaussianWeights(3, 0.0)
    with pytest.raises(ValueError, match="`depth` must be a whole number"):
        networks.log_similarities(graph(), FAMILIES["fixed"], 0, key=0)
