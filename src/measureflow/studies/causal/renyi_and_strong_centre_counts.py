"""How many tokens found a cluster: centres are counted like cars that park at random.

A token is a strong centre if no earlier one fell into the cap about it, which is a geometric law. On the circle a Rényi centre is
a car that finds room. With the separation `δ = c β^{-1/2}` both numbers grow like the inverse of a cap, `β^{(d-1)/2}`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.diagnostics import centres
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curve_within, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal, slope
from measureflow.theory import centres as theory

CLAIM = Claim(
    "Rényi and strong Rényi centres number Θ(β^{(d-1)/2}) with parking constants.",
    reference="karagodin:24",
    where="section on Rényi centres; laws for finitely many tokens are derived",
)
DEVIATIONS = 4.0
"""Standard errors allowed, from variances that do not depend on the draws."""
ARCS, CAPS = np.array([0.5, 0.25, 0.1]), np.array([0.7, 0.5, 0.35])
"""Separations on the circle and on the sphere."""
ON_SPHERE = 2000
PARKING_VARIANCE = 0.0381563991
"""The variance of the number of parked cars over the length of a long street in cars."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


@eqx.filter_jit
def counts(keys: Array, n: int, dim: int, separations: Float[Array, " k"]) -> tuple[Array, Array]:
    """The numbers of Rényi and of strong centres among uniform tokens, `(keys, separations)` each."""

    def count(key, separation):
        found = centres(Particles.iid(Sphere(dim), n, key=key), separation)
        return found.renyi.sum(), found.strong.sum()

    return jax.lax.map(lambda key: jax.vmap(count, (None, 0))(key, separations), keys, batch_size=20)


def draws(seed: int, repeats: int, n: int, dim: int, separations: np.ndarray) -> np.ndarray:
    """Both numbers for many draws, `(2, repeats, separations)`."""
    keys = jax.random.split(jax.random.key(2 * seed + dim % 2), repeats)
    return np.stack([np.asarray(part) for part in counts(keys, n, dim, jnp.asarray(separations))])


def overlap(apart: np.ndarray, separation: float, dim: int) -> np.ndarray:
    """The part of the circle or of the sphere that two caps share, whose centres are apart by one to two separations."""
    if dim == 2:
        return (2 * separation - apart) / (2 * np.pi)
    c, s = np.cos(separation), np.sin(separation)
    edges = np.arccos((np.cos(apart) - c**2) / s**2) + 2 * c * np.arccos(c / s * np.tan(apart / 2))
    return (np.pi - edges) / (2 * np.pi)


def strong_deviation(n: int, separation: float, dim: int) -> float:
    """The standard deviation of the number of strong centres, by quadrature.

    Tokens k < l are both strong if the k - 1 first are in neither cap and those between them not in that of l; the number of
    such pairs is Σ_k (1 - u)^{k-1} (1 - (1 - p)^{n-k}) / p on the average over their distance, where u is the union of caps.
    """
    p, far = (float(theory.cap(angle, dim)) for angle in (separation, 2 * separation))
    apart = separation * (3 + _NODES) / 2
    density = np.full_like(apart, 1 / np.pi) if dim == 2 else np.sin(apart) / 2
    unions = np.append(2 * p - overlap(apart, separation, dim), 2 * p)
    shares = np.append(_WEIGHTS * separation / 2 * density, 1 - far)
    k = np.arange(1, n)[:, None]
    pairs = float(((1 - unions) ** (k - 1) * (1 - (1 - p) ** (n - k)) / p).sum(0) @ shares)
    mean = float(theory.strong_count(n, separation, dim))
    return float(np.sqrt(2 * pairs + mean - mean**2))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Count the centres of 100 draws (1000 in full) on the circle and on the sphere, at three separations."""
    repeats, few, n = size.pick(100, 1000), size.pick(40, 200), size.pick(1000, 5000)
    circle, sphere = draws(seed, repeats, n, 2, ARCS), draws(seed, few, ON_SPHERE, 3, CAPS)
    renyi, endless = np.asarray(theory.renyi_count(np.array([[n], [np.inf]]), ARCS))
    strong = np.asarray(theory.strong_count(n, ARCS, 2))
    on_sphere = np.asarray(theory.strong_count(ON_SPHERE, CAPS, 3))
    # The street is not quite full, so that cars still scatter a little more than at its end.
    room = DEVIATIONS * np.sqrt(1.2 * PARKING_VARIANCE * 2 * np.pi / ARCS / repeats)
    rooms = {
        dim: DEVIATIONS * np.array([strong_deviation(tokens, x, dim) for x in separations]) / np.sqrt(count)
        for dim, tokens, separations, count in ((2, n, ARCS, repeats), (3, ON_SPHERE, CAPS, few))
    }
    means, others = circle.mean(1), sphere.mean(1)
    limit = theory.PARKING * 2 * np.pi / ARCS
    return CLAIM.judge(
        equal(f"Rényi centres of {n} tokens on the circle, by δ", renyi, means[0], room),
        equal(f"strong centres of {n} tokens on the circle, by δ", strong, means[1], rooms[2]),
        equal(f"strong centres of {ON_SPHERE} tokens on the sphere, by δ", on_sphere, others[1], rooms[3]),
        # Limits of the laws for many tokens, with the digits of the catalogue.
        equal("Rényi centres of endless tokens, δ = 0.5, 0.1", [9.39, 46.97], endless[::2], 0.005),
        equal("the same by the parking constant", limit, endless, 1e-10),
        # Every strong centre is a Rényi centre.
        at_least("least excess of Rényi over strong centres", 0, min((c[0] - c[1]).min() for c in (circle, sphere))),
        # No two Rényi centres are closer than δ, so caps of half of it do not overlap.
        at_most("Rényi centres on the sphere times the cap of δ/2", 1.0, sphere[0].max(0) * np.asarray(theory.cap(CAPS / 2, 3))),
        # In β = δ^{-2}, through three points: what is missing of a full circle or sphere is below a tenth.
        equal("exponents in β on the circle, Rényi and strong", 0.5, [slope(ARCS**-2, mean) for mean in means], 0.05),
        equal("exponents in β on the sphere, Rényi and strong", 1.0, [slope(CAPS**-2, mean) for mean in others], 0.1),
        data={"circle": means, "sphere": others, "laws": [renyi, strong, on_sphere], "rooms": [room, rooms[2], rooms[3]]},
    )  # fmt: skip


def draw(found: dict) -> Figure:
    """The numbers of centres against the inverse square of the separation, with their laws."""
    (renyi, strong, on_sphere), rooms = found["laws"], found["rooms"]
    curves = [
        curve_within("Rényi, circle", ARCS**-2, found["circle"][0], renyi, rooms[0]),
        curve_within("strong, circle", ARCS**-2, found["circle"][1], strong, rooms[1]),
        Curve("Rényi, sphere", CAPS**-2, found["sphere"][0]),
        curve_within("strong, sphere", CAPS**-2, found["sphere"][1], on_sphere, rooms[2]),
    ]
    return curves_figure(curves, r"$\delta^{-2}=\beta/c^2$", "centres", log="xy", law="expected number")
