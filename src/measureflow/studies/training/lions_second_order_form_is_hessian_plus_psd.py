"""The second derivative of the risk along moving heads is the Hessian of `Psi` plus a term that is never negative."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.measures import Particles
from measureflow.plotting import Figure, checks_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_least, equal
from measureflow.training import HeadRisk, fixtures
from measureflow.training.perturbation import splitting

CLAIM = Claim(
    "Remark 7.4, (47)-(49): the lifted Hessian is the head Hessian term plus a non-negative measure term.",
    reference="heads:26",
    where="remark 7.4, equations (47)-(49)",
)
STEP = 1e-3
"""Of the second differences: their error is its square, their rounding 1e-15 over its square."""


@eqx.filter_jit
def forms(risk: HeadRisk, mu: Particles, V: jnp.ndarray):
    """The second difference of the risk, the Hessian term and the measure term `E Σ |S^{1/2} E[J V]|²`."""

    def along(s):
        return risk(eqx.tree_at(lambda m: m.points, mu, mu.points + s * V))

    # Fourth-order differences, so that their error is far below their rounding.
    values = [along(k * STEP) for k in (-2, -1, 0, 1, 2)]
    difference = sum(c * v for c, v in zip((-1, 16, -30, 16, -1), values, strict=True)) / (12 * STEP**2)
    hessian = mu.weights @ jnp.sum(V * splitting(risk, mu)(V), -1)
    pushed = jax.vmap(lambda x, v: jax.jvp(risk.features, (x,), (v,))[1])(mu.points, V)
    d = jnp.tensordot(mu.weights, pushed, 1)
    p = jax.nn.softmax(risk.logits(mu))
    spread = jnp.sum(risk.shares * (jnp.sum(p * d**2, -1) - jnp.sum(p * d, -1) ** 2))
    return jnp.stack([difference, hessian, spread])


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Four heads of F1 and of F2 moved in random directions."""
    rng, found = np.random.default_rng(seed), []
    for risk in (fixtures.f1(), fixtures.f2()):
        D = risk.heads.size
        for _ in range(size.pick(4, 20)):
            mu = Particles(Euclidean(D), 0.7 * rng.standard_normal((4, D)), rng.uniform(0.5, 1.5, 4))
            found.append(np.asarray(forms(risk, mu, jnp.asarray(rng.standard_normal((4, D))))))
    difference, hessian, spread = np.array(found).T
    return CLAIM.judge(
        # Rounding of second differences: 1e-15 over the square of the step.
        equal("second difference - both terms", 0.0, np.abs(difference - hessian - spread).max(), 1e-6),
        at_least("least measure term", 0.0, spread.min()),
        at_least("the measure term matters", 1e-3, spread.max()),
        data=[
            equal("second difference against both terms", hessian + spread, difference, 1e-6),
            at_least("measure term", 0.0, spread),
        ],
    )


def draw(data: list[Check]) -> Figure:
    """Second differences of the risk against the two terms, and the term that is never negative."""
    return checks_figure(data)
