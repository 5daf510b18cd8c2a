"""The entropic map of Gaussians is linear: the covariance `c` of the coupling solves `ab - c^2 = eps c`, its slope is `c/a`."""

import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.transport import entropic_map

CLAIM = Claim(
    "The entropic map of N(0,a) to N(0,b) is linear with slope (√(4ab+ε^2)-ε)/(2a).",
    reference="pooladian:21",
    where="section on the entropic map; the slope between Gaussians is derived",
)
POINTS = np.array([-1.0, 0.5, 1.0])
A, B = 1.0, 4.0


def on_quantiles(epsilon: float, n: int) -> np.ndarray:
    """The map between grids of quantiles, which stand for the laws without sampling error."""
    quantiles = norm.ppf((np.arange(n) + 0.5) / n)[:, None]
    mu, nu = (Particles(Euclidean(1), np.sqrt(variance) * quantiles) for variance in (A, B))
    return np.asarray(entropic_map(mu, nu, epsilon)(jnp.asarray(POINTS[:, None])))[:, 0]


def run(size: Size = SMALL) -> Verdict:
    """Compare the map at three points with its closed form."""
    slope = (np.sqrt(4 * A * B + 0.3**2) - 0.3) / (2 * A)
    return CLAIM.judge(
        # The grid of 600 quantiles cuts the tails, which the map at these points feels by a few millionths.
        equal("map at -1, 0.5, 1", slope * POINTS, on_quantiles(0.3, 600), 1e-5),
        equal("map at -1, 0.5, 1, digits of the sheet", [-1.855617, 0.927809, 1.855617], on_quantiles(0.3, 600), 1e-5),
    )
