"""With weight decay and features that stay bounded, heads cannot run away.

If `|grad Psi| <= C` for every head and measure, then `|<θ, grad Psi_λ> - λ|θ|²| <= C|θ|`, from which the dissipative condition
follows by Young's inequality. For merged scores `C` has a closed form: the derivative of a row of attention is a covariance, at
most a quarter of the squared diameter of the tokens it sees, and residuals lie in a simplex.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.spatial.distance import pdist

from measureflow.energies import AbstractEnergy, GradientFlow
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
from measureflow.training import Descent, HeadRisk, Ridge, fixtures

CLAIM = Claim(
    "With ridge λ and features bounded in the query-key part the dissipative condition holds and second moments stay "
    "bounded.",
    reference="heads:26",
    where="derived: remark 6.7 with weight decay",
)
RIDGES = 0.3, 0.1
RADIUS = 500.0
"""Far beyond C/λ, so that the decay shows in the bounds."""
TIMES = np.linspace(0.0, 10.0, 21)


def in_ball(rng: np.random.Generator, count: int, radius: float) -> jnp.ndarray:
    """Heads with uniform norms up to a radius: small ones matter as much as large ones."""
    x = rng.standard_normal((count, 4))
    return jnp.asarray(x / np.linalg.norm(x, axis=1, keepdims=True) * radius * rng.uniform(size=(count, 1)))


def slope_bound(risk: HeadRisk) -> float:
    """`C = E sum_t max_v |W_E (e_v - y_t)| |x_t| (diam{x_u: u <= t} / 2)²`, from the data alone."""
    tokens, targets, W = (np.asarray(part) for part in (risk.tokens, risk.targets, risk.unembedding))
    # The residual softmax(z) - y is an average of the corners e_v - y, and a norm is largest at a corner.
    pulls = np.linalg.norm(W.T[None, None] - (targets @ W.T)[:, :, None], axis=3).max(2)
    diameters = np.array([[pdist(x[: t + 1]).max(initial=0.0) for t in range(len(x))] for x in tokens])
    return float((pulls * np.linalg.norm(tokens, axis=2) * (diameters / 2) ** 2).sum(1).mean())


@eqx.filter_jit
def slope(energy: AbstractEnergy, mu: Particles, x: jnp.ndarray) -> jnp.ndarray:
    """The gradient of the first variation at heads."""
    return -GradientFlow(energy)(0.0, x, mu)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Score heads of F2 with norms up to 500 and ridges 0.3 and 0.1."""
    rng, risk = np.random.default_rng(seed), fixtures.f2()
    C = slope_bound(risk)
    mu = Particles(Euclidean(4), in_ball(rng, 8, RADIUS), rng.uniform(0.5, 1.5, 8))
    steepest = np.linalg.norm(slope(risk, mu, in_ball(rng, 2000, 5.0)), axis=1).max()
    dissipative, radial, above, below, roots = [], [], [], [], []
    for ridge in RIDGES:
        x = in_ball(rng, 500, RADIUS)
        outward = np.asarray((x * slope(risk + Ridge(ridge), mu, x)).sum(1))
        squares = np.asarray((x**2).sum(1))
        dissipative.append((outward - ridge / 2 * squares + C**2 / (2 * ridge)).min())
        radial.append((np.abs(outward - ridge * squares) / (C * np.sqrt(squares))).max())
        path = evolve(Descent(risk + Ridge(ridge)), mu, TIMES, Adaptive(1e-8, 1e-10))
        root = np.sqrt(np.asarray(path.map(lambda m: m.expect(lambda t: jnp.sum(t**2)))))
        # The root r of the second moment obeys |r' + 2 λ r| <= 2 C.
        kept = np.exp(-2 * ridge * TIMES)
        middle, room = kept * root[0], (1 - kept) * C / ridge
        above.append((root - middle - room).max())
        below.append((root - middle + room).min())
        roots.append((root, middle - room, middle + room))
    return CLAIM.judge(
        # Inequalities with a constant that no sample enters, so without slack but for the integrator.
        at_least("<θ,∇Ψ_λ> - λ|θ|²/2 + C²/(2λ), λ = 0.3, 0.1", [0.0, 0.0], dissipative),
        at_most("|<θ,∇Ψ_λ> - λ|θ|²| over C|θ|", [1.0, 1.0], radial),
        at_most("root of the second moment above its upper bound", [1e-6, 1e-6], above),
        at_least("root of the second moment above its lower bound", [-1e-6, -1e-6], below),
        # C adds up data that pull in different directions: it is a factor of about 13 above what heads reach.
        at_most("largest |∇Ψ| without ridge over C", 1.0, steepest / C),
        at_least("largest |∇Ψ| without ridge over C, from below", 0.02, steepest / C),
        data=roots,
    )


def draw(data: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Figure:
    """The root of the second moment over time, between the bounds that ridge and slopes give."""
    curves = [
        Curve(f"λ = {ridge:g}", TIMES, root, band=(np.maximum(low, 0.0), high))
        for ridge, (root, low, high) in zip(RIDGES, data, strict=True)
    ]
    return curves_figure(curves, "time t", "root of the second moment", title="bands: between both bounds")
