"""Gaussians obey the laws of measures, and fields move them as the closed forms say."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import measureflow as mf
from measureflow.measures.quadrature import normal_rule, second_rule
from measureflow.theory import gaussian as theory

rng = np.random.default_rng(3)
matrices = rng.normal(size=(6, 2, 2)) / 2
A, V, Q, K, G, W = map(jnp.asarray, matrices)
MEAN = jnp.asarray(rng.normal(size=2))
COV = jnp.asarray(matrices[4] @ matrices[4].T + 0.2 * np.eye(2))
MU = mf.Gaussian(MEAN, COV)
CENTRED = mf.Gaussian([0.0, 0.0], COV)
XS = jnp.asarray(rng.normal(size=(6, 2)))


@eqx.filter_jit
def velocity(field, mu, xs=XS):
    return field(0.0, xs, mu)


@eqx.filter_jit
def rates(field, mu):
    return mu.transport(lambda xs: field(0.0, xs, mu))


@pytest.fixture(scope="module", params=[1, 2, 3, 9], ids=lambda d: f"d={d}")
def mu(request):
    draw = np.random.default_rng(request.param)
    d = request.param
    return mf.Gaussian.from_root(draw.normal(size=d), draw.normal(size=(d, d)) / np.sqrt(d))


def test_transport_keeps_the_mass_and_moves_all_points_alike(mu):
    rate = eqx.filter_jit(lambda mu: mu.transport(jnp.ones_like))(mu)
    assert rate.log_mass == 0.0
    np.testing.assert_allclose(rate.mean, 1.0, rtol=1e-15)
    np.testing.assert_allclose(rate.root, 0.0, atol=1e-15)


def test_averages_know_the_moments(mu):
    a = np.linspace(0.5, 1.0, mu.space.dim)

    @eqx.filter_jit
    def moments(mu):
        second, fourth = lambda x: jnp.outer(x - mu.mean, x - mu.mean), lambda x: (a @ (x - mu.mean)) ** 4
        return mu.expect(second), mu.expect(fourth), mu.cov

    second, fourth, cov = moments(mu)
    np.testing.assert_allclose(second, cov, atol=1e-12)
    np.testing.assert_allclose(fourth, 3 * (a @ np.asarray(cov) @ a) ** 2, rtol=1e-11)


@pytest.mark.parametrize("d", [1, 2, 5, 7, 8, 12])
def test_the_rule_is_exact_to_degree_five(d):
    nodes, weights = normal_rule(d)
    w = np.cos(np.arange(1.0, d + 1))
    score = nodes @ w / np.linalg.norm(w)
    moments = [weights @ score**k for k in range(6)]
    np.testing.assert_allclose(moments, [1, 0, 1, 0, 3, 0], atol=1e-11)


def test_reweighting_by_a_quadratic_is_that_of_the_densities(mu):
    d = mu.space.dim
    H = -0.3 * np.eye(d) - 0.2 * np.ones((d, d))
    b = np.linspace(-0.5, 0.5, d)

    @eqx.filter_jit
    def reweighted(mu):
        potential = lambda y: 0.7 + y @ b + ((y @ H) * y).sum(-1) / 2  # noqa: E731
        seen = mu.weigh(mu.potential(potential))
        return seen.mean, seen.cov, jnp.exp(seen.log_mass), mu.integrate(lambda y: jnp.exp(potential(y))), mu.cov

    mean, cov, mass, integral, before = map(np.asarray, reweighted(mu))
    precision = np.linalg.inv(before) - H
    np.testing.assert_allclose(cov, np.linalg.inv(precision), atol=1e-10)
    np.testing.assert_allclose(mean, np.linalg.solve(precision, np.linalg.solve(before, mu.mean) + b), atol=1e-10)
    if d <= 2:  # where the quadrature of an exponential is good to 1e-10
        np.testing.assert_allclose(mass, integral, rtol=1e-10)


def test_a_reweighted_measure_keeps_its_mass_in_every_sum():
    @eqx.filter_jit
    def sums(mu):
        seen = mu.weigh(mu.potential(lambda y: jnp.full(len(y), 0.4)))
        attended = seen.attend(jnp.zeros((1, 2))).log_mass
        return seen.integrate(lambda y: jnp.ones(len(y))), attended, seen.ridge(jnp.ones_like, XS)[0]

    mass, log_mass, ridge = sums(MU)
    np.testing.assert_allclose(mass, np.exp(0.4), rtol=1e-13)
    np.testing.assert_allclose(log_mass, 0.4, rtol=1e-13)
    np.testing.assert_allclose(ridge, np.exp(0.4), rtol=1e-11)


KERNELS = {
    "logistic": jax.nn.sigmoid,
    "positive part": jax.nn.relu,
    "step": lambda s: (s > 0).astype(s.dtype),
    "steep": lambda s: jax.nn.sigmoid(100 * s),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_a_kernel_of_the_score_is_an_integral_over_the_score(kernel):
    covectors = np.array([[1.0, -0.4], [0.0, 3.0], [0.0, 0.0]])
    mass, moment = jax.jit(lambda a: MU.ridge(kernel, a))(covectors)
    for a, got, vector in zip(covectors, mass, moment, strict=True):
        c, tau = float(a @ MEAN), float(np.sqrt(a @ COV @ a))

        def density(z, c=c, tau=tau):
            return float(kernel(np.float64(c + tau * z))) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

        cuts = [-c / tau] if tau else [0.0]
        whole, along = (
            sum(quad(lambda z, p=p: density(z) * z**p, *ends, epsabs=1e-13, limit=200)[0] for ends in sides(cuts[0]))
            for p in (0, 1)
        )
        # 1e-10 is the target; SciPy's own error is below 1e-12 on each side of the kink.
        np.testing.assert_allclose(got, whole, atol=1e-10)
        expected = whole * MEAN + (along / tau if tau else 0.0) * COV @ a
        np.testing.assert_allclose(vector, expected, atol=1e-10)


def sides(cut):
    cut = np.clip(cut, -11.9, 11.9)
    return (-12.0, cut), (cut, min(cut + 0.3, 12.0)), (min(cut + 0.3, 12.0), 12.0)


def test_the_slope_of_a_ridge_is_right_even_where_no_score_varies():
    slope = jax.jit(jax.jacfwd(lambda a: MU.ridge(jax.nn.sigmoid, a[None])[1][0]))
    second = COV + np.outer(MEAN, MEAN)
    np.testing.assert_allclose(slope(np.zeros(2)), second / 4, atol=1e-12)  # the logistic function has slope 1/4 at 0


CLOSURES = {
    "softmax": (mf.SoftmaxAttention(A, V), lambda m, S: theory.softmax(m, S, A, V)),
    "L2": (mf.L2Attention(Q, K, V), lambda m, S: theory.l2(m, S, Q, K, V)),
    "L2 with few keys": (mf.L2Attention(Q[:1], K[:1], V), lambda m, S: theory.l2(m, S, Q[:1], K[:1], V)),
    "Sinkhorn": (mf.SinkhornAttention(A, V), lambda m, S: theory.sinkhorn(m, S, A, V)),
    "symmetric Sinkhorn": (mf.SinkhornAttention(A + A.T, V), lambda m, S: theory.sinkhorn(m, S, A + A.T, V)),
    "linear": (mf.LinearAttention(A, V), lambda m, S: theory.linear(m, S, A, V)),
    "heads": (
        mf.MultiHead([mf.SoftmaxAttention(A, V), mf.SoftmaxAttention(Q, K)], np.stack([W, np.eye(2)])),
        lambda m, S: theory.Affine(W @ V @ S @ A + K @ S @ Q, W @ V @ m + K @ m),
    ),
    "feed-forward": (
        mf.SoftmaxAttention(A, V) + mf.Perceptron(W, Q, jnp.ones(2), activation=lambda x: x),
        lambda m, S: theory.Affine(V @ S @ A + W @ Q, V @ m + W @ jnp.ones(2)),
    ),
}


@pytest.mark.parametrize(("field", "closure"), CLOSURES.values(), ids=CLOSURES.keys())
def test_fields_have_the_velocity_and_the_rates_of_the_closed_form(field, closure):
    @jax.jit
    def closed(m, S):
        affine = closure(m, S)
        return affine, theory.moment_rates(affine, m, S)

    @eqx.filter_jit
    def moved(mu):
        rate = mu.transport(lambda xs: field(0.0, xs, mu))
        return field(0.0, XS, mu), rate.mean, rate.root @ mu.root.T + mu.root @ rate.root.T

    (L, b), (mean, cov) = jax.tree.map(np.asarray, closed(MEAN, COV))
    for found, expected in zip(moved(MU), (np.asarray(XS) @ L.T + b, mean, cov), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_a_mean_far_away_does_not_spoil_the_rate_of_the_root():
    far = mf.Gaussian([1e12, -1e11], COV)
    rate = rates(mf.SoftmaxAttention(A, V), far)
    np.testing.assert_allclose(rate.root, V @ COV @ A @ far.root, rtol=1e-12)


def test_relu_attention_is_affine_on_centred_gaussians_alone():
    L, _ = theory.centred_relu(COV, A, V)
    np.testing.assert_allclose(velocity(mf.ReLUAttention(A, V), CENTRED), np.asarray(XS @ L.T), atol=1e-11)
    assert mf.evolve(mf.ReLUAttention(A, V), CENTRED, [0.0, 0.1]).outcome.ok
    with pytest.raises(ValueError, match="MomentClosure"):
        mf.evolve(mf.ReLUAttention(A, V), MU, [0.0, 0.1])


def test_the_unnormalised_field_is_that_of_the_closed_form():
    closed = jax.jit(jax.vmap(lambda x: theory.unnormalised(x, MEAN, COV, A, V)))(XS)
    np.testing.assert_allclose(velocity(mf.UnnormalisedAttention(A, V), MU), closed, rtol=1e-12)


INVERSE = np.linalg.inv(MU.root)
BENT = {
    "sigmoid": mf.SigmoidAttention(A, V),
    "unnormalised": mf.UnnormalisedAttention(A, V),
    "perceptron": mf.Perceptron(W, Q, jnp.ones(2)),
    "kink at four standard deviations": mf.Perceptron(np.eye(2), INVERSE, 4 - INVERSE @ MEAN),
}


@pytest.mark.parametrize("field", BENT.values(), ids=BENT.keys())
def test_fields_that_are_not_affine_are_refused_by_name_and_have_a_closure(field):
    with pytest.raises(ValueError, match=r"`mf.MomentClosure\(field\)`"):
        mf.evolve(field, MU, [0.0, 0.1])
    with pytest.raises(ValueError, match=r"`mf.MomentClosure\(field\)`"):
        MU.transport(lambda xs: field(0.0, xs, MU))
    closed = rates(mf.MomentClosure(field), MU)
    assert np.isfinite(closed.root).all()


def test_a_field_that_bends_later_is_refused_before_it_starts():
    field = mf.Schedule([mf.Perceptron(W, Q, jnp.ones(2), jnp.abs) * c for c in (0.0, 1.0)], [0.5])
    assert mf.evolve(field, MU, [0.0, 0.4]).outcome.ok
    with pytest.raises(ValueError, match="MomentClosure"):
        mf.evolve(field, MU, [0.0, 1.0])


def test_a_closure_gives_the_moments_the_rates_of_the_field():
    field = mf.SigmoidAttention(A, V)
    rate = rates(mf.MomentClosure(field), MU)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    w = np.outer(weights, weights).ravel() / (2 * np.pi)
    mean = np.asarray(MEAN)
    ys = mean + z @ np.linalg.cholesky(COV).T
    v = np.asarray(velocity(field, MU, jnp.asarray(ys)))
    mixed = (w[:, None] * v).T @ (ys - mean)
    np.testing.assert_allclose(rate.mean, w @ v, atol=1e-10)
    np.testing.assert_allclose(rate.root @ MU.root.T + MU.root @ rate.root.T, mixed + mixed.T, atol=1e-10)


@jax.jit
def averaged_exponentials(mean, root, cov, form):
    """Of a Gaussian, by its energy, and of a mixture of two halves of it."""
    mu = mf.Gaussian.from_root(mean, root)
    pair = mf.GaussianMixture(jnp.array([0.25, 0.75]), jnp.stack([mean, mean]), jnp.stack([cov, cov]))
    return mu.pairing(form), 2 * mf.BilinearEnergy(form)(mu), pair.pairing(form)


@pytest.mark.parametrize("d", [2, 6, 8, 10])
def test_exponentials_are_averaged_in_closed_form_in_any_dimension(d):
    """Against `∬ e^{<Ax, y>}` as one Gaussian integral over pairs: `det(I - ...)^{-1/2}`, by NumPy."""
    draw = np.random.default_rng(d)
    mean, root, form = draw.normal(size=d) / 3, draw.normal(size=(d, d)) / d, draw.normal(size=(d, d)) / (d + 2)
    cov, eye = root @ root.T, np.eye(d)
    precision = np.linalg.inv(np.block([[cov, 0 * eye], [0 * eye, cov]]))
    tilted = precision - np.block([[0 * eye, form.T], [form, 0 * eye]])
    both = np.concatenate([mean, mean])
    log = (precision @ both) @ np.linalg.solve(tilted, precision @ both) - both @ precision @ both
    exact = np.exp(log / 2) * np.sqrt(np.linalg.det(precision) / np.linalg.det(tilted))
    for found in averaged_exponentials(mean, root, cov, form):
        np.testing.assert_allclose(found, exact, rtol=1e-10)


def test_the_interaction_energy_is_infinite_where_it_has_no_bound():
    energy = jax.jit(lambda beta, mean: mf.InteractionEnergy(beta)(mf.Gaussian(mean, jnp.eye(3))))
    assert energy(0.99, jnp.zeros(3)) < np.inf
    assert energy(1.0, jnp.zeros(3)) == np.inf
    assert energy(0.0, jnp.ones(3)) == pytest.approx(1.5, rel=1e-12)


@pytest.mark.parametrize("d", [2, 10])
def test_the_closure_of_unnormalised_attention_has_the_rates_of_derivatives_of_its_average(d):
    """`E v = V ∂_s F(s, 0)` and `E[v z^T] = ...` from `F(s, r) = ∬ e^{<Ax, y> + <s, y> + <r, z>}`, by differentiation."""
    draw = np.random.default_rng(d)
    mean, root = jnp.asarray(draw.normal(size=d) / 3), jnp.asarray(draw.normal(size=(d, d)) / d)
    form, value = jnp.asarray(draw.normal(size=(2, d, d)) / (d + 2))

    def average(s, r):  # over y of e^{<Ax + s, y>} and over z of the rest, both Gaussian
        B = root.T @ form @ root
        b = root.T @ form.T @ mean + B.T @ root.T @ (form @ mean + s) + r
        log = (form @ mean + s) @ mean + jnp.sum((root.T @ (form @ mean + s)) ** 2) / 2
        return jnp.exp(
            log + b @ jnp.linalg.solve(jnp.eye(d) - B.T @ B, b) / 2 - jnp.linalg.slogdet(jnp.eye(d) - B.T @ B)[1] / 2
        )

    zero = jnp.zeros(d)
    exact = jax.jit(
        lambda: (value @ jax.grad(average)(zero, zero), value @ jax.jacfwd(jax.grad(average), 1)(zero, zero))
    )()
    field = mf.UnnormalisedAttention(form, value)
    heads = mf.MultiHead([field, field], jnp.tile(jnp.eye(d) / 2, (2, 1, 1)))
    for same in (field, 0.5 * field + 0.5 * field, heads):
        rate = rates(mf.MomentClosure(same), mf.Gaussian.from_root(mean, root))
        np.testing.assert_allclose(rate.mean, exact[0], rtol=1e-9)
        np.testing.assert_allclose(rate.root, exact[1], rtol=1e-9, atol=1e-11)


def test_an_average_that_two_rules_see_differently_is_refused():
    wide = mf.Gaussian(jnp.zeros(10), jnp.eye(10))
    with pytest.raises(ValueError, match="Quadrature does not resolve the integrand on this Gaussian in 10 dimensions"):
        wide.expect(lambda x: jnp.exp(x.sum()))
    with pytest.raises(ValueError, match="Quadrature does not resolve `field`"):
        mf.evolve(mf.MomentClosure(mf.GradientFlow(-mf.InteractionEnergy(0.5))), wide, [0.0, 0.1])
    assert wide.expect(lambda x: (x @ x) ** 2) == pytest.approx(10 * 12, rel=1e-12)


@pytest.mark.parametrize("d", [1, 3, 6, 7, 8, 12])
def test_the_second_rule_is_another_one_of_degree_five(d):
    nodes, weights = second_rule(d)
    assert nodes.shape != normal_rule(d)[0].shape or np.abs(nodes - normal_rule(d)[0]).max() > 0.1
    square = (nodes**2).sum(1)
    moments = [weights.sum(), weights @ square / d, weights @ square**2 / (d * (d + 2)), weights @ nodes[:, 0] ** 4 / 3]
    np.testing.assert_allclose(moments, 1.0, rtol=1e-12)


def test_an_affine_field_is_its_own_closure():
    field = mf.SoftmaxAttention(A, V)
    np.testing.assert_allclose(velocity(mf.MomentClosure(field), MU), velocity(field, MU), atol=1e-12)


def test_a_closure_needs_a_gaussian():
    with pytest.raises(TypeError, match="needs a `Gaussian`; got Particles"):
        mf.MomentClosure(mf.SoftmaxAttention(A, V))(0.0, XS, mf.Particles(mf.Euclidean(2), XS))


def test_the_covariance_follows_the_riccati_closed_form():
    identity = jnp.eye(2)
    end = 0.8 * float(theory.blow_up_time(COV, -A @ A.T + A, identity))
    end = min(end, 1.0)
    times = jnp.linspace(0.0, end, 5)
    field = mf.SoftmaxAttention(-A @ A.T + A, identity)
    path = mf.evolve(field, CENTRED, times, mf.Adaptive(rtol=1e-12))
    closed = jax.jit(jax.vmap(lambda t: theory.covariance(t, COV, -A @ A.T + A, identity)))(times)
    np.testing.assert_allclose(path.measures.cov, closed, rtol=1e-9)


@pytest.mark.parametrize("mean", [[0.0, 0.0], [1.0, -1.0]], ids=["centred", "moving"])
def test_a_blow_up_is_an_outcome_with_its_time(mean):
    form = jnp.array([[0.4, 1.0], [-0.2, -0.3]])
    path = mf.evolve(mf.SoftmaxAttention(form, jnp.eye(2)), mf.Gaussian(mean, COV), [0.0, 50.0])
    time = theory.blow_up_time(COV, form, jnp.eye(2))
    assert path.outcome.blew_up
    # Steps shrink until time has no finer ones; what is left is the error of the solver on the way.
    assert path.stats["blow_up_time"] == pytest.approx(float(time), rel=1e-6)
    assert path.stats["engine"] == "closed form"


def test_the_rank_is_kept_because_the_root_moves():
    tall = np.random.default_rng(0).normal(size=(4, 2))
    cov = tall @ tall.T
    weights = [jnp.asarray(m) for m in np.random.default_rng(1).normal(size=(2, 4, 4)) / 4]
    path = mf.evolve(mf.SoftmaxAttention(*weights), mf.Gaussian(jnp.ones(4), cov), [0.0, 0.5, 1.0])
    values = np.linalg.eigvalsh(path.measures.cov)
    assert (values[:, 2] > 1e-3).all()
    assert (np.abs(values[:, 1]) < 1e-14 * values[:, 3]).all()


def test_gaussians_move_as_their_particles_do():
    """Tokens at quadrature nodes carry the law to quadrature accuracy: a particle flow that knows nothing of closures."""
    form, value = np.array([[-0.6, -0.1], [0.0, -0.4]]), np.array([[1.0, 0.2], [-0.1, 0.8]])
    mu = mf.Gaussian([0.5, 0.0], [[1.0, 0.3], [0.3, 0.5]])
    nodes, weights = normal_rule(2)
    light = weights > 1e-18
    tokens = mf.Particles(mf.Euclidean(2), mu.place(jnp.asarray(nodes[light])), weights[light])
    field, times = mf.SoftmaxAttention(form, value), [0.0, 0.5]
    law, cloud = (mf.evolve(field, start, times).final for start in (mu, tokens))
    w, x = np.asarray(cloud.weights), np.asarray(cloud.points)
    np.testing.assert_allclose(law.mean, w @ x, atol=1e-7)  # the tolerance of the solver
    np.testing.assert_allclose(law.cov, (w * (x - w @ x).T) @ (x - w @ x), atol=1e-7)


def test_heat_widens_the_covariance_at_twice_the_temperature():
    rate = MU.diffuse(0.7)
    np.testing.assert_allclose(rate.root @ MU.root.T + MU.root @ rate.root.T, 1.4 * np.eye(2), atol=1e-14)
    np.testing.assert_array_equal(rate.mean, 0.0)


def test_noise_on_a_singular_covariance_gets_a_sentence():
    flat = mf.Gaussian([0.0, 0.0], [[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(Exception, match="not singular"):
        flat.diffuse(0.1)
    both = mf.GaussianMixture([0.5, 0.5], [[0.0, 0.0]] * 2, [np.eye(2), np.diag([1.0, 0.0])])
    for measure in (flat, both):
        with pytest.raises(ValueError, match="not singular"):
            mf.Flow(mf.LinearAttention.isotropic(2), measure, [0.0, 1.0], noise=mf.Langevin(0.1))


def test_noise_and_a_restoring_field_give_the_law_of_ornstein_and_uhlenbeck():
    field = mf.Perceptron(-jnp.eye(2), jnp.eye(2), jnp.zeros(2), activation=lambda x: x)
    law = mf.evolve(field, MU, [0.0, 0.8], mf.Adaptive(rtol=1e-11), noise=mf.Langevin(0.7)).final
    decay = np.exp(-1.6)
    np.testing.assert_allclose(law.cov, decay * COV + 0.7 * (1 - decay) * np.eye(2), rtol=1e-9)
    np.testing.assert_allclose(law.mean, np.exp(-0.8) * MEAN, rtol=1e-9)


def test_samples_have_the_moments_of_the_law():
    tokens = MU.sample(20_000, key=0)
    points = np.asarray(tokens.points)
    # Five standard errors.
    assert (np.abs(points.mean(0) - MEAN) < 5 * np.sqrt(np.diag(COV) / 20_000)).all()
    np.testing.assert_array_equal(tokens.log_weights, -np.log(20_000))
    np.testing.assert_allclose(np.cov(points.T, bias=True), COV, atol=5 * 2 / 141)


def test_a_batch_of_gaussians_flows_under_vmap_and_a_sweep_compiles_once():
    traces = []

    @jax.jit
    def final(scale):
        traces.append(1)
        return mf.evolve(mf.SoftmaxAttention(scale * A, V), MU, jnp.array([0.0, 0.1])).final.cov

    batch = jax.vmap(final)(jnp.array([0.1, 0.2]))
    count = len(traces)
    for scale, cov in zip((0.1, 0.2), batch, strict=True):
        np.testing.assert_allclose(final(jnp.asarray(scale)), cov, rtol=1e-12)
    assert len(traces) == count + 1


@pytest.mark.slow
def test_a_flow_can_be_differentiated_with_respect_to_the_first_root():
    @jax.jit
    def spread(root):
        start = mf.Gaussian.from_root(MEAN, root)
        return jnp.trace(mf.evolve(mf.SoftmaxAttention(A, V), start, jnp.array([0.0, 0.1])).final.cov)

    gradient = jax.jit(jax.grad(spread))(MU.root)
    step = 1e-5 * np.array([[1.0, -0.5], [0.3, 0.8]])
    difference = (spread(MU.root + step) - spread(MU.root - step)) / 2
    np.testing.assert_allclose(
        (gradient * step).sum(), difference, rtol=1e-4
    )  # the steps of the solver differ a little


def test_energies_on_gaussians_are_those_of_the_closed_forms():
    form = (A + A.T) / 2
    value = eqx.filter_jit(lambda energy, mu: energy(mu))
    np.testing.assert_allclose(value(mf.ScoreEnergy(form), CENTRED), theory.score_energy(COV, form), rtol=1e-12)
    np.testing.assert_allclose(value(mf.SinkhornEnergy(form), CENTRED), theory.sinkhorn_energy(COV, form), rtol=1e-9)


FLOWS = {
    "softmax": (mf.SoftmaxAttention(A + A.T, A + A.T), mf.GradientFlow(-mf.ScoreEnergy(A + A.T))),
    "Sinkhorn": (mf.SinkhornAttention(A + A.T, -A - A.T), mf.GradientFlow(mf.SinkhornEnergy(A + A.T))),
    "twisted softmax": (mf.SoftmaxAttention(COV, 1.7 * np.eye(2)), mf.TwistedFlow(-mf.ScoreEnergy(COV), COV / 1.7)),
}


@pytest.mark.parametrize(("attention", "descent"), FLOWS.values(), ids=FLOWS.keys())
def test_attention_on_centred_gaussians_is_a_gradient_flow(attention, descent):
    np.testing.assert_allclose(velocity(attention, CENTRED), velocity(descent, CENTRED), atol=1e-10)


@pytest.mark.parametrize("kind", ["softmax", pytest.param("Sinkhorn", marks=pytest.mark.slow), "twisted softmax"])
def test_energy_falls_at_the_rate_of_squared_speed(kind):
    _, descent = FLOWS[kind]
    metric = np.asarray(descent.metric) if isinstance(descent, mf.TwistedFlow) else np.eye(2)

    @eqx.filter_jit
    def fall(mu):
        rate = mu.transport(lambda xs: descent(0.0, xs, mu))
        return jax.jvp(descent.energy, (mu,), (rate,))[1], rate.root

    change, root = fall(CENTRED)
    np.testing.assert_allclose(change, -np.trace(metric @ root @ root.T), rtol=1e-8)  # Sinkhorn's tolerance


def test_linear_attention_ascends_the_score_energy_on_particles_too():
    form = A + A.T
    tokens = mf.Particles(mf.Euclidean(2), XS)
    ascent = velocity(mf.GradientFlow(-mf.ScoreEnergy(form)), tokens)
    np.testing.assert_allclose(velocity(mf.LinearAttention(form, form), tokens), ascent, atol=1e-13)


BAD = {
    "not symmetric": (lambda: mf.Gaussian([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]), "`cov` must be symmetric; it is off by 0.5"),
    "not positive": (lambda: mf.Gaussian([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "least eigenvalue is -1"),
    "wrong size": (lambda: mf.Gaussian([0.0], jnp.eye(2)), "`cov` must have shape (1, 1); got (2, 2)"),
    "mean of a batch": (lambda: mf.Gaussian([[0.0]], [[1.0]]), "`mean` must have shape (d,)"),
    "NaN": (lambda: mf.Gaussian([np.nan], [[1.0]]), "`mean` has 1 NaN"),
    "layers": (lambda: mf.layers(mf.SoftmaxAttention(A, V), mf.CircleDensity.uniform(4), 2), "`mu0` must have tokens"),
    "engine": (lambda: mf.evolve(mf.SoftmaxAttention(A, V), MU, [0.0, 1.0], engine=mf.sums.Dense()), "`engine`"),
    "not quadratic": (lambda: MU.potential(lambda y: (y**3).sum(-1)), "must be quadratic"),
    "no mass": (lambda: MU.weigh(MU.potential(lambda y: 9 * (y**2).sum(-1))), "has no mass"),
    "metric": (lambda: mf.TwistedFlow(mf.ScoreEnergy(jnp.eye(2)), -jnp.eye(2)), "`metric` must be positive definite"),
    "energy": (lambda: mf.ScoreEnergy([[0.0, 1.0], [0.0, 0.0]]), "`form` must be symmetric"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "words"), BAD.values(), ids=BAD.keys())
def test_bad_input_gets_a_sentence(make, words):
    with pytest.raises(ValueError, match="`") as caught:
        make()
    assert words in str(caught.value)


def test_integers_become_floats_and_float32_stays():
    assert mf.Gaussian([0, 0], [[1, 0], [0, 1]]).root.dtype == jnp.float64
    single = mf.Gaussian(jnp.zeros(2, jnp.float32), jnp.eye(2, dtype=jnp.float32))
    assert mf.evolve(mf.SoftmaxAttention(A, V), single, [0.0, 0.1]).final.root.dtype == jnp.float32
