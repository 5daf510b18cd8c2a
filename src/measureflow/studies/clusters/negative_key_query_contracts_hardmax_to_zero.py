"""At zero temperature a residual attention step is a Frank-Wolfe step for the quadratic form of the scores.

`x + eta (y* - x)` with `y*` the token of largest `<Bx, y>`. For positive `B` a vertex of the hull rests when it scores itself
highest, as all do that share one value of `<Bx, x>`, and every other token goes straight to the vertex of its cell. For
negative `B`, `|x|` falls while the hull holds the origin: always, when tokens come in opposite pairs, and else up to a
distance of the size of `eta`, where the tokens meet.
"""

import jax.numpy as jnp
import numpy as np
from scipy.spatial import ConvexHull

from measureflow.fields import HardmaxAttention, Perceptron
from measureflow.flows import layers
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, draw_hull, draw_paths, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.studies.clusters.polytopes import points

CLAIM = Claim(
    "In the hardmax limit attention steps are Frank-Wolfe steps: a positive form keeps hull vertices fixed, a negative one "
    "contracts to 0.",
    reference="frankwolfe:25",
    where="theorems on positive and negative key-query forms",
)

ETA = 0.05


def steps(sign: float, tokens: np.ndarray, eta: float = ETA) -> np.ndarray:
    """The tokens through 500 layers `x + eta (y* - x)` with the form `sign I`."""
    attention = HardmaxAttention(sign * np.eye(2), np.eye(2), tie=0.0)
    identity = Perceptron(np.eye(2), np.eye(2), np.zeros(2), activation=jnp.asarray)
    return np.asarray(layers(attention - identity, Particles(Euclidean(2), tokens), 500, eta).map(points))


def averages_on_a_circle(rng: np.random.Generator) -> np.ndarray:
    """Five tokens at random angles on the unit circle, and seven averages of them."""
    angles = rng.uniform(0, 2 * np.pi, 5)
    vertices = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.concatenate([vertices, rng.dirichlet(np.ones(5), 7) @ vertices])


def norms(path: np.ndarray) -> np.ndarray:
    """The largest norm in each layer."""
    return np.linalg.norm(path, axis=2).max(1)


def run(size: Size = SMALL) -> Verdict:
    """Take 500 steps from 10 starts of 12 tokens in the plane, for the forms I and -I."""
    rng = np.random.default_rng(0)
    circles = [averages_on_a_circle(rng) for _ in range(10)]
    kept = [steps(1.0, tokens) for tokens in circles]
    drift = [np.abs(path - path[0])[:, ConvexHull(path[0]).vertices].max() for path in kept]
    led = [np.abs(path[-1] - path[0][(path[0] @ path[0].T).argmax(1)]).max() for path in kept]
    clouds = rng.normal(size=(10, 12, 2))
    opposed = [steps(-1.0, np.concatenate([cloud[:6], -cloud[:6]])) for cloud in clouds]
    paired = [norms(path) for path in opposed]
    bound = (1 - 2 * ETA) ** np.arange(501)
    ends = [[norms(steps(-1.0, cloud, eta))[-1] for cloud in clouds] for eta in (ETA, 4 * ETA)]
    return CLAIM.judge(
        # Exact but for rounding: each step multiplies the weight of a token in and divides it out again.
        equal("I: how far vertices of the hull move", 0.0, max(drift), 1e-11),
        equal("I: tokens end at the vertex they score highest", 0.0, max(led), 1e-9),  # (1 - eta)^500 is 7e-12
        # Opposite pairs: <x, y*> <= -|x|^2, so each step contracts by 1 - 2 eta or more; the last digits are rounding.
        at_most("-I: largest norm of pairs over its bound", 1 + 1e-9, max((r / r[0] / bound).max() for r in paired)),
        at_most("-I: largest norm of pairs at the end", 1e-9, max(r[-1] for r in paired)),
        at_most("-I: largest norm at the end, 10 normal starts", 0.1, ends[0]),
        # What is left falls with the step: the flow goes to 0.
        at_most("-I: median of these over that with 4 eta", 0.5, np.median(ends[0]) / np.median(ends[1])),
        data={"positive": kept[0], "negative": opposed[0]},
    )


def draw(data: dict[str, np.ndarray]) -> Figure:
    """Tokens that go straight to the vertices of their hull, and opposite pairs that go to the origin."""
    figure, (left, middle, right) = panels(3, width=4.2, height=4.0)
    draw_hull(draw_paths(left, data["positive"], title="form I"), data["positive"][0], filled=True)
    draw_paths(middle, data["negative"], title="form -I, opposite pairs")
    size = norms(data["negative"])
    law = size[0] * (1 - 2 * ETA) ** np.arange(len(size))
    seen = slice(0, 150)
    curve = Curve("largest norm", np.arange(len(size))[seen], size[seen], law[seen])
    draw_curves(right, [curve], "layer", "norm", log="y", law="bound $(1-2η)^k$")
    return figure
