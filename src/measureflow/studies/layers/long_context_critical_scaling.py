"""One layer of attention in a long context needs an inverse temperature that grows with the logarithm of its length.

Tokens with the common overlap `rho` and `beta = gamma log n`: a token keeps the share `w = 1 / (1 + (n - 1) e^{-beta (1 - rho)})`
of its own attention and spreads the rest over all others. As `n` grows, `w` tends to 0, 1/2 or 1 for `gamma` below, at and above
`1 / (1 - rho)`: the layer merges all tokens, brings them closer, or does nothing. To two tokens all others are one token at their
mean with their whole weight, so a million of them cost as much as three.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import SoftmaxAttention
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import FULL, SMALL, Claim, Size, Verdict, equal

CLAIM = Claim(
    "With beta = gamma log n one attention layer has three regimes separated at gamma = 1/(1 - rho).",
    reference="context:25",
    where="theorem on three regimes of one layer",
)
RHO = 0.5
GAMMAS = (1.5, 2.0, 3.0)
EXPONENTS = np.linspace(1.0, 3.5, 26)


def crowd(n: int) -> Particles:
    """Two tokens with the overlap 1/2, and all others as one."""
    others = [RHO**0.5, 0.0, 0.0, ((1 - RHO) / (n - 2)) ** 0.5]
    points = [[RHO**0.5, (1 - RHO) ** 0.5, 0.0, 0.0], [RHO**0.5, 0.0, (1 - RHO) ** 0.5, 0.0], others]
    return Particles(Euclidean(4), points, [1.0, 1.0, n - 2.0])


def tokens(n: int) -> Particles:
    """All tokens, each with a coordinate of its own."""
    own = (1 - RHO) ** 0.5 * np.eye(n)
    return Particles(Euclidean(n + 1), np.concatenate([np.full((n, 1), RHO**0.5), own], axis=1))


def cosine(mu: Particles, beta: float) -> float:
    """The cosine of what the first two tokens see."""
    seen = SoftmaxAttention.isotropic(mu.space.dim, beta)(0.0, mu.points[:2], mu)
    one, other = seen / jnp.linalg.norm(seen, axis=1, keepdims=True)
    return float(jnp.vdot(one, other))


def run(size: Size = SMALL) -> Verdict:
    """One layer at three exponents for a thousand and a million tokens, and towards the limits."""
    found = {n: [cosine(crowd(n), gamma * np.log(n)) for gamma in GAMMAS] for n in (10**3, 10**6)}
    whole = 10**3 if size == FULL else 200
    reduced, every = ([cosine(make(whole), gamma * np.log(whole)) for gamma in GAMMAS] for make in (crowd, tokens))
    below, critical, above = (cosine(crowd(10**12), gamma * np.log(1e12)) for gamma in GAMMAS)
    curves = {n: np.array([cosine(crowd(n), g * np.log(n)) for g in EXPONENTS]) for n in (10**3, 10**6, 10**12)}
    return CLAIM.judge(
        equal(f"others as one token against all {whole}", every, reduced, 1e-12),
        equal(
            "cosine at the critical exponent, n = 1000 and 1e6",
            [0.80028, 0.8000003],
            [found[n][1] for n in found],
            1e-5,
        ),
        # Half a unit of the printed digits.
        equal("below it, n = 1000", 0.978, found[10**3][0], 5e-4),
        equal("below it, n = 1e6", 0.99906, found[10**6][0], 5e-6),
        equal("above it, n = 1000", 0.5156, found[10**3][2], 5e-5),
        equal("above it, n = 1e6", 0.5005, found[10**6][2], 5e-5),
        # What is left of the limits is of size n^{-1/2} below and above the critical exponent, and 1/n at it.
        equal("limits 1, 4 rho / (1 + 3 rho), rho at n = 1e12", [1.0, 0.8, 0.5], [below, critical, above], 2e-6),
        data=curves,
    )


def draw(cosines: dict[int, np.ndarray]) -> Figure:
    """The cosine against the exponent for longer and longer contexts, and its limit on both sides of the critical one."""
    critical = 1 / (1 - RHO)
    limit = np.select([critical - 0.01 > EXPONENTS, critical + 0.01 < EXPONENTS], [1.0, RHO], np.nan)
    curves = [Curve(f"n = 10$^{{{np.log10(n):.0f}}}$", EXPONENTS, found, limit) for n, found in cosines.items()]
    return curves_figure(curves, "γ, with β = γ log n", "cosine after one layer", law="limit")
