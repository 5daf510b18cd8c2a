"""A speck of mass that everybody looks at: attention as a map of measures is as steep as `e^{2‖A‖R²}`.

With `A = -1` a token at `R` looks away from itself. A mass `δ` put at `-R` costs `W_1 = 2Rδ`, but with the kernel
`e^{-xy}` it counts `e^{2R²}` times as much as what is at `R`, and so moves the output there by about `2Rδ e^{2R²}`.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import SoftmaxAttention
from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.theory import bounds

CLAIM = Claim(
    "mean-field-lipschitz-exponent-is-two-for-w1",
    "In W_1 the Lipschitz constant of the mean-field map is of order e^{2‖A‖R^2}.",
    reference="castin:24",
)
RADII = np.array([1.0, 1.5, 2.0, 2.5])

Cloud = tuple[np.ndarray, np.ndarray]  # points on the line and their weights, which sum to one


@eqx.filter_jit
def outputs(points: Float[Array, " n"], weights: Float[Array, " n"]) -> Float[Array, " n"]:
    """The outputs of attention with `A = -1` and `V = 1` at the points themselves."""
    mu = Particles(Euclidean(1), points[:, None], weights)
    return SoftmaxAttention([[-1.0]], [[1.0]])(0.0, mu.points, mu)[:, 0]


def image(mu: Cloud) -> Cloud:
    """The mean-field map: the law of the output of attention."""
    return np.asarray(outputs(*map(jnp.asarray, mu))), mu[1]


def steps(mu: Cloud) -> Cloud:
    """The points in increasing order, and the levels at which the quantile steps from one to the next."""
    order = np.argsort(mu[0])
    return mu[0][order], np.cumsum(mu[1][order])[:-1]


def wasserstein(mu: Cloud, nu: Cloud, p: int) -> float:
    """The distance W_p on the line, which is that of the quantile functions."""
    (xs, x_levels), (ys, y_levels) = steps(mu), steps(nu)
    cuts = np.unique(np.concatenate([[0.0, 1.0], x_levels, y_levels]))
    middles = (cuts[1:] + cuts[:-1]) / 2
    gaps = xs[np.searchsorted(x_levels, middles)] - ys[np.searchsorted(y_levels, middles)]
    return float(np.diff(cuts) @ np.abs(gaps) ** p) ** (1 / p)


def stretch(mu: Cloud, nu: Cloud, p: int) -> float:
    """How much farther apart than two clouds their images are."""
    return wasserstein(image(mu), image(nu), p) / wasserstein(mu, nu, p)


def speck_stretch(R: float) -> float:
    """How attention separates, in W_1, a Dirac mass at R from the same with `1e-3 e^{-2R²}` of it moved to -R."""
    speck = 1e-3 * np.exp(-2 * R**2)
    return stretch((np.array([R]), np.ones(1)), (np.array([R, -R]), np.array([1 - speck, speck])), p=1)


def run(size: Size = SMALL) -> Verdict:
    """Measure the stretch at four radii."""
    ratios = np.array([speck_stretch(R) for R in RADII])
    return CLAIM.judge(
        # The speck is finite, which costs one part in a thousand.
        equal("ratio over e^{2R²}, R = 1, 1.5, 2, 2.5", np.ones(4), ratios / np.exp(2 * RADII**2), 0.01),
        # An inequality, so no slack.
        at_most("ratio over the upper bound", 1.0, (ratios / bounds.mean_field_lipschitz(1.0, 1.0, RADII)).max()),
    )
