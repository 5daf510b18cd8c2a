"""The entropic map of Gaussians is linear: the covariance `c` of the coupling solves `ab - c^2 = eps c`, its slope is `c/a`."""

import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.transport import entropic_map

CLAIM = Claim(
    "The entropic map of N(0,a) to N(0,b) is linear with slope (√(4ab+ε^2)-ε)/(2a).",
    reference="pooladian:21",
    where="section on the entropic map; the slope between Gaussians is derived",
)
POINTS = np.array([-1.0, 0.5, 1.0])
PLACES = np.linspace(-1.5, 1.5, 13)
A, B = 1.0, 4.0


def slope(epsilon: float) -> float:
    """The slope of the map in closed form."""
    return (np.sqrt(4 * A * B + epsilon**2) - epsilon) / (2 * A)


def on_quantiles(epsilon: float, points: np.ndarray, n: int = 600) -> np.ndarray:
    """The map at some points between grids of quantiles, which stand for the laws without sampling error."""
    quantiles = norm.ppf((np.arange(n) + 0.5) / n)[:, None]
    mu, nu = (Particles(Euclidean(1), np.sqrt(variance) * quantiles) for variance in (A, B))
    return np.asarray(entropic_map(mu, nu, epsilon)(jnp.asarray(points[:, None])))[:, 0]


def run(size: Size = SMALL) -> Verdict:
    """Compare the map at three points with its closed form."""
    found = on_quantiles(0.3, POINTS)
    return CLAIM.judge(
        # The grid of 600 quantiles cuts the tails, which the map at these points feels by a few millionths.
        equal("map at -1, 0.5, 1", slope(0.3) * POINTS, found, 1e-5),
        equal("map at -1, 0.5, 1, digits of the sheet", [-1.855617, 0.927809, 1.855617], found, 1e-5),
        data={eps: on_quantiles(eps, PLACES) for eps in (0.3, 1.0, 3.0)},
    )


def draw(found: dict[float, np.ndarray]) -> Figure:
    """The map for some temperatures over the lines of its closed form."""
    curves = [Curve(f"ε = {eps:g}", PLACES, values, slope(eps) * PLACES) for eps, values in found.items()]
    return curves_figure(curves, "x", "entropic map of x", law="closed form")
