"""With quadratic cost and falling temperature attention becomes diffusion, and Sinkhorn's is half as fast.

The velocity is `(x - E[y | x]) / eps` for the kernel `e^{-|x - y|^2 / 2 eps}`. Softmax gives minus the score of `mu` blurred by
`eps`, which tends to the score. Sinkhorn reweights `mu` by `e^f`, which tends to `mu^(-1/2)`: half the score is left. It
absorbs what depends on `x` or on `y` alone, so a bilinear score is as good; softmax does not, and is attention by distance.
"""

import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from measureflow.fields import AbstractField, L2Attention, SinkhornAttention
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal

CLAIM = Claim(
    "As the temperature falls, Sinkhorn attention with quadratic cost tends to half the score, and softmax to the full "
    "score.",
    reference="sander:22",
    where="theorem on the heat equation; derived in another unit of time",
)

TEMPERATURES = (0.04, 0.01, 0.0025)
# Fine enough for the narrowest kernel, of width .05: the trapezoidal rule is then exact to rounding. Wide enough for both
# densities: beyond nine widths nothing is left of them.
GRID = np.arange(-9.0, 9.0, 0.02)


def bumps(width: float) -> np.ndarray:
    """The density of two normal bumps at -1 and 1, on the grid."""
    return norm.pdf(GRID, -1, width) + norm.pdf(GRID, 1, width)


def score(width: float) -> np.ndarray:
    """The gradient of the log density of the bumps."""
    towards = (-1 - GRID) * norm.pdf(GRID, -1, width) + (1 - GRID) * norm.pdf(GRID, 1, width)
    return towards / width**2 / bumps(width)


def sinkhorn(eps: float) -> AbstractField:
    """The conditional mean of the entropic plan; the quadratic cost differs from the bilinear by what it absorbs."""
    return SinkhornAttention([[1 / eps]], [[1.0]])


def softmax(eps: float) -> AbstractField:
    """The mean under the Gaussian kernel."""
    return L2Attention.isotropic(1, 1 / eps)


def velocity(attention: AbstractField, density: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """The velocity on the grid and the weights of the density there."""
    mu = Particles(Euclidean(1), GRID[:, None], density)
    mean = np.asarray(attention(jnp.array(0.0), mu.points, mu))[:, 0]
    return (GRID - mean) / eps, np.asarray(mu.weights)


def errors(pairs: list[tuple[np.ndarray, np.ndarray]], share: float) -> np.ndarray:
    """The relative error of velocities in the norm of the density, against a share of the score."""
    limit = -share * score(0.5)
    return np.array([np.sqrt(weights @ (v - limit) ** 2 / (weights @ limit**2)) for v, weights in pairs])


def variance_rate(kind, eps: float) -> float:
    """How fast the variance of a standard normal density grows, `2 E[x v]`."""
    v, weights = velocity(kind(eps), norm.pdf(GRID), eps)
    return 2 * float(weights @ (GRID * v))


def run(size: Size = SMALL) -> Verdict:
    """Compare both velocities with the score of two bumps on the line, and their variance rates on a normal density."""
    found = {kind.__name__: [velocity(kind(e), bumps(0.5), e) for e in TEMPERATURES] for kind in (sinkhorn, softmax)}
    half, full = errors(found["sinkhorn"], 0.5), errors(found["softmax"], 1.0)
    blurred = velocity(softmax(0.04), bumps(0.5), 0.04)[0] + score(np.sqrt(0.5**2 + 0.04))
    core = np.abs(GRID) < 3
    return CLAIM.judge(
        # The order is that of the limit; at .04, a sixth of the variance of a bump, it is not quite reached.
        equal("order in eps, Sinkhorn to half the score", [1.0, 1.0], -np.diff(np.log(half)) / np.log(4), 0.15),
        equal("order in eps, softmax to the score", [1.0, 1.0], -np.diff(np.log(full)) / np.log(4), 0.15),
        # A hundredth of the score at the lowest temperature, since errors are of size eps over the variance .25 of a bump.
        equal("relative errors at eps = .0025", [0.0, 0.0], [half[-1], full[-1]], 0.02),
        equal("softmax against the score of the blurred density", 0.0, np.abs(blurred[core]).max(), 1e-9),  # exact
        # The digits of the closed forms; 1e-3 still tells the rates from their limits 1 and 2.
        equal("variance rate, Sinkhorn, eps = .01", 0.9975, variance_rate(sinkhorn, 0.01), 1e-3),
        equal("variance rate, softmax, eps = .01", 1.9802, variance_rate(softmax, 0.01), 1e-3),
        data={name: [v for v, _ in pairs] for name, pairs in found.items()},
    )


def draw(found: dict[str, list[np.ndarray]]) -> Figure:
    """The velocities of both kinds at three temperatures over their limits."""
    figure, axes = panels(2)
    core = np.abs(GRID) < 2.5
    for ax, (kind, share), name in zip(
        axes, ((sinkhorn, 0.5), (softmax, 1.0)), ("half the score", "score"), strict=True
    ):
        curves = [
            Curve(f"ε = {eps:g}", GRID[core], v[core], -share * score(0.5)[core])
            for eps, v in zip(TEMPERATURES, found[kind.__name__], strict=True)
        ]
        draw_curves(ax, curves, "x", "velocity", law=f"minus {name}", title=f"{kind.__name__.capitalize()} attention")
    return figure
