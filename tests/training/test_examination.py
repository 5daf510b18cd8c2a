"""Particles on the examination table: a risk with weight decay is examined as the sum that it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import training
from measureflow.training import fixtures

RISK, DECAY = fixtures.f2(), 0.3
SEARCH = {"starts": 8, "steps": 40}


@pytest.fixture(scope="module")
def rest():
    """One head at rest under weight decay."""
    point = training.perturbation.rest_point(RISK + training.Ridge(DECAY), jnp.array([-0.3, 0.1, -0.1, -0.5]))
    return mf.Particles(RISK.heads.space, point[None])


@pytest.fixture(scope="module")
def both(rest):
    """The sum, and the risk alone of heads that rest under the same decay."""
    energy = RISK + training.Ridge(DECAY)
    return training.examine(energy, rest, rounds=2, **SEARCH), training.examine(
        RISK, rest, decay=DECAY, rounds=2, **SEARCH
    )


def test_a_sum_moves_as_its_risk_does_under_the_same_decay(both):
    summed, alone = both
    assert summed.dissipation == pytest.approx(alone.dissipation, abs=1e-15)
    np.testing.assert_allclose(summed.spectra[0], alone.spectra[0], rtol=1e-9)
    np.testing.assert_allclose(summed.spectra[1], alone.spectra[1], rtol=1e-9)
    assert summed.stability.rate == pytest.approx(alone.stability.rate)


def test_the_bound_of_a_sum_is_that_of_the_sum(both, rest):
    """Its risk has the penalty in it, and no measure of particles of the set that is tried goes below its lower bound."""
    summed, alone = both
    energy, found = RISK + training.Ridge(DECAY), summed.certificate
    penalty = DECAY / 2 * float(jnp.sum(rest.points**2))
    assert penalty > 0.01
    assert found.risk == pytest.approx(4.913522914993, abs=1e-9)  # the rest point of the table of certificates
    assert found.risk == pytest.approx(alone.certificate.risk + penalty, rel=1e-12)
    assert found.risk == pytest.approx(summed.optimum.risk, rel=0.1)
    assert found.lower_bound > alone.certificate.lower_bound
    tried = jax.vmap(RISK.heads.hull(rest.points).project)(jax.random.normal(jax.random.key(0), (200, 4)))
    values = jax.vmap(lambda x: energy(mf.Particles(RISK.heads.space, x[None])))(tried)
    assert float(values.min()) >= found.lower_bound - 1e-12


@pytest.mark.slow
def test_the_decay_that_factors_share_is_that_of_the_sum():
    full = fixtures.f1()
    mu = mf.Particles(full.heads.space, fixtures.f1_heads(1))
    found = training.examine(full + training.Ridge(0.2), mu, **SEARCH)
    assert found.balance[1] == pytest.approx(0.2)
    assert "largest -Ψ of unit factors" in dict(found.report.rows)


def test_what_has_no_certificate_is_refused_with_what_to_write(rest):
    energy = RISK + training.Ridge(DECAY)
    with pytest.raises(ValueError, match=r"`decay` 0.1 is for a risk alone, and `risk` has a `Ridge"):
        training.examine(energy, rest, decay=0.1)
    for other in (energy + training.Ridge(0.1), 2.0 * RISK, RISK + RISK, mf.InteractionEnergy(1.0)):
        with pytest.raises(ValueError, match=r"or one `\+ Ridge\(...\)` with all its strengths; got"):
            training.examine(other, rest)
