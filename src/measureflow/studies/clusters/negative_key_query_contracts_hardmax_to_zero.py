"""At zero temperature a residual attention step is a Frank-Wolfe step for the quadratic form of the scores.

`x + eta (y* - x)` with `y*` the token of largest `<Ax, y>`. A token that scores itself highest rests for ever, since the hull
only shrinks; if all vertices of the hull do, every other token goes straight to the vertex that it scores highest. For
`A = -B` with `B` symmetric and positive, `<Bx, y*> <= 0` while the hull holds the origin, so the largest `B`-norm falls; it
goes to 0 when tokens come in opposite pairs, whose hull always holds the origin. The twin of this study, `as-published`,
shows what happens without these hypotheses.
"""

import numpy as np

from measureflow.plotting import Curve, Figure, draw_curves, draw_hull, draw_paths, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.studies.clusters.frank_wolfe import ETA, steps

CLAIM = Claim(
    "In the hardmax limit attention steps are Frank-Wolfe steps: hull vertices that score themselves highest stay and lead "
    "the others, and a negative symmetric form contracts clouds of opposite pairs to 0.",
    reference="frankwolfe:25",
    where="theorems on positive and negative key-query forms, with the hypotheses that they need",
)

STARTS = 10


def positive_form(rng: np.random.Generator, turn: float) -> np.ndarray:
    """A matrix with a positive symmetric part of eigenvalues 1/2 to 2, which is not symmetric unless `turn` is 0."""
    basis = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    return basis @ np.diag(rng.uniform(0.5, 2.0, 2)) @ basis.T + turn * np.array([[0.0, 1.0], [-1.0, 0.0]])


def leaders(rng: np.random.Generator, A: np.ndarray) -> np.ndarray:
    """Five tokens near the unit circle, drawn until each scores itself highest, and seven averages of them."""
    while True:
        angles, radii = rng.uniform(0, 2 * np.pi, 5), rng.uniform(0.8, 1.25, 5)
        vertices = radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        if ((vertices @ A.T @ vertices.T).argmax(1) == np.arange(5)).all():
            return np.concatenate([vertices, rng.dirichlet(np.ones(5), 7) @ vertices])


def norms(path: np.ndarray, form: np.ndarray) -> np.ndarray:
    """The largest norm `sqrt(<Bx, x>)` in each layer."""
    return np.sqrt(np.einsum("tni,ij,tnj->tn", path, form, path).max(1))


def holds_origin(tokens: np.ndarray) -> bool:
    """Whether 0 is inside the hull: seen from there, no gap between directions reaches half a turn."""
    angles = np.sort(np.arctan2(tokens[:, 1], tokens[:, 0]))
    return bool(np.diff(angles, append=angles[0] + 2 * np.pi).max() < np.pi)


def shrinkage(path: np.ndarray, form: np.ndarray) -> np.ndarray:
    """The ratios of successive largest norms while the hull holds the origin."""
    held = np.array([holds_origin(tokens) for tokens in path[:-1]])
    size = norms(path, form)
    return (size[1:] / size[:-1])[: held.argmin() if not held.all() else len(held)]


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Take 500 steps from 10 starts of 12 tokens in the plane, for positive and for negative forms."""
    rng = np.random.default_rng(seed)
    forms = [positive_form(rng, turn=0.3) for _ in range(STARTS)]
    starts = [leaders(rng, A) for A in forms]
    kept = [steps(A, tokens) for A, tokens in zip(forms, starts, strict=True)]
    drift = [np.abs(path - path[0])[:, :5].max() for path in kept]
    best = [start[(start @ A.T @ start.T).argmax(1)] for A, start in zip(forms, starts, strict=True)]
    straight = (1 - ETA) ** np.arange(501)[:, None, None]
    led = [np.abs(path - y - straight * (path[0] - y)).max() for path, y in zip(kept, best, strict=True)]
    forms = [positive_form(rng, turn=0.0) for _ in range(STARTS)]
    clouds = 3 * rng.normal(size=(STARTS, 12, 2))
    opposed = [steps(-B, np.concatenate([x[:6], -x[:6]])) for B, x in zip(forms, clouds, strict=True)]
    law = (1 - 2 * ETA) ** np.arange(101)
    paired = [norms(path, B)[:101] / norms(path, B)[0] / law for B, path in zip(forms, opposed, strict=True)]
    held = np.concatenate([shrinkage(steps(-B, x - x.mean(0)), B) for B, x in zip(forms, clouds, strict=True)])
    return CLAIM.judge(
        # Exact but for rounding: each step multiplies the weight of a token in and divides it out again.
        equal("positive: how far vertices that score themselves highest move", 0.0, max(drift), 1e-11),
        equal("positive: others off (1-η)^k on the way to the vertex they score highest", 0.0, max(led), 1e-11),
        # The largest token of opposite pairs sees its own opposite (Cauchy and Schwarz), so its norm falls by 1 - 2 eta;
        # no other can be larger afterwards. Up to k = 100, since rounding breaks the pairs and shrinks more slowly.
        equal("negative: largest norm of pairs over (1-2η)^k", 0.0, max(np.abs(r - 1).max() for r in paired), 1e-9),
        # While <Bx, y*> <= 0 the largest square falls by (1-eta)^2 + eta^2; a theorem, so no slack beyond rounding.
        at_most("negative: norm after a step, hull around 0", np.sqrt((1 - ETA) ** 2 + ETA**2) + 1e-12, held.max()),
        at_least("steps with the origin in the hull of centred clouds", 10 * STARTS, len(held)),
        data={"positive": kept[0], "negative": opposed[0], "form": forms[0]},
    )


def draw(data: dict[str, np.ndarray]) -> Figure:
    """Tokens that go straight to the vertices of their hull, and opposite pairs that go to the origin."""
    figure, (left, middle, right) = panels(3, width=4.2, height=4.0)
    draw_hull(draw_paths(left, data["positive"], title="positive form"), data["positive"][0], filled=True)
    draw_paths(middle, data["negative"], title="negative form, opposite pairs")
    size = norms(data["negative"], data["form"])
    law = size[0] * (1 - 2 * ETA) ** np.arange(len(size))
    seen = slice(0, 150)
    curve = Curve("largest norm", np.arange(len(size))[seen], size[seen], law[seen])
    draw_curves(right, [curve], "layer", "norm of the form", log="y", law="$(1-2η)^k$")
    return figure
