"""Closed forms that judge the rest of the library.

Each module holds one solvable case: tokens at equal angles, two tokens, Kuramoto's circle, rates near equilibria.
They are pure functions of numbers, or of arrays that broadcast, and import jax alone, beside the short names of types: an
oracle must not be computed by what it judges. Outside the stated domains the answer is NaN, as the formulas have it.
"""

from measureflow import signatures
from measureflow.theory import (
    bounds,
    centres,
    circle,
    context,
    equiangular,
    experts,
    gaussian,
    heads,
    kuramoto,
    metastability,
    modes,
    noise,
    rates,
    retrieval,
    synchronization,
    two_tokens,
)

__all__ = [
    "bounds",
    "centres",
    "circle",
    "context",
    "equiangular",
    "experts",
    "gaussian",
    "heads",
    "kuramoto",
    "metastability",
    "modes",
    "noise",
    "rates",
    "retrieval",
    "synchronization",
    "two_tokens",
]

for _module in __all__:
    signatures.shorten(vars(globals()[_module]))
