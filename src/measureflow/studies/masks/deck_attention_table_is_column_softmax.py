"""The worked attention table of the deck, recomputed from its printed scores.

Tokens are one-hot vectors, so that the interaction matrix is the table of scores itself: token `i` asks, token `j`
answers, and `<A e_i, e_j>` is the entry in row `j` and column `i`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import SoftmaxAttention
from measureflow.measures import Particles
from measureflow.plotting import Figure, draw_table, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal

CLAIM = Claim(
    "The worked attention table of the deck is a causal softmax taken down each column (queries are columns).",
    reference="deck:25",
    where="slide with the worked attention pattern",
)

# Row j from column j on; below the diagonal the deck prints minus infinity, which the mask stands for.
SCORES = (
    (3.53, 0.80, 1.96, 4.48, 3.74, -1.95),
    (-0.30, -0.21, 0.82, 0.29, 2.91),
    (0.89, 0.67, 2.99, -0.41),
    (1.31, 1.73, -1.48),
    (3.07, 2.94),
    (0.31,),
)
WEIGHTS = (
    (1.00, 0.75, 0.69, 0.92, 0.46, 0.00),
    (0.25, 0.08, 0.02, 0.01, 0.46),
    (0.24, 0.02, 0.22, 0.02),
    (0.04, 0.06, 0.01),
    (0.24, 0.48),
    (0.03,),
)


def upper_triangular(rows: tuple[tuple[float, ...], ...]) -> np.ndarray:
    """The square table whose row `j` starts on the diagonal."""
    return np.array([(0.0,) * j + row for j, row in enumerate(rows)])


@eqx.filter_jit
def causal_attention(scores: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """What each one-hot token sees of the tokens up to itself; its weights are the columns."""
    n = len(scores)
    tokens = jnp.eye(n)
    attention = SoftmaxAttention(scores, tokens)
    seen = [Particles(Euclidean(n), tokens[: i + 1]) for i in range(n)]
    return jnp.concatenate([attention(0.0, tokens[i : i + 1], mu) for i, mu in enumerate(seen)]).T


def run(size: Size = SMALL) -> Verdict:
    """Attend with the printed scores and compare with the printed weights."""
    scores, printed = upper_triangular(SCORES), upper_triangular(WEIGHTS)
    by_column = np.asarray(causal_attention(jnp.asarray(scores)))
    by_row = np.asarray(jax.nn.softmax(jnp.where(np.triu(np.ones((6, 6), bool)), scores, -jnp.inf), axis=1))
    # Half a unit in the second decimal plus the rounding of the scores.
    digit = 0.006
    return CLAIM.judge(
        at_most("largest error of a weight, columns", digit, np.abs(by_column - printed).max()),
        equal("weights recovered", 36, int((np.abs(by_column - printed) <= digit).sum()), 0),
        equal("column sums of the softmax", np.ones(6), by_column.sum(0), 1e-14),  # a few roundings
        at_most("column sums of the print, off one per entry", digit, np.abs(printed.sum(0) - 1) / np.arange(1, 7)),
        at_least("largest error of a weight, rows", digit, np.abs(by_row - printed).max()),
        data={"printed": printed, "softmax down columns": by_column, "softmax along rows": by_row},
    )


def draw(tables: dict[str, np.ndarray]) -> Figure:
    """The printed weights beside the softmax down columns and along rows."""
    figure, axes = panels(3, width=3.8, height=4.0)
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        draw_table(ax, table, name, top=1.0, names=("query", "key"))
    return figure
