import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from measureflow.theory.equiangular import gap, overlap, rate, softmax, time_to, unnormalised

MODELS = pytest.mark.parametrize("model", [softmax, unnormalised])
BETAS = [-2.0, -0.3, 0.0, 1e-7, 0.7, 4.0, 9.0]


def slope(gamma, n, beta, model):
    """The equation as the paper prints it."""
    if model is softmax:
        growth = 2 * np.exp(beta * gamma) / (np.exp(beta) + (n - 1) * np.exp(beta * gamma))
    else:
        growth = 2 / n * np.exp(beta * gamma)
    return growth * (1 - gamma) * ((n - 1) * gamma + 1)


def token_velocity(x, beta, model):
    """Attention on the sphere, token by token."""
    kernel = np.exp(beta * x @ x.T)
    weights = kernel / kernel.sum(1, keepdims=True) if model is softmax else kernel / len(x)
    pull = weights @ x
    return pull - np.sum(pull * x, axis=1, keepdims=True) * x


@pytest.mark.parametrize(
    ("model", "t", "beta", "expected"),
    [
        (softmax, 2.0, 1.0, 0.816342358568),
        (softmax, 2.0, 4.0, 0.093652133992),
        (unnormalised, 0.1, 1.0, 0.027317295474),
        (unnormalised, 0.1, 4.0, 0.028575837301),
    ],
)
def test_eight_orthogonal_tokens_meet_the_reference_overlaps(model, t, beta, expected):
    assert overlap(t, 8, beta, model=model) == pytest.approx(expected, abs=1e-12)  # twelve digits are printed


def test_times_of_collapse_of_thirty_two_tokens_meet_the_reference_table():
    table = [5.1863, 5.2703, 5.4584, 5.8976, 6.9535, 9.5443, 15.9953, 32.2331, 73.4457, 178.73]
    np.testing.assert_allclose(time_to(0.999, 32, jnp.arange(10)), table, rtol=1e-4)  # the table's own tolerance


@pytest.mark.parametrize("beta", BETAS)
@MODELS
def test_the_rate_is_the_published_one(beta, model):
    gammas = np.linspace(-0.1, 0.99, 12)
    np.testing.assert_allclose(
        rate(gammas, 8, beta, model=model), slope(gammas, 8, beta, model), rtol=1e-14
    )  # roundings


@pytest.mark.parametrize("n", [2, 7, 1000])
@pytest.mark.parametrize("beta", BETAS)
@MODELS
def test_the_overlap_solves_its_differential_equation(n, beta, model):
    start = -0.4 / (n - 1)
    times = np.linspace(0.0, float(time_to(0.99, n, beta, start, model=model)), 7)
    solution = solve_ivp(
        lambda _, g: slope(g, n, beta, model), times[[0, -1]], [start], "DOP853", times, rtol=1e-12, atol=1e-14
    )
    error = np.abs(overlap(times, n, beta, start, model=model) - solution.y[0])
    # The solver's tolerance 1e-12 at each of some ten decisive steps, and early errors carried along by the flow.
    assert np.all(error < 1e-12 * (10 + slope(solution.y[0], n, beta, model) / slope(start, n, beta, model)))


@pytest.mark.parametrize(("n", "beta"), [(2, -2.0), (2, 20.0), (32, 0.0), (32, 9.0), (1000, 20.0)])
@MODELS
def test_the_time_is_the_integral_of_the_inverse_rate(n, beta, model):
    start, end = -0.5 / (n - 1), 0.95
    time, error = quad(lambda g: 1 / slope(g, n, beta, model), start, end, epsabs=0, epsrel=1e-12, limit=400)
    assert error < 1e-11 * time
    assert time_to(end, n, beta, start, model=model) == pytest.approx(time, rel=1e-11)  # the quadrature's error


@MODELS
def test_overlap_and_time_are_inverse_to_each_other(model):
    rng = np.random.default_rng(0)
    n = np.floor(2 * 500 ** rng.uniform(size=4000))
    beta = rng.uniform(-2, 20, n.size)
    start, end = -0.9 / (n - 1), rng.uniform(-0.9 / (n - 1), 0.999)
    t = time_to(end, n, beta, start, model=model)
    error = jnp.abs(overlap(t, n, beta, start, model=model) - end)
    # Ten roundings of gamma and thirty of t, which the flow turns into overlap at its own rate.
    assert jnp.all(error < jnp.finfo(error).eps * (10 + 30 * jnp.abs(t * rate(end, n, beta, model=model))))


@pytest.mark.parametrize("beta", [4.0, 20.0])
@MODELS
def test_time_runs_backwards_towards_the_simplex(beta, model):
    t = time_to(-0.3, 4, beta, 0.2, model=model)
    assert t < 0
    assert overlap(t, 4, beta, 0.2, model=model) == pytest.approx(-0.3, abs=1e-13)  # roundings, t rate is about one
    assert overlap(-1e14, 4, beta, 0.2, model=model) == pytest.approx(-1 / 3, abs=1e-15)  # rounding


@pytest.mark.parametrize("n", [2, 32])
@MODELS
def test_uniform_attention_has_an_elementary_law(n, model):
    times = np.linspace(0, 10, 7)
    expected = n / (np.exp(2 * times) + n - 1)
    np.testing.assert_allclose(
        gap(times, n, 0.0, model=model), expected, rtol=1e-13
    )  # rounding of s up to 20, relative
    np.testing.assert_allclose(overlap(times, n, 0.0, model=model), 1 - expected, rtol=0, atol=1e-15)  # rounding


@MODELS
def test_the_law_is_continuous_where_its_formulas_change(model):
    seams = np.array([0.0, 0.5, 1.0, 20.0, -0.5, -1.0, -20.0])  # |b| = 0, 1, 2 and 40 for two tokens, b = 2 beta
    below, above = (overlap(0.8, 2, seams + shift, 0.1, model=model) for shift in (-1e-12, 1e-12))
    np.testing.assert_allclose(below, above, rtol=0, atol=1e-11)  # the shift, times a derivative in beta of order one


def test_softmax_slows_and_unnormalised_speeds_up_as_beta_grows():
    betas = jnp.linspace(-2.0, 12.0, 7)
    assert jnp.all(jnp.diff(overlap(1.5, 16, betas)) < 0)
    assert jnp.all(jnp.diff(overlap(0.05, 16, betas, model=unnormalised)) > 0)


@MODELS
def test_the_gap_is_relatively_accurate_deep_in_consensus(model):
    decay = 2.0 if model is softmax else 2 * np.exp(1.5)
    late, later = gap(jnp.array([20.0, 30.0]), 8, 1.5, model=model)
    assert jnp.log(late / later) == pytest.approx(10 * decay, rel=1e-13, abs=0)  # rounding of a logit of order 300
    assert overlap(1e5, 8, 1.5, model=model) == 1


@pytest.mark.parametrize("beta", [-1.5, 3.0])
@MODELS
def test_tokens_of_the_full_flow_keep_equal_angles_and_follow_the_law(beta, model):
    n, start, T = 8, 0.1, 0.7
    x0 = np.linalg.cholesky((1 - start) * np.eye(n) + start)

    def velocity(_, x):
        return token_velocity(x.reshape(n, n), beta, model).ravel()

    x = solve_ivp(velocity, (0, T), x0.ravel(), "DOP853", rtol=1e-12, atol=1e-13).y[:, -1].reshape(n, n)
    overlaps = (x @ x.T)[~np.eye(n, dtype=bool)]
    expected = float(overlap(T, n, beta, start, model=model))
    np.testing.assert_allclose(overlaps, expected, rtol=0, atol=1e-10)  # solver tolerance, 64 coordinates


@MODELS
def test_a_sweep_over_beta_traces_once(model):
    traces = []

    @jax.jit
    def sweep(betas, n):
        traces.append(1)
        return jax.vmap(lambda beta: overlap(jnp.linspace(0.0, 2.0, 5), n, beta, model=model))(betas)

    for n, betas in [(8, jnp.linspace(0.0, 5.0, 6)), (16, jnp.linspace(-2.0, 9.0, 6))]:
        one_by_one = jnp.stack([overlap(jnp.linspace(0.0, 2.0, 5), n, beta, model=model) for beta in betas])
        np.testing.assert_allclose(sweep(betas, n), one_by_one, rtol=0, atol=1e-13)  # compilers may reorder roundings
    assert len(traces) == 1


@MODELS
def test_derivatives_are_those_of_the_equation(model):
    t, n, start, h = 0.1, 8, 0.05, 1e-5

    def law(t, beta, start):
        return overlap(t, n, beta, start, model=model)

    def speed(gamma, beta):
        return rate(gamma, n, beta, model=model)

    first, second = jax.jit(jax.grad(law, argnums=(0, 1, 2))), jax.jit(jax.grad(jax.grad(law)))
    for beta in (-1.0, 0.0, 0.4, 6.0):
        gamma = law(t, beta, start)
        by_t, by_beta, by_start = first(t, beta, start)
        difference = (law(t, beta + h, start) - law(t, beta - h, start)) / (2 * h)
        np.testing.assert_allclose(by_t, speed(gamma, beta), rtol=1e-13)  # roundings
        np.testing.assert_allclose(by_start, speed(gamma, beta) / speed(start, beta), rtol=1e-13)  # roundings
        np.testing.assert_allclose(by_beta, difference, rtol=0, atol=1e-9)  # h^2 and eps / h
        expected = speed(gamma, beta) * jax.grad(speed)(gamma, beta)
        np.testing.assert_allclose(second(t, beta, start), expected, rtol=1e-12)  # roundings
