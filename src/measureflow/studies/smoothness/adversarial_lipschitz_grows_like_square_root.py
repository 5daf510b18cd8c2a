"""The steepest clouds: the constant grows like the root of the number of tokens, until the many outvote the one.

Everybody looks at one token as long as it outweighs the `n - 1` others, `n < e^{2R²γ}`; then attention spreads over the crowd.
The `n - 1` equal tokens are one of that weight here, which is exact for a change that treats them alike. By the formula plain
attention has the constant `√(n-1)` and masked attention `√n`, because there the first token looks at itself.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.diagnostics import lipschitz
from measureflow.fields import SoftmaxAttention
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal, slope
from measureflow.studies.smoothness.adversarial import lower_bound, tempting
from measureflow.studies.smoothness.jacobian import jacobian
from measureflow.theory import bounds

CLAIM = Claim(
    "On adversarial inputs the local constant grows like √n until n is of order e^{2R^2γ}.",
    reference="castin:24",
    where="experiments on adversarial inputs, part IV of the talk; the peak is derived",
)
A = np.diag([-2.0, 0.5, 0.3])
FAR, NEAR = 2.0, 1.0
"""Radii with `R²γ = 8`, where no cloud here is large enough, and `R²γ = 2`, where 56 tokens are."""
SIZES = np.arange(2, 98, 5)
CROWDS = np.unique(np.geomspace(2, 2000, 150).astype(int))


@eqx.filter_jit
@jax.vmap
def gains(n: Float[Array, ""], radius: Float[Array, ""]) -> tuple[Array, Array]:
    """The local constant of one token against `n - 1`, and how much a step of the first token sideways is enlarged."""
    field, ends = SoftmaxAttention(A, np.eye(3)), radius * jnp.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    mu = Particles(Euclidean(3), ends, jnp.stack([jnp.ones(()), n - 1]))
    step = jnp.zeros((2, 3)).at[0, 1].set(1.0)
    change = jax.jvp(lambda xs: field(0.0, xs, eqx.tree_at(lambda mu: mu.points, mu, xs)), (ends,), (step,))[1]
    sideways = jnp.sqrt(mu.weights @ jnp.sum(change**2, 1) / mu.weights[0])
    return lipschitz(field, mu).value, sideways


def by_formula(n: int, mask: str) -> float:
    """The local constant of `n` single tokens at the larger radius."""
    return float(np.linalg.norm(jacobian(A, np.eye(3), tempting(A, FAR, n), mask), 2))


def run(size: Size = SMALL) -> Verdict:
    """Fit the exponents for 2 to 97 tokens, and find the crossover up to 2000 tokens."""
    sizes = SIZES[:: size.pick(3, 1)]
    far, radii = len(SIZES), np.r_[np.full(len(SIZES), FAR), np.full(len(CROWDS), NEAR)]
    every, aside = map(np.asarray, gains(jnp.asarray(np.r_[SIZES, CROWDS], float), jnp.asarray(radii)))
    plain, full, sideways = every[:far], every[far:], aside[far:]
    masked = np.array([by_formula(n, "masked") for n in sizes.tolist()])
    single = np.array([by_formula(n, "plain") for n in SIZES[[1, -1]].tolist()])
    peak, top = bounds.adversarial_peak(bounds.temptation(A), NEAR), int(np.argmax(sideways))
    return CLAIM.judge(
        # Corrections of the order n e^{-2R²γ} at R²γ = 8, below 1e-4.
        equal("exponent in n - 1, plain, n = 2..97", 0.5, slope(SIZES - 1, plain), 0.02),
        equal("exponent in n, masked, n = 2..97", 0.5, slope(sizes, masked), 0.02),
        # Lanczos steps end at 1e-6.
        equal("constant of one heavy token over that of single ones", [1.0, 1.0], plain[[1, -1]] / single, 1e-5),
        # A theorem; its two sides differ by the square of a weight that may be below rounding.
        at_least(
            "sideways gain at R²γ = 2 over the lower bound", 1.0, (sideways / lower_bound(A, NEAR, CROWDS)).min(), 1e-12
        ),
        equal(
            "n - 1 at the peak over e^{2R²γ}", 1.0, (CROWDS[top] - 1) / (float(peak.n) - 1), 0.1
        ),  # a flat maximum on a grid
        equal("height of the peak over e^{R²γ}/2", 1.0, sideways[top] / float(peak.value), 0.1),
        # The lower bound has fallen to a third of its peak there.
        at_most("gain of 2000 tokens over the peak", 0.4, sideways[-1] / sideways[top]),
        data={"sizes": sizes, "masked": masked, "plain": plain, "full": full, "sideways": sideways},
    )


def draw(found: dict[str, np.ndarray]) -> Figure:
    """Constants against the number of tokens, far below the crossover and across it."""
    figure, (left, right) = panels(2)
    curves = [
        Curve("plain", SIZES, found["plain"], np.sqrt(SIZES - 1)),
        Curve("masked", found["sizes"], found["masked"], np.sqrt(found["sizes"])),
    ]
    draw_curves(left, curves, "tokens n", "Lipschitz constant", log="xy", law="√(n-1), √n", title="R²γ = 8")
    bound = lower_bound(A, NEAR, CROWDS)
    curves = [
        Curve("the first token moves sideways", CROWDS, found["sideways"], bound),
        Curve("any change", CROWDS, found["full"]),
    ]
    draw_curves(
        right, curves, "tokens n", "", log="xy", law=r"lower bound, highest at $n-1=e^{2R^2\gamma}$", title="R²γ = 2"
    )
    return figure
