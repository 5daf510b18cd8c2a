"""Where the normalisation sits decides whether tokens cluster exponentially or like a power of depth.

After the residual, directions turn at the speed of attention and the gap of equal overlaps closes like `e^{-2t}`. Before
attention, radii grow like `t` and directions turn at `1 / r`: `(1 - rho)' = -2 (1 - rho) / t`, so the gap closes like `t^-2`.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import Normalised, PostNorm, PreNorm, SoftmaxAttention, directions
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.theory import equiangular

CLAIM = Claim(
    "Post-norm closes the gap like e^{-2t}, pre-norm like t^{-2}.",
    reference="normalization:25",
    where="section on rates of clustering by scheme",
)

EARLY, LATE = np.linspace(1.0, 10.0, 19), np.geomspace(1e2, 1e4, 9)


def gap(mu: Particles) -> Float[Array, ""]:
    """One minus the overlap of the first two directions, through their difference: the overlap itself has no digits left."""
    u = directions(mu)
    return jnp.sum((u[0] - u[1]) ** 2) / 2


def gaps(scheme: PostNorm | PreNorm, times: np.ndarray) -> np.ndarray:
    """The gap at given times, of 16 tokens that start orthogonal with radius one."""
    field = Normalised(SoftmaxAttention.isotropic(16, 2.0), scheme)
    path = evolve(field, Particles(Euclidean(16), jnp.eye(16)), np.append(0.0, times), Adaptive(1e-10, 1e-12))
    return np.asarray(path.map(gap))[1:]


def run(size: Size = SMALL) -> Verdict:
    """Follow the two schemes, one to time 10 and one to time 10000."""
    falling, slowing = gaps(PostNorm(), EARLY), gaps(PreNorm(), LATE)
    early, post = EARLY[[0, 14, 16, 18]], falling[[0, 14, 16, 18]]
    late, pre = LATE[::4], slowing[::4]
    return CLAIM.judge(
        # 1% late: corrections are of the size of the gap itself.
        equal("post-norm, rate of the gap, t = 8 to 10", [2.0, 2.0], -np.diff(np.log(post[1:])), 0.02),
        equal("post-norm against the scalar equation", equiangular.gap(early, 16, 2.0), post, 1e-9),
        # 1% and a slope within .02: radii are t plus a constant, so corrections are of size 1/t.
        equal("pre-norm, t² (1 - rho), t = 100, 1000, 10000", [2.450, 2.376, 2.369], late**2 * pre, 0.01 * 2.369),
        equal("pre-norm, slope of the gap in log t", [-2.0, -2.0], np.diff(np.log10(pre)), 0.02),
        data=(falling, slowing),
    )


def draw(found: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The gap under both schemes: an exponential and a power."""
    post, pre = found
    figure, (left, right) = panels(2)
    curve = Curve("", EARLY, post, post[-1] * np.exp(2 * (EARLY[-1] - EARLY)))
    draw_curves(left, [curve], "time t", "1 - overlap", log="y", law=r"$\propto e^{-2t}$", title="post-norm")
    curve = Curve("", LATE, pre, pre[-1] * (LATE[-1] / LATE) ** 2)
    draw_curves(right, [curve], "time t", "1 - overlap", log="xy", law=r"$\propto t^{-2}$", title="pre-norm")
    return figure
