"""Raw heads are not confined: what pulls a head inwards pushes its mirror image outwards."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from measureflow.energies import GradientFlow
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Figure, checks_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_least, equal
from measureflow.training import Descent, InverseTime, fixtures
from measureflow.training.convergence import confinement
from measureflow.training.curvature import stiffness

CLAIM = Claim(
    "As published (Remark 6.7): inward-pointing or dissipative conditions can be read off the formula for ∇Ψ.",
    reference="heads:26",
    where="remark 6.7",
)
REASON = (
    "Ψ is linear in W_O, so <θ,∇Ψ> in the value and output blocks is 2Ψ and changes sign with W_O: neither condition can "
    "hold on a sign-symmetric set, and in training norms and stiffness grow."
)
FLIP = np.repeat([1.0, -1.0], [18, 6])


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """The radial part of the gradient at random heads and at their mirror images, and a long run."""
    risk, rng = fixtures.f1(), np.random.default_rng(seed + 11)
    mu = Particles(Euclidean(24), 0.7 * rng.standard_normal((size.pick(16, 64), 24)))
    heads = jnp.asarray(5 * rng.standard_normal((40, 24)))
    slope = eqx.filter_jit(lambda x: -GradientFlow(risk)(0.0, x, mu))
    radial = [np.asarray((x * slope(x))[:, 12:].sum(1)) for x in (heads, heads * jnp.asarray(FLIP)[None])]
    path = evolve(Descent(risk, InverseTime(2.0)), mu, [0.0, 6.0], Adaptive(1e-6, 1e-8))
    norms, final = np.asarray(confinement(path)), path.final
    return CLAIM.judge(
        at_least("<θ,∇Ψ> in the value and output blocks at heads and mirror images", 0.0, min(map(np.min, radial))),
        instead=(
            # Exact but for rounding: the two have opposite signs.
            equal("sum over a head and its mirror image", np.zeros(40), radial[0] + radial[1], 1e-12),
            # Confined heads would not grow. From 16 heads norms grow 2.4-fold and stiffness 20-fold, and their logarithms
            # scatter by .15 and .7: four standard deviations from these bounds.
            at_least("largest norm at t = 6 over the start", 1.2, norms[1] / norms[0]),
            at_least("stiffness at t = 6 over the start", 1.5, stiffness(risk, final) / stiffness(risk, mu)),
        ),
        reason=REASON,
        data=[
            at_least("<θ,∇Ψ> of heads and mirror images", 0.0, np.concatenate(radial)),
            equal("<θ,∇Ψ> of a mirror image against minus that of its head", -radial[0], radial[1], 1e-12),
        ],
    )


def draw(data: list[Check]) -> Figure:
    """The radial part of the gradient at heads, where it should not be negative, and at their mirror images."""
    return checks_figure(data)
