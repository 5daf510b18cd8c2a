"""Which fields are gradients, and the balance of a time-dependent energy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.diagnostics import curl, energy_balance

RNG = np.random.default_rng(1)
S = RNG.normal(size=(2, 2))
S = S + S.T


@pytest.fixture(scope="module")
def mu():
    return mf.Particles(mf.Euclidean(2), mf.Particles.iid(mf.Euclidean(2), 6, key=3).points, jnp.arange(1.0, 7.0))


@pytest.mark.parametrize(
    "field",
    [mf.UnnormalisedAttention(S, S), mf.SinkhornAttention(S, -S), mf.LinearAttention(S, S)],
    ids=lambda f: type(f).__name__,
)
def test_gradient_fields_have_no_curl(field, mu):
    # The Sinkhorn sweeps stop at changes of 1e-12.
    assert curl(field, mu) < 1e-10


@pytest.mark.parametrize(
    "field",
    [mf.SoftmaxAttention(S, S), mf.UnnormalisedAttention(S, np.eye(2)), mf.Causal(mf.UnnormalisedAttention(S, S))],
    ids=["softmax", "V not A", "causal"],
)
def test_other_fields_have_one(field, mu):
    assert curl(field, mu) > 0.01


def test_the_row_sums_repair_the_softmax_field(mu):
    @eqx.filter_jit
    def both(mu):
        soft, plain = mf.SoftmaxAttention(S, S), mf.UnnormalisedAttention(S, S)
        Z = jnp.exp(mu.attend(mu.points @ S.T).log_mass)[:, None]
        return Z * soft(0.0, mu.points, mu), plain(0.0, mu.points, mu)

    np.testing.assert_allclose(*both(mu), rtol=1e-12)


def test_sinkhorn_attention_descends_its_energy(mu):
    energy = mf.SinkhornEnergy(S)
    fields = mf.SinkhornAttention(S, -S), mf.GradientFlow(energy)

    @eqx.filter_jit
    def roads(mu):
        gradient = jax.grad(lambda x: energy(mf.Particles(mu.space, x, mu.weights)))(mu.points) / mu.weights[:, None]
        return gradient, *(field(0.0, mu.points, mu) for field in fields)

    gradient, flow, descent = map(np.asarray, roads(mu))
    # Both come from sweeps that stop at changes of 1e-12.
    np.testing.assert_allclose(flow, -gradient, atol=1e-9)
    np.testing.assert_allclose(descent, flow, atol=1e-9)


def test_the_energy_of_time_dependent_heads_is_balanced(mu):
    def energy(t):
        return -mf.BilinearEnergy(jnp.sin(t) * S) - mf.BilinearEnergy(jnp.exp(-t) * jnp.eye(2))

    found = eqx.filter_jit(lambda mu: energy_balance(energy, mu, 0.7))(mu)
    assert found.dissipation > 0.01
    assert abs(found.explicit) > 0.01
    np.testing.assert_allclose(found.change, found.explicit - found.dissipation, rtol=1e-10)
