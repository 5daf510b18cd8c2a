"""Forward along the potential, backward along the entropy: the Gaussian target is the fixed point, reached at a linear rate."""

import jax.numpy as jnp
import numpy as np

from measureflow.measures import Gaussian
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.transport import gaussian_inference, wasserstein

CLAIM = Claim(
    "The forward-backward scheme for Gaussian variational inference converges linearly to a Gaussian target.",
    reference="chewi:25",
    where="lectures on variational inference",
)
STEPS = 300


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Take 300 steps of half the stable length towards a Gaussian in three dimensions."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    precision = axes @ np.diag([0.5, 1.0, 2.0]) @ axes.T  # L = 2, and V is convex with constant 1/2
    centre, step = jnp.asarray(rng.normal(size=3)), 0.5 / 2.0
    target = Gaussian(centre, np.linalg.inv(precision))

    def potential(x):
        return (x - centre) @ precision @ (x - centre) / 2

    found = gaussian_inference(potential, Gaussian(np.zeros(3), np.eye(3)), step=step, steps=STEPS)
    errors = [
        float(wasserstein(Gaussian(m, c), target)) for m, c in zip(found.means[:61], found.covs[:61], strict=True)
    ]
    return CLAIM.judge(
        # 300 steps with the contraction below leave 1e-17; what remains is the rounding of roots.
        equal("mean", target.mean, found.final.mean, 1e-10),
        equal("covariance", target.cov, found.final.cov, 1e-10),
        # The slowest axis contracts by 1 - h/2 in the mean, and so does the distance, to the target and from any start.
        at_most(
            "contraction of W_2 over each of 60 steps", 1 - 0.5 * step, np.array(errors[1:]) / errors[:-1], slack=1e-9
        ),
        equal(
            "contraction of W_2 in the end", 1 - 0.5 * step, errors[60] / errors[59], 1e-3
        ),  # faster axes are still there
        data=np.array(errors),
    )


def draw(errors: np.ndarray) -> Figure:
    """The distance to the target over steps, and the contraction of its slowest axis."""
    k = np.arange(len(errors))
    curve = Curve("forward-backward steps", k, errors, errors[-1] * (1 - 0.5 * 0.25) ** (k - k[-1]))
    return curves_figure([curve], "step", "W₂ to the target", log="y", law=r"$\propto (1-h/2)^k$")
