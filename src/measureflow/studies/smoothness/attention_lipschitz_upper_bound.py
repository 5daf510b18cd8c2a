"""How steep attention on n tokens can be: at most of order root n, whatever the tokens of a ball are.

Each of the three terms of the Jacobian has its own bound, `‖V‖√n` for keys, `‖V‖‖A‖R²` for queries and `‖V‖‖A‖R²√n` for scores,
because `Σ_j P_ij |x_j - m_i|² <= R²` and `Σ_i P_ij <= n`; a mask changes neither. All of them depend on `‖A‖R²` and `‖V‖` alone.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.studies.smoothness.adversarial import tempting
from measureflow.studies.smoothness.jacobian import MASKS, attention, in_the_ball, three_terms
from measureflow.theory import bounds

CLAIM = Claim(
    "The Lipschitz constant on B_R^n is at most √3‖V‖(‖A‖^2R^4(4n+1)+n)^{1/2}, and 4n+1 may be replaced by n+1, masked or not.",
    reference="castin:24",
    where="upper bound for finitely many tokens, part IV of the talk; the sharper form is derived",
)
STRENGTHS = (0.25, 1.0, 4.0)
"""The values of `‖A‖R²`."""
NUMBERS = (2, 3, 4, 6, 8, 12, 17, 25, 36, 50)


def draws(rng: np.random.Generator, strength: float, n: int, count: int) -> tuple[np.ndarray, ...]:
    """Random matrices and clouds of random radius, with given `‖A‖R²` and `‖V‖ = 1`."""
    radius = rng.uniform(1, 3, (count, 1, 1))
    A, V = (part / np.linalg.norm(part, 2, axis=(1, 2), keepdims=True) for part in rng.normal(size=(2, count, 3, 3)))
    return A * strength / radius**2, V, radius * in_the_ball(rng, (count, n, 3))


def shares(terms: np.ndarray, n: int, strength: float) -> np.ndarray:
    """The norms of the three terms over their bounds, for `‖V‖ = 1`."""
    slope = float(bounds.slope(1.0, strength, 1.0))
    limits = np.array([np.sqrt(n), slope, slope * np.sqrt(n)])
    return np.linalg.norm(terms, 2, axis=(2, 3)) / limits[:, None]


def extremes() -> tuple[float, float]:
    """The largest shares of keys, when 50 tokens look at one of them, and of queries, between two opposite tokens."""
    A, V = np.diag([-2.0, 0.5, 0.3])[None], np.eye(3)[None]
    keys = shares(three_terms(A, V, tempting(A[0], 2.0, 50)[None], "plain"), 50, 8.0)[0, 0]
    weak, pair = 1e-6 * np.eye(3)[None], np.array([[[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]])
    return float(keys), float(shares(three_terms(weak, V, pair, "plain"), 2, 1e-6)[1, 0])


def tempted(mask: str) -> np.ndarray:
    """The constants of clouds in which all look at one token, over the sharper bound, for several strengths and numbers."""
    found = []
    for strength in (1.0, 2.0, 4.0):
        A, V = np.diag([-1.0, 0.25, 0.15]) * strength, np.eye(3)
        norms = [np.linalg.norm(three_terms(A, V, tempting(A, 1.0, n), mask).sum(0), 2) for n in (2, 12, 50)]
        found.append(norms / np.asarray(bounds.finite_lipschitz(np.array([2, 12, 50]), 1.0, strength, 1.0)))
    return np.array(found)


def steepest_quotient(rng: np.random.Generator, mask: str) -> float:
    """How far two outputs of the library are apart along the extremal direction, over what the formula says."""
    (A,), (V,), (tokens,) = draws(rng, 4.0, 50, 1)
    _, values, right = np.linalg.svd(three_terms(A, V, tokens, mask).sum(0))
    step = 1e-5 * right[0].reshape(tokens.shape)
    one, other = (
        np.asarray(attention(A, V, mask)(0.0, jnp.asarray(cloud), Particles(Euclidean(3), cloud)))
        for cloud in (tokens + step, tokens - step)
    )
    return float(np.linalg.norm(one - other) / 2e-5 / values[0])


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Compare the norms of 60 random Jacobians (600 in full), plain and masked, with both bounds."""
    rng, count = np.random.default_rng(seed), size.pick(2, 20)
    checks, data = [], {}
    for mask in MASKS:
        norms, parts = {}, []
        for strength in STRENGTHS:
            for n in NUMBERS:
                A, V, tokens = draws(rng, strength, n, count)
                terms = three_terms(A, V, tokens, mask)
                norm = np.linalg.norm(terms.sum(0), 2, axis=(1, 2))
                norms[strength, n], parts = norm, [*parts, shares(terms, n, strength)]
        constants = np.array([[norms[strength, n] for n in NUMBERS] for strength in STRENGTHS])
        sharp, printed = ceilings()
        checks += [
            # Theorems, so no slack.
            at_most(
                f"largest constant over the bound with 4n + 1, {mask}", 1.0, (constants / printed[..., None]).max()
            ),
            at_most(f"largest constant over the bound with n + 1, {mask}", 1.0, (constants / sharp[..., None]).max()),
            at_most(f"constants of tempting clouds over the bound with n + 1, {mask}", 1.0, tempted(mask)),
            at_most(f"largest shares of keys, queries, scores, {mask}", [1.0] * 3, np.concatenate(parts, 1).max(1)),
            # The square of a step of 1e-5 and rounding divided by it.
            equal(f"steepest quotient at a cloud over its constant, {mask}", 1.0, steepest_quotient(rng, mask), 1e-7),
        ]
        data[mask] = constants
    return CLAIM.judge(
        *checks,
        # Two of the three bounds are met, up to one token of fifty and up to scores of 1e-6.
        at_least("shares of keys and queries where they are largest", [0.98, 1 - 1e-5], extremes()),
        data=data,
    )


def ceilings() -> tuple[np.ndarray, np.ndarray]:
    """The sharper and the printed bound for each strength and number of tokens."""
    S, n = np.meshgrid(STRENGTHS, NUMBERS, indexing="ij")
    return np.asarray(bounds.finite_lipschitz(n, 1.0, S, 1.0)), np.asarray(
        bounds.published_finite_lipschitz(n, 1.0, S, 1.0)
    )


def draw(found: dict[str, np.ndarray]) -> Figure:
    """The largest constants found below both bounds."""
    figure, axes = panels(3, width=3.9, height=4.0)
    for i, (ax, strength) in enumerate(zip(axes, STRENGTHS, strict=True)):
        curves = [Curve(f"random clouds, {mask}", NUMBERS, constants[i].max(1)) for mask, constants in found.items()]
        curves += [Curve("n + 1", NUMBERS, ceilings()[0][i]), Curve("4n + 1, published", NUMBERS, ceilings()[1][i])]
        draw_curves(
            ax, curves, "tokens n", "Lipschitz constant" if i == 0 else "", log="xy", title=f"‖A‖R² = {strength:g}"
        )
        for line in ax.lines[2:]:
            line.set(marker="", linestyle="--")
        ax.legend(frameon=False, fontsize=8)
    return figure
