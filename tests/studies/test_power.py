"""Studies can fail: with an error planted in what they judge, their verdict is not as expected."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow import studies
from measureflow.diagnostics import estimate
from measureflow.energies import GradientFlow
from measureflow.fields import HardmaxAttention, SinkhornAttention, SoftmaxAttention, UnnormalisedAttention
from measureflow.fields.sinkhorn import Potentials
from measureflow.measures import Particles
from measureflow.spaces import Sphere
from measureflow.theory import synchronization
from measureflow.training import Ridge


def half_the_scores(self, t, xs, mu):
    return mu.attend(xs @ self.interaction.T / 2).mean @ self.value.T


def transposed_form(self, t, xs, mu):
    return mu.farthest(xs @ self.interaction, self.tie) @ self.value.T


def no_sweep(self, mu):
    zero = mu.potential(lambda x: jnp.zeros(len(x), x.dtype))
    return Potentials(zero, zero, jnp.zeros(()), jnp.array(0))


def uphill(self, t, xs, mu):
    return jax.grad(lambda points: self.energy.variation(mu, points).sum())(xs)


def equal_weights(self, covectors):
    return self.engine.attend(covectors, self.points, jnp.full_like(self.log_weights, -jnp.log(len(self.points))))


def with_half_the_scores(self, t, xs, mu):
    seen = mu.attend(xs @ self.interaction.T / 2)
    return jnp.exp(seen.log_mass)[:, None] * seen.mean @ self.value.T


def on_a_grid_alone(cells, places, weights, h):
    return np.unique(cells[::6])


PLANTED = [
    (Sphere, "tangent", lambda self, x, v: v, "layernorm-unnormalised-is-flow-on-the-sphere"),
    (Particles, "attend", equal_weights, "layernorm-unnormalised-is-flow-on-the-sphere"),
    (HardmaxAttention, "__call__", transposed_form, "negative-key-query-contracts-hardmax-to-zero"),
    (SoftmaxAttention, "__call__", half_the_scores, "negative-value-matrix-contracts-to-zero"),
    (SinkhornAttention, "potentials", no_sweep, "attention-slope-bounded-by-value-key-radius"),
    (
        Ridge,
        "variation",
        lambda self, mu, xs: self.strength * (xs**2).sum(-1),
        "confinement-holds-with-ridge-on-bounded-features",
    ),
    (GradientFlow, "__call__", uphill, "negative-translation-direction-is-unstable"),
    (UnnormalisedAttention, "__call__", with_half_the_scores, "circle-synchronizes-in-the-proved-range"),
    (UnnormalisedAttention, "__call__", with_half_the_scores, "mean-field-rate-is-set-by-the-antipode"),
    (estimate, "_separated", on_a_grid_alone, "kde-modes-shrink-with-bandwidth"),
    (synchronization, "_rise", lambda second, third: jnp.ones(()), "circle-criterion-holds-from-minus-016"),
]


@pytest.fixture
def plant(monkeypatch):
    """Replace a method for one test; nothing compiled before or meanwhile is used on the other side."""
    jax.clear_caches()
    yield lambda owner, name, wrong: monkeypatch.setattr(owner, name, wrong)
    monkeypatch.undo()
    jax.clear_caches()


@pytest.mark.parametrize(
    ("owner", "method", "wrong", "study"), PLANTED, ids=[f"{owner.__name__}-{study}" for owner, _, _, study in PLANTED]
)
def test_a_planted_error_turns_the_verdict(plant, owner, method, wrong, study):
    plant(owner, method, wrong)
    assert not studies.run(study).as_expected


@pytest.mark.parametrize(
    "study", ["negative-key-query-contracts-hardmax-to-zero", "negative-value-matrix-contracts-to-zero"]
)
def test_a_claim_that_needs_hypotheses_has_a_twin_that_differs_without_them(study):
    twin = studies.run(f"{study}-as-published")
    assert twin.as_expected
    assert not any(check.holds for check in twin.checks)
