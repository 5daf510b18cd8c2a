"""Mixtures obey the laws of measures, and move near the particles that they stand for."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.measures.quadrature import normal_rule

rng = np.random.default_rng(11)
WEIGHTS = np.array([1.0, 2.0, 3.0])
MEANS = rng.normal(size=(3, 2))
ROOTS = rng.normal(size=(3, 2, 2)) / 3
COVS = ROOTS @ ROOTS.mT
MU = mf.GaussianMixture(WEIGHTS, MEANS, COVS)
A, V, Q, K = (jnp.asarray(m) for m in rng.normal(size=(4, 2, 2)) / 2)
XS = jnp.asarray(rng.normal(size=(5, 2)))


def tokens(mu, least=1e-20):
    """Weighted tokens at the quadrature nodes of the components: the law to quadrature accuracy."""
    nodes, weights = normal_rule(2)
    points = np.asarray(mu.means)[:, None] + np.einsum("kde,ne->knd", mu.parts.root, nodes)
    mass = np.asarray(mu.weights)[:, None] * weights[None]
    kept = (mass > least).ravel()
    return mf.Particles(mf.Euclidean(2), points.reshape(-1, 2)[kept], mass.ravel()[kept])


CLOUD = tokens(MU)


@eqx.filter_jit
def velocity(field, mu):
    return field(0.0, XS, mu)


@eqx.filter_jit
def rates(field, mu):
    return mu.transport(lambda xs: field(0.0, xs, mu))


@eqx.filter_jit
def moments(mu):
    return mu.mean, mu.cov


def test_averages_know_the_moments():
    spread = lambda mu: mu.expect(lambda x: jnp.outer(x - mu.mean, x - mu.mean))  # noqa: E731
    first, second = eqx.filter_jit(lambda mu: (mu.expect(lambda x: x), spread(mu)))(MU)
    mean, cov = moments(MU)
    np.testing.assert_allclose(first, mean, atol=1e-13)
    np.testing.assert_allclose(second, cov, atol=1e-13)


FIELDS = {
    "softmax": mf.SoftmaxAttention(A, V),
    "L2": mf.L2Attention(Q, K, V),
    "unnormalised": mf.UnnormalisedAttention(A, V),
    "sigmoid": mf.SigmoidAttention(A, V),
    "linear": mf.LinearAttention(A, V),
}


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS.keys())
def test_fields_see_the_mixture_as_quadrature_does(field):
    np.testing.assert_allclose(velocity(field, MU), velocity(field, CLOUD), atol=1e-10)


def test_one_component_is_a_gaussian():
    one, gaussian = mf.GaussianMixture([2.0], MEANS[:1], COVS[:1]), mf.Gaussian(MEANS[0], COVS[0])
    ours, theirs = (rates(FIELDS["softmax"], mu) for mu in (one, gaussian))
    np.testing.assert_allclose(ours.parts.mean[0], theirs.mean, atol=1e-12)
    np.testing.assert_allclose(ours.parts.root[0], theirs.root, atol=1e-12)


def test_splitting_a_component_into_two_shares_changes_nothing():
    split = mf.GaussianMixture([0.3, 0.7, 2.0, 3.0], MEANS[[0, 0, 1, 2]], COVS[[0, 0, 1, 2]])
    seen, whole = (eqx.filter_jit(lambda mu: mu.attend(XS).log_mass)(mu) for mu in (split, MU))
    np.testing.assert_allclose(seen, whole, atol=1e-14)
    moved = rates(FIELDS["softmax"], split).parts
    np.testing.assert_allclose(moved.root[0], moved.root[1], atol=1e-14)


def test_transport_keeps_weights_and_gives_moments_their_true_rates():
    """The rates of the first two moments of the whole are those of the particles."""
    ours, theirs = (rates(FIELDS["softmax"], mu) for mu in (MU, CLOUD))
    np.testing.assert_array_equal(ours.parts.log_mass, 0.0)
    both = lambda mu: (mu.mean, mu.cov + jnp.outer(mu.mean, mu.mean))  # noqa: E731
    mean, second = eqx.filter_jit(lambda mu, rate: jax.jvp(both, (mu,), (rate,))[1])(MU, ours)
    weighted = np.asarray(CLOUD.weights)[:, None] * np.asarray(theirs.points)
    np.testing.assert_allclose(mean, weighted.sum(0), atol=1e-12)
    mixed = weighted.T @ np.asarray(CLOUD.points)
    np.testing.assert_allclose(second, mixed + mixed.T, atol=1e-12)


def test_the_error_against_particles_is_of_second_order_in_time():
    field = mf.SoftmaxAttention([[-1.0]], [[1.0]])
    start = mf.GaussianMixture([1.0, 1.0], [[-1.0], [1.2]], [[[0.3]], [[0.2]]])
    z, w = np.polynomial.hermite_e.hermegauss(40)
    z, w = z[w > 1e-16], w[w > 1e-16]
    points = np.concatenate([-1 + z * np.sqrt(0.3), 1.2 + z * np.sqrt(0.2)])[:, None]
    cloud = mf.Particles(mf.Euclidean(1), points, np.concatenate([w, w]))
    times, solver = [0.0, 0.0125, 0.025, 0.4], mf.Adaptive(rtol=1e-11)
    ours, theirs = (mf.evolve(field, mu, times, solver) for mu in (start, cloud))
    weights, x = np.exp(np.asarray(theirs.measures.log_weights)), np.asarray(theirs.measures.points)[..., 0]
    cov = (weights * x**2).sum(1) - (weights * x).sum(1) ** 2
    errors = np.abs(ours.map(lambda mu: mu.cov)[:, 0, 0] - cov)
    # Two to the order; the next order changes the ratio by a multiple of the time.
    assert errors[2] / errors[1] == pytest.approx(4.0, rel=0.1)
    assert errors[3] < 5e-3 * cov[3]


def test_heat_widens_every_component():
    cov = eqx.filter_jit(lambda mu: jax.jvp(lambda mu: mu.covs, (mu,), (mu.diffuse(0.5),))[1])(MU)
    np.testing.assert_allclose(cov, np.broadcast_to(np.eye(2), (3, 2, 2)), atol=1e-12)


def test_samples_have_the_moments_of_the_law():
    drawn, (mean, cov) = MU.sample(20_000, key=1), moments(MU)
    found = np.asarray(drawn.weights) @ np.asarray(drawn.points)
    # Five standard errors.
    assert (np.abs(found - mean) < 5 * np.sqrt(np.diag(cov) / 20_000)).all()


BAD = {
    "not positive": (lambda: mf.GaussianMixture([1.0, 1.0], MEANS[:2], [np.eye(2), -np.eye(2)]), "`covs[1]` must be positive"),
    "not symmetric": (lambda: mf.GaussianMixture([1.0], MEANS[:1], [[[1.0, 0.5], [0.0, 1.0]]]), "`covs[0]` must be symmetric"),
    "weights": (lambda: mf.GaussianMixture([1.0, 0.0], MEANS[:2], COVS[:2]), "`weights` must be positive"),
    "count": (lambda: mf.GaussianMixture([1.0], MEANS[:2], COVS[:2]), "one weight for each component"),
    "one covariance": (lambda: mf.GaussianMixture([1.0], MEANS[:1], COVS[0]), "`covs` must have shape (1, 2, 2)"),
    "engine": (lambda: MU.using(mf.sums.Dense()), "`engine`"),
    "not quadratic": (lambda: MU.potential(lambda y: (y**3).sum(-1)), "must be quadratic"),
    "Sinkhorn": (lambda: mf.evolve(mf.SinkhornAttention(A, V), MU, [0.0, 0.1]), "no finite velocity"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "words"), BAD.values(), ids=BAD.keys())
def test_bad_input_gets_a_sentence(make, words):
    with pytest.raises(ValueError, match="`") as caught:
        make()
    assert words in str(caught.value)
