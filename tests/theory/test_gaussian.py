"""The closed forms of Gaussians under attention, against quadrature over the law and integration of the equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import sqrtm

from measureflow.theory import gaussian

rng = np.random.default_rng(7)
A, V, Q, K, G = (jnp.asarray(m) for m in rng.normal(size=(5, 2, 2)) / 2)
MEAN = jnp.asarray(rng.normal(size=2))
COV = G @ G.T + 0.2 * jnp.eye(2)
XS = rng.normal(size=(6, 2))


def cloud():
    """A product of 60 Gauss-Hermite nodes a side, placed by the Cholesky root: another root than the library uses."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    w = np.outer(weights, weights).ravel()
    return np.asarray(MEAN) + z @ np.linalg.cholesky(COV).T, w / w.sum()


def by_quadrature(kernel):
    """`∫ V y k(x, y) dmu(y)` at the test points for a kernel matrix `(points, nodes)`."""
    ys, w = cloud()
    return (kernel(XS, ys) * w) @ ys @ np.asarray(V).T


def normalised(scores):
    def kernel(xs, ys):
        k = np.exp(scores(xs, ys))
        return k / (k @ cloud()[1])[:, None]

    return kernel


def bilinear(xs, ys):
    return xs @ np.asarray(A).T @ ys.T


def distances(xs, ys):
    return -(((xs @ np.asarray(Q).T)[:, None] - (ys @ np.asarray(K).T)[None]) ** 2).sum(-1)


def velocities(field, xs):
    return xs @ np.asarray(field.slope).T + np.asarray(field.shift)


FIELDS = {
    "softmax": (gaussian.softmax(MEAN, COV, A, V), normalised(bilinear)),
    "L2": (gaussian.l2(MEAN, COV, Q, K, V), normalised(distances)),
    "linear": (gaussian.linear(MEAN, COV, A, V), bilinear),
}


@pytest.mark.parametrize(("field", "kernel"), FIELDS.values(), ids=FIELDS.keys())
def test_the_field_is_the_affine_one_of_the_closed_form(field, kernel):
    # The quadrature is exact to rounding for exponentials of this size.
    np.testing.assert_allclose(velocities(field, XS), by_quadrature(kernel), atol=1e-12)


def test_the_unnormalised_field_is_an_affine_one_times_an_exponential():
    closed = jax.vmap(lambda x: gaussian.unnormalised(x, MEAN, COV, A, V))(jnp.asarray(XS))
    np.testing.assert_allclose(closed, by_quadrature(lambda xs, ys: np.exp(bilinear(xs, ys))), atol=1e-12)


def test_centred_relu_is_half_of_softmax_by_an_integral_over_half_planes():
    # In polar coordinates the radial integral is 2 for the standard normal law and the angle remains: E[z (u.z)_+] = u/2.
    angles = 2 * np.pi * (np.arange(4096) + 0.5) / 4096
    z = np.stack([np.cos(angles), np.sin(angles)], -1)
    root = np.linalg.cholesky(COV)
    scores = XS @ np.asarray(A).T @ root @ z.T
    moment = 2 * (np.maximum(scores, 0) @ z) / 4096 @ root.T
    # The trapezoidal rule meets a kink in the angle, so its error is quadratic in the spacing.
    np.testing.assert_allclose(velocities(gaussian.centred_relu(COV, A, V), XS), moment @ np.asarray(V).T, atol=1e-6)


def test_the_sinkhorn_field_is_that_of_alternating_normalisation():
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    w = np.outer(weights, weights).ravel()
    w, ys = w / w.sum(), np.asarray(MEAN) + z @ np.linalg.cholesky(COV).T
    k = np.exp(ys @ np.asarray(A).T @ ys.T)
    for _ in range(200):
        k /= (k @ w)[:, None]
        k /= w @ k
    field = gaussian.sinkhorn(MEAN, COV, A, V)
    inner = w > 1e-12  # far out the law of the nodes, not the field, is what rounding spoils
    velocity = (k[inner] * w) @ ys @ np.asarray(V).T
    np.testing.assert_allclose(velocities(field, ys[inner]), velocity, atol=1e-8)  # linear convergence


def test_the_coupling_is_that_of_the_authors_formula():
    root = np.asarray(sqrtm(COV))
    inside = np.asarray(sqrtm(4 * root @ A.T @ COV @ A @ root + np.eye(2)))
    C = (root @ inside @ np.linalg.inv(root) - np.eye(2)) / 2
    slope = V @ np.linalg.inv(A).T @ np.linalg.inv(COV) @ C
    np.testing.assert_allclose(gaussian.sinkhorn(MEAN, COV, A, V).slope, slope, atol=1e-12)  # two matrix roots


def flow(closure, cov, end, mean=None):
    """The moment equations by an integrator that is not ours."""
    mean = jnp.zeros(len(cov)) if mean is None else mean
    d = len(cov)

    @jax.jit
    def rate(_, y):
        m, S = y[:d], y[d:].reshape(d, d)
        dm, dS = gaussian.moment_rates(closure(m, S), m, S)
        return jnp.concatenate([dm, dS.ravel()])

    start = np.concatenate([mean, np.ravel(cov)])
    y = solve_ivp(lambda t, y: np.asarray(rate(t, jnp.asarray(y))), (0, end), start, rtol=1e-12, atol=1e-13).y[:, -1]
    return y[:d], y[d:].reshape(d, d)


def test_the_covariance_solves_its_riccati_equation():
    identity = jnp.eye(2)
    end = 0.5 * float(gaussian.blow_up_time(COV, A, identity))
    end = end if np.isfinite(end) else 1.0
    _, S = flow(lambda m, S: gaussian.softmax(m, S, A, identity), COV, end)
    # 1e-10: the tolerance of the integrator, grown a little.
    np.testing.assert_allclose(gaussian.covariance(end, COV, A, identity), S, rtol=1e-10)


def test_the_covariance_has_the_rate_of_the_closure_where_value_commutes():
    basis, _ = jnp.linalg.qr(G)
    S, W, symmetric = (basis @ jnp.diag(jnp.array(v)) @ basis.T for v in ([1.0, 0.5], [0.3, -2.0], [-1.0, 0.7]))
    rate = jax.jacfwd(lambda t: gaussian.covariance(t, S, symmetric, W))(0.3)
    now = gaussian.covariance(0.3, S, symmetric, W)
    np.testing.assert_allclose(
        rate, gaussian.moment_rates(gaussian.softmax(jnp.zeros(2), now, symmetric, W), jnp.zeros(2), now)[1], atol=1e-12
    )


def test_one_dimension_is_as_by_hand():
    one = jnp.ones((1, 1))
    np.testing.assert_allclose(gaussian.blow_up_time(0.5 * one, 2 * one, 3 * one), 1 / 6, rtol=1e-15)
    assert gaussian.blow_up_time(one, -one, one) == np.inf
    np.testing.assert_allclose(gaussian.covariance(0.1, one, 2 * one, one), 1 / 0.6 * one, rtol=1e-15)
    np.testing.assert_allclose(gaussian.scalar_covariance(0.1, 1.0, 2.0), 1 / 0.6, rtol=1e-15)
    m, S = flow(lambda m, S: gaussian.softmax(m, S, -0.7 * one, 1.3 * one), 2 * one, 1.0, jnp.ones(1))
    np.testing.assert_allclose(gaussian.scalar_covariance(1.0, 2.0, -0.91), S[0, 0], rtol=1e-10)
    np.testing.assert_allclose(gaussian.scalar_mean(1.0, 1.0, 2.0, 1.3, -0.7), m[0], rtol=1e-10)


def test_the_trace_passes_any_bound_just_before_the_blow_up_time():
    form = jnp.array([[0.3, 1.0], [0.2, -0.5]])
    time = gaussian.blow_up_time(COV, form, jnp.eye(2))
    before = gaussian.covariance(time * (1 - 1e-9), COV, form, jnp.eye(2))
    assert np.linalg.eigvalsh(before)[0] > 0
    assert np.trace(before) > 1e7
    # After it the formula has a negative eigenvalue: the pole lies between.
    assert np.linalg.eigvalsh(gaussian.covariance(time * (1 + 1e-9), COV, form, jnp.eye(2)))[0] < 0


@pytest.mark.parametrize("keys", [1, 2])
def test_the_limit_is_approached_like_one_over_t_and_has_the_rank_of_the_kernel(keys):
    draw = np.random.default_rng(keys)
    q, root = jnp.asarray(draw.normal(size=(keys, 3))), jnp.asarray(draw.normal(size=(3, 3)))
    cov, form, identity = root @ root.T, -q.T @ q, jnp.eye(3)
    goal = gaussian.limit(cov, form, identity)
    assert gaussian.rank(goal) == 3 - keys
    errors = [t * np.linalg.norm(gaussian.covariance(t, cov, form, identity) - goal) for t in (1e4, 1e5)]
    # The next term of the expansion is smaller by 1/t, and rounding by 1e-16 t.
    assert errors[1] == pytest.approx(errors[0], rel=0.01)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_clocks_of_one_dimension_run_evenly(sign):
    one = jnp.ones((1, 1))
    v, q, k, a = 0.8, sign * 0.6, 0.9, sign * 1.1
    _, S = flow(lambda m, S: gaussian.l2(m, S, q * one, k * one, v * one), 2 * one, 0.7)
    gained = gaussian.l2_clock(S[0, 0], k) - gaussian.l2_clock(2.0, k)
    np.testing.assert_allclose(gained, 4 * v * q * k * 0.7, rtol=1e-9)
    _, S = flow(lambda m, S: gaussian.sinkhorn(m, S, a * one, v * one), 2 * one, 0.7)
    gained = gaussian.sinkhorn_clock(S[0, 0], a) - gaussian.sinkhorn_clock(2.0, a)
    np.testing.assert_allclose(gained, 2 * v * sign * 0.7, rtol=1e-9)


def test_covariances_of_l2_and_sinkhorn_stay_under_their_bounds():
    _, S = flow(lambda m, S: gaussian.l2(m, S, Q, K, V), COV, 0.5)
    assert np.linalg.norm(S, 2) <= gaussian.l2_bound(0.5, COV, Q, K, V)
    _, S = flow(lambda m, S: gaussian.sinkhorn(m, S, A, V), COV, 1.0)
    assert np.linalg.norm(S, 2) <= gaussian.sinkhorn_bound(1.0, COV, V)


@pytest.mark.parametrize("energy", ["score", "sinkhorn"])
def test_energies_fall_by_the_dissipation_of_the_field(energy):
    """A gradient flow loses energy at the rate of its squared speed, `tr(LΣL^T)`, and its slope is symmetric."""
    form, zero = (A + A.T) / 2, jnp.zeros(2)
    if energy == "score":
        value, field = (lambda S: -gaussian.score_energy(S, form)), gaussian.softmax(zero, COV, form, form)
    else:
        value, field = (lambda S: gaussian.sinkhorn_energy(S, form)), gaussian.sinkhorn(zero, COV, form, -form)
    _, rate = gaussian.moment_rates(field, zero, COV)
    change = jax.jvp(value, (COV,), (rate,))[1]
    np.testing.assert_allclose(change, -jnp.trace(field.slope @ COV @ field.slope.T), rtol=1e-10)
    np.testing.assert_allclose(field.slope, field.slope.T, atol=1e-12)


def test_a_value_that_twists_the_metric_descends_the_same_energy():
    form = G @ G.T + 0.3 * jnp.eye(2)
    metric = form / 1.7  # A V^{-1} for V = 1.7 I
    field = gaussian.softmax(jnp.zeros(2), COV, form, 1.7 * jnp.eye(2))
    _, rate = gaussian.moment_rates(field, jnp.zeros(2), COV)
    change = jax.jvp(lambda S: -gaussian.score_energy(S, form), (COV,), (rate,))[1]
    np.testing.assert_allclose(change, -jnp.trace(metric @ field.slope @ COV @ field.slope.T), rtol=1e-12)


def test_the_cone_holds_the_covariances():
    point = gaussian.cone(COV)
    np.testing.assert_allclose(gaussian.from_cone(point), COV, rtol=1e-15)
    assert point[2] > np.hypot(*point[:2])
    edge = gaussian.cone(jnp.outer(MEAN, MEAN))
    np.testing.assert_allclose(edge[2], np.hypot(*edge[:2]), rtol=1e-14)


def test_the_covariance_is_that_of_the_equation_also_where_the_value_is_not_symmetric():
    """`V A` is `-0.4 I` plus a rotation, so `B = -0.8 I` commutes with `V`, which does not commute with its transpose's `A`."""
    value = jnp.array([[1.0, -0.7], [0.7, 1.0]])
    form = jnp.linalg.solve(value, -0.4 * jnp.eye(2) + jnp.array([[0.0, 0.5], [-0.5, 0.0]]))
    cov = 0.9 * np.eye(2)

    def rate(t, flat):
        now = jnp.asarray(flat.reshape(2, 2))
        return np.asarray(
            gaussian.moment_rates(gaussian.softmax(jnp.zeros(2), now, form, value), jnp.zeros(2), now)[1]
        ).ravel()

    path = solve_ivp(rate, (0.0, 2.0), cov.ravel(), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(
        gaussian.covariance(2.0, jnp.asarray(cov), form, value).ravel(), path.y[:, -1], atol=1e-9
    )
