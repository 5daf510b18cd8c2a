"""The normalisation of mean-field training: the gradient of the first variation is `N` times that of a head."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.energies import GradientFlow
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_agreement, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_least, equal
from measureflow.training import HeadRisk, fixtures

CLAIM = Claim(
    "Equations (11)-(13), (17)-(18): Ψ is the first variation of a risk convex in the measure, its gradient is N times the "
    "head gradient of the finite risk, and the sample gradient is unbiased.",
    reference="heads:26",
    where="equations (11)-(13), (17)-(18)",
)
SHARES = np.linspace(0.05, 0.95, 10)


@eqx.filter_jit
def slopes(risk: HeadRisk, mu: Particles):
    """The gradient of the first variation at the heads."""
    return -GradientFlow(risk)(0.0, mu.points, mu)


def one_sequence(risk: HeadRisk, s: int) -> HeadRisk:
    """The risk of a single sequence, as one step of stochastic descent sees it."""
    parts = (risk.tokens[s : s + 1], risk.targets[s : s + 1], len(risk.tokens) * risk.shares[s : s + 1])
    return eqx.tree_at(lambda r: (r.tokens, r.targets, r.shares), risk, parts)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Three heads of the fixture F1, and mixtures of them with two others."""
    risk, heads = fixtures.f1(), fixtures.f1_heads(7)
    mu = Particles(Euclidean(24), heads[:3])
    value = eqx.filter_jit(risk)
    gradient = jax.jit(jax.grad(lambda x: risk(Particles(mu.space, x))))(mu.points)
    psi = eqx.filter_jit(risk.variation)(mu, heads)
    ends = jnp.concatenate([heads[:3], heads[5:7]])

    def mixture(s):
        return float(value(Particles(mu.space, ends, np.r_[np.full(3, (1 - s) / 3), np.full(2, s / 2)])))

    shares = SHARES
    along = np.array([mixture(s) for s in shares])
    single = np.stack([slopes(one_sequence(risk, s), mu) for s in range(6)])
    drawn = np.stack([slopes(risk.draw(key, 1), mu) for key in jax.random.split(jax.random.key(seed), 40)])
    away = np.abs(drawn[:, None] - single[None]).max((2, 3))
    derivative = float(psi[5:7].mean() - psi[:3].mean())
    quotient = (mixture(1e-4) - float(value(mu))) / 1e-4
    return CLAIM.judge(
        # Printed digits of the sheet; identities to rounding.
        equal("R of three heads", 5.553382599143548, value(mu), 1e-10),
        equal("Ψ of the first head", -0.0063720916883, psi[0], 1e-10),
        equal("N dR_N/dθ - ∇Ψ", 0.0, np.abs(3 * gradient - slopes(risk, mu)).max(), 1e-10),
        equal("mean of sample gradients - ∇Ψ", 0.0, np.abs(single.mean(0) - slopes(risk, mu)).max(), 1e-10),
        # Each draw is one of the six sequences, and all are drawn: one is missing with probability 6 (5/6)^40 = 4e-3 at most
        # in 40 draws, so five must be.
        equal("drawn gradients - those of sequences", 0.0, away.min(1).max(), 1e-10),
        at_least("sequences that are drawn", 5, len(set(away.argmin(1)))),
        equal("directional derivative", -0.0037737113, derivative, 1e-10),
        # The quotient is off by 5.467e-4 times the share.
        equal("difference quotient", derivative + 5.467e-4 * 1e-4, quotient, 1e-6),
        at_least("least second difference along the mixture", 0.0, np.diff(along, 2).min()),
        data=(
            along,
            float(value(mu)) + shares * derivative,
            equal("N times the head gradient", slopes(risk, mu), 3 * gradient, 1e-10),
        ),
    )


def draw(data: tuple[np.ndarray, np.ndarray, Check]) -> Figure:
    """The risk along a mixture between its tangent and its chord, and the gradients of both normalisations."""
    along, tangent, gradients = data
    figure, (left, right) = panels(2)
    chord = np.interp(SHARES, SHARES[[0, -1]], along[[0, -1]])
    curve = Curve("mixture of measures", SHARES, along - chord, tangent - chord, (tangent - chord, 0.0 * chord))
    draw_curves(left, [curve], "share of the second measure", "risk minus its chord", law="tangent at the start")
    draw_agreement(right, gradients)
    return figure
