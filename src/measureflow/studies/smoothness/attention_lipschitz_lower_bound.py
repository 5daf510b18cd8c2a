"""One token that everybody looks at moves sideways, and everybody follows: attention can be as steep as root n.

With tokens along an eigenvector `u` of `A`, scores do not notice a change of the first token across `u`, so the outputs of the
`n - 1` others change by `P_i1` times it. Under a mask the first token has fewer rivals, and the bound holds as well.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.diagnostics import lipschitz
from measureflow.fields import SoftmaxAttention
from measureflow.measures import Particles
from measureflow.plotting import Figure, draw_table, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.studies.smoothness.adversarial import lower_bound, tempting
from measureflow.studies.smoothness.jacobian import MASKS, attention_matrix, jacobian

CLAIM = Claim(
    "For V=I an explicit input reaches at least √(n-1)/(1+(n-1)e^{-2R^2γ}).",
    reference="castin:24",
    where="lower bound for finitely many tokens, part IV of the talk; the masked form is derived",
)
REPELLING = np.diag([-2.0, 0.5, 0.3])
RADIUS, NUMBERS = 2.0, (10, 100)
MATRICES = {
    "repelling": REPELLING,
    "attracting": np.diag([4.0, 0.5, -0.1]),
    "with complex eigenvalues": np.array([[-1.0, 0.7, 0.2], [0.0, 0.5, -0.6], [0.0, 0.6, 0.5]]),
}


def constants(A: np.ndarray, mask: str) -> list[float]:
    """The local constants at the tempting clouds, by the formula of the Jacobian."""
    return [float(np.linalg.norm(jacobian(A, np.eye(3), tempting(A, RADIUS, n), mask), 2)) for n in NUMBERS]


def run(size: Size = SMALL) -> Verdict:
    """Compute the local constants of 10 and 100 tokens for three matrices, plain and masked."""
    bounds = {name: lower_bound(A, RADIUS, np.array(NUMBERS)) for name, A in MATRICES.items()}
    found = {(name, mask): constants(A, mask) for name, A in MATRICES.items() for mask in MASKS}
    cloud = Particles(Euclidean(3), jnp.asarray(tempting(REPELLING, RADIUS, 100)))
    lanczos = lipschitz(SoftmaxAttention(REPELLING, np.eye(3)), cloud)
    share = (np.asarray(lanczos.direction[0]) ** 2).sum() / 100
    return CLAIM.judge(
        # The numbers of the paper's construction, with four decimals; and ours for what power iteration misses.
        equal("constants at A = diag(-2, .5, .3), n = 10, 100", [3.00005, 9.9515], found["repelling", "plain"], 1e-4),
        equal("lower bounds there", [2.99999, 9.9498], bounds["repelling"], 1e-4),
        equal("constant by Lanczos steps, n = 100", found["repelling", "plain"][1], lanczos.value, 1e-5),
        # The others move each other by a part of 1/n.
        at_least("share of the first token in the extremal direction", 0.99, share),
        # Theorems, so no slack.
        *(at_least(f"constant, {name}, {mask}, n = 10, 100", bounds[name], found[name, mask]) for name, mask in found),
        data={mask: attention_matrix(REPELLING / 4, tempting(REPELLING, RADIUS, 8), mask) for mask in MASKS},
    )


def draw(tables: dict[str, np.ndarray]) -> Figure:
    """Who looks at whom: all at the first token, a little less at lower scores than in the study."""
    figure, axes = panels(2, width=4.2, height=4.2)
    for ax, (mask, table) in zip(axes, tables.items(), strict=True):
        draw_table(ax, table, f"attention matrix, {mask}", top=1.0, names=("token looked at", "token"))
    return figure
