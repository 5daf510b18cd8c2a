"""The interaction energy, its first variation and its flow."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf

ENERGIES = {
    "beta = 0": mf.InteractionEnergy(0.0),
    "beta = 2": mf.InteractionEnergy(2.0),
    "beta = -1": mf.InteractionEnergy(-1.0),
    "bilinear": mf.BilinearEnergy([[1.0, 0.5, 0.0], [-0.2, 0.3, 0.1], [0.0, 0.4, -0.6]]),
    "sum": mf.InteractionEnergy(1.0) + 3.0 * mf.InteractionEnergy(0.5) - mf.InteractionEnergy(2.0),
}


@pytest.fixture(params=ENERGIES.values(), ids=ENERGIES.keys())
def energy(request):
    return request.param


@pytest.fixture(scope="module")
def mu():
    return mf.Particles(mf.Sphere(3), mf.Particles.iid(mf.Sphere(3), 7, key=1).points, jnp.arange(1.0, 8.0))


@eqx.filter_jit
def value(energy, mu):
    return energy(mu)


@eqx.filter_jit
def velocity(field, mu):
    return field(0.0, mu.points, mu)


def test_the_energy_is_the_double_sum_of_the_paper(mu):
    x, w = np.asarray(mu.points), np.asarray(mu.weights)
    np.testing.assert_allclose(value(mf.InteractionEnergy(2.0), mu), w @ np.exp(2 * x @ x.T) @ w / 4, rtol=1e-13)
    np.testing.assert_allclose(value(mf.InteractionEnergy(0.0), mu), w @ (x @ x.T) @ w / 2, rtol=1e-13)


def test_the_first_variation_is_the_derivative_along_mixtures(energy, mu):
    nu = mf.Particles.iid(mf.Sphere(3), 5, key=9)

    # The derivative is taken at 1e-9 since weights must be positive; the energy is quadratic with a curvature of order 1.
    np.testing.assert_allclose(*slopes(energy, mu, nu), atol=1e-7)


@eqx.filter_jit
def slopes(energy, mu, nu):
    """The derivative along mixtures of two measures, and what the first variation says of it."""
    both = jnp.concatenate([mu.points, nu.points])

    def mixture(share):
        return energy(mf.Particles(mu.space, both, jnp.concatenate([(1 - share) * mu.weights, share * nu.weights])))

    variation = nu.weights @ energy.variation(mu, nu.points) - mu.weights @ energy.variation(mu, mu.points)
    return jax.jvp(mixture, (1e-9,), (1.0,))[1], variation


def test_particles_follow_the_gradient_of_the_energy_over_their_weight(energy, mu):
    flow = velocity(mf.GradientFlow(energy), mu)
    np.testing.assert_allclose(flow, -gradient(energy, mu) / mu.weights[:, None], rtol=1e-11, atol=1e-12)


@eqx.filter_jit
def gradient(energy, mu):
    return jax.grad(lambda x: energy(mf.Particles(mf.Euclidean(3), x, mu.weights)))(mu.points)


@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0, -1.0])
def test_ascending_the_energy_is_unnormalised_attention(beta, mu):
    ascent = mf.GradientFlow(-mf.InteractionEnergy(beta))
    attention = mf.UnnormalisedAttention.isotropic(3, beta)
    np.testing.assert_allclose(velocity(ascent, mu), velocity(attention, mu), rtol=1e-12, atol=1e-14)


def test_a_gradient_flow_descends(mu):
    path = mf.evolve(mf.GradientFlow(mf.InteractionEnergy(2.0)), mu, jnp.linspace(0.0, 1.0, 6))
    assert (np.diff(path.map(mf.InteractionEnergy(2.0))) < 0).all()


def test_the_isotropic_bilinear_energy_is_beta_times_the_interaction_energy(mu):
    bilinear = value(mf.BilinearEnergy(2.0 * np.eye(3)), mu)
    np.testing.assert_allclose(bilinear, 2 * value(mf.InteractionEnergy(2.0), mu), rtol=1e-14)


def test_consensus_has_the_largest_energy():
    beta = 3.0
    consensus = mf.Particles(mf.Sphere(3), np.tile([0.0, 0.0, 1.0], (4, 1)))
    np.testing.assert_allclose(value(mf.InteractionEnergy(beta), consensus), np.exp(beta) / (2 * beta), rtol=1e-14)


def test_a_formula_has_the_variation_of_the_energy_it_writes():
    """The variation of the interaction energy is known; its formula must give the same, at other points than the tokens."""
    mu = mf.Particles(mf.Sphere(3), mf.Particles.iid(mf.Sphere(3), 9, key=0).points, jnp.arange(1.0, 10.0))
    xs = mf.Particles.iid(mf.Sphere(3), 4, key=1).points
    known = mf.InteractionEnergy(2.0)
    formula = mf.Energy(lambda mu: mu.integrate(lambda xs: jnp.exp(mu.attend(2.0 * xs).log_mass)) / 4, label="cost C")

    @eqx.filter_jit
    def value_variation_velocity(energy):
        return energy(mu), energy.variation(mu, xs), mf.GradientFlow(-energy)(0.0, xs, mu)

    value, variation, velocity = value_variation_velocity(formula)
    exact_value, exact_variation, exact_velocity = value_variation_velocity(known)
    np.testing.assert_allclose(value, exact_value, rtol=1e-14)
    np.testing.assert_allclose(variation, exact_variation, rtol=1e-13)
    np.testing.assert_allclose(velocity, exact_velocity, rtol=1e-12)
    assert (formula.label, known.label) == ("cost C", "interaction energy E")


def test_a_formula_on_a_gaussian_descends_among_gaussians():
    """In one dimension E x⁴ = m⁴ + 6 m² s + 3 s², whose derivatives in m and s are those of the affine velocity."""
    mean, var = 0.7, 1.3
    quartic = mf.GradientFlow(mf.Energy(lambda mu: mu.expect(lambda x: jnp.sum(x**4))))
    mu, xs = mf.Gaussian([mean], [[var]]), np.array([[0.0], [2.0]])
    expected = -(4 * mean**3 + 12 * mean * var + 2 * (6 * mean**2 + 6 * var) * (xs - mean))
    np.testing.assert_allclose(quartic(0.0, jnp.asarray(xs), mu), expected, rtol=1e-12)


def test_a_formula_without_a_variation_says_where():
    still = mf.Energy(lambda mu: jnp.zeros(()))
    with pytest.raises(TypeError, match="on `Particles` and on a `Gaussian`; got CircleDensity"):
        still.variation(mf.CircleDensity.uniform(4), jnp.ones((1, 2)))
    with pytest.raises(ValueError, match="must give one number"):
        mf.Energy(lambda mu: mu.points)(mf.Particles(mf.Euclidean(1), [[0.5]]))
