"""When the top eigenvalue of V is multiple, tokens form a polytope in its eigenspace and are free in the rest.

V is paranormal in the sense of geshkovski:23: the space is `F + G`, both invariant, `V = lambda > 0` on `F`, and the
spectral radius of V on `G` is less than lambda. Along `G` the tokens grow more slowly, so the scores are in the end those
of the components in `F`, taken along `G`, which then move as if V were `lambda I`.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.diagnostics import clusters
from measureflow.fields import Rescaled, SoftmaxAttention
from measureflow.measures import Particles
from measureflow.plotting import Figure, draw_hull, draw_paths, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
from measureflow.studies.clusters.polytopes import excess, frames, off_boundary, off_rest

CLAIM = Claim(
    "For paranormal V and positive definite key-query form the rescaled tokens converge to the product of a polytope's "
    "boundary, or 0, in the top eigenspace, and the complementary invariant subspace.",
    reference="geshkovski:23",
    where="theorem on paranormal values",
)

# Columns: two directions of F and one of G, which is not orthogonal to them. V is 1, 1 and -1/2 on them.
BASIS = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, -0.3], [0.0, 0.0, 1.0]])
VALUE = BASIS @ np.diag([1.0, 1.0, -0.5]) @ np.linalg.inv(BASIS)
FORM = np.array([[1.0, 0.3, 0.2], [0.3, 0.8, -0.1], [0.2, -0.1, 0.6]])


TIMES = np.linspace(0.0, 15.0, 31)
"""Long enough for late tokens, and not so long that rounding shows in the scores, which grow like e^{2t}."""


def spreads(tops: np.ndarray, rests: np.ndarray) -> np.ndarray:
    """For each cluster of the components in F, how far apart the components in G of its tokens are."""
    labels = clusters(Particles(Euclidean(2), tops), 1e-2).labels
    return np.array([np.ptp(rests[labels == k]) for k in np.unique(labels)])


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 10 random starts of 40 rescaled tokens in space up to time 15."""
    field = Rescaled(SoftmaxAttention(FORM, VALUE))
    starts = [Particles.iid(Euclidean(3), 40, key=10 * seed + k) for k in range(10)]
    runs = [frames(field, mu, jnp.asarray(TIMES)) @ np.linalg.inv(BASIS).T for mu in starts]
    tops, rests = [path[..., :2] for path in runs], [path[-1, :, 2] for path in runs]
    form = (BASIS.T @ FORM @ BASIS)[:2, :2]
    groups = [spreads(top[-1], rest) for top, rest in zip(tops, rests, strict=True)]
    return CLAIM.judge(
        # A sum of rounding errors and those of the solver, in components of size one.
        at_most(
            "how far components in F leave the hull of the frame before",
            1e-9,
            max(excess(top[i], top[i + 1]).max() for top in tops for i in range(len(top) - 1)),
        ),
        # Tokens reach their limits like e^{-t}; scores along G die out at the same pace. The worst of 300 starts is off by 5e-5.
        at_most("off the boundary in F, all tokens", 1e-3, max(off_boundary(top[-1]).max() for top in tops)),
        at_most("off <Bz, z> = max_j <Bz, v_j> in F", 1e-3, max(off_rest(top[-1], form).max() for top in tops)),
        at_most("distinct limits in F of 40 tokens", 10, [len(spread) for spread in groups]),
        # Tokens with one limit in F differ along G by more than the size of the polytope.
        at_least("widest cluster along G, each start", 1.0, [spread.max() for spread in groups]),
        data=runs[0],
    )


def draw(path: np.ndarray) -> Figure:
    """One cloud, its polytope in F, and what is left of it along G."""
    figure, (left, right) = panels(2, width=4.4, height=4.2)
    draw_paths(left, path[..., :2], names=("first direction of F", "second direction of F"))
    draw_hull(draw_hull(left, path[0, :, :2]), path[-1, :, :2], filled=True)
    draw_paths(right, path[..., [0, 2]], names=("first direction of F", "direction of G")).set_aspect("auto")
    return figure
