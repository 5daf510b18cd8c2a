"""What a query sees is a mixture over positions: Gaussian when all positions carry one Gaussian, and otherwise not.

With `N(0, 1)` up to one half and `N(1, 1)` after, a query at position one sees `L(a) = a^2/2 + log((1 + e^a)/2)`, so the
masked field `V L'(Ax)` bends like a logistic function.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import Causal, SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Gaussian, Sequence
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal

CLAIM = Claim(
    "Masked attention preserves Gaussians when the conditional law does not depend on the position, and not otherwise.",
    reference="castin:25",
    where="derived: masked attention on Gaussian conditionals",
)
POSITIONS = (0.25, 0.5, 0.75, 1.0)
A, V = np.array([[-0.7]]), np.array([[1.3]])
QUERIES = np.array([[0.0], [1.0], [2.0], [3.0]])
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


def sequence(means: tuple[float, ...]) -> Sequence:
    """A normal law of variance one at each position, as the nodes of a quadrature rule that is exact to rounding here."""
    points = np.concatenate([mean + NODES for mean in means])[:, None]
    k = len(NODES)
    return Sequence(Euclidean(1), points, np.repeat(POSITIONS, k), np.tile(WEIGHTS, len(means)))


def bend(xs: np.ndarray, ys: np.ndarray) -> float:
    """The largest distance of values from the best affine function."""
    return float(np.abs(ys - np.polyval(np.polyfit(xs, ys, 1), xs)).max())


def run(size: Size = SMALL) -> Verdict:
    """Evaluate the field that a query at each position sees, and follow both measures up to time 1/2."""
    attention = SoftmaxAttention(A, V)
    free, bound = sequence((0.0,) * 4), sequence((0.0, 0.0, 1.0, 1.0))
    unmasked = attention(0.0, jnp.asarray(QUERIES), Gaussian([0.0], [[1.0]]))
    fields = [attention(0.0, jnp.asarray(QUERIES), free.seen_from(s)) for s in POSITIONS]
    mixed = np.asarray(attention(0.0, jnp.asarray(QUERIES), bound.seen_from(1.0)))[:, 0]
    a = A[0, 0] * QUERIES[:, 0]
    paths = [evolve(Causal(attention), law, np.array([0.0, 0.5])).final for law in (free, bound)]
    ends = [np.asarray(mu.points)[-len(NODES) :, 0] for mu in paths if isinstance(mu, Sequence)]
    middle = np.abs(NODES) < 3  # where the mass is
    stretch = (1 - 2 * V[0, 0] * A[0, 0] * 0.5) ** -0.5  # root of the variance s(t) = 1 / (1 - 2 v a t)
    return CLAIM.judge(
        # Quadrature with 40 nodes and rounding.
        equal("field seen from each position, one law, against the unmasked", np.stack([unmasked] * 4), fields, 1e-10),
        equal("field seen from the end, two laws", V[0, 0] * (a + 1 / (1 + np.exp(-a))), mixed, 1e-10),
        at_least("second difference of the field, two laws", 1e-3, np.abs(np.diff(mixed, 2))),
        # Ten times the tolerance of the solver.
        equal("tokens at time 1/2, one law, against an affine map", stretch * NODES[middle], ends[0][middle], 1e-7),
        at_least("bend of the map to time 1/2, two laws", 1e-3, bend(1 + NODES[middle], ends[1][middle])),
        data=(np.asarray(fields[-1])[:, 0], mixed, ends[0][middle], ends[1][middle], stretch),
    )


def draw(data: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]) -> Figure:
    """What the last position sees, and where its tokens are at time 1/2, for one law at all positions and for two."""
    one, two, end_one, end_two, stretch = data
    figure, (left, right) = panels(2)
    x, start = QUERIES[:, 0], NODES[np.abs(NODES) < 3]
    a = A[0, 0] * x
    laws = V[0, 0] * a, V[0, 0] * (a + 1 / (1 + np.exp(-a)))
    draw_curves(left, [Curve("one law", x, one, laws[0]), Curve("two laws", x, two, laws[1])], "query x", "field at the end",
                law="formula")  # fmt: skip
    affine = np.polyval(np.polyfit(1 + start, end_two, 1), 1 + start)
    maps = [
        Curve("one law", start, end_one - stretch * start, 0.0),
        Curve("two laws", 1 + start, end_two - affine, 0.0),
    ]
    draw_curves(right, maps, "token at time 0", "distance from an affine map at time 1/2", law="affine")
    return figure
