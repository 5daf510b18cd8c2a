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
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal, slope
from measureflow.theory import centres as theory

CLAIM = Claim(
    "Rényi and strong Rényi centres number Θ(β^{(d-1)/2}) with parking constants.",
    reference="karagodin:24",
    where="section on Rényi centres; laws for finitely many tokens are derived",
)
DEVIATIONS = 4.0
"""Standard errors allowed: one of six means is farther from its law once in 2600 seeds."""


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


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Count the centres of 100 draws (1000 in full) on the circle and on the sphere, at several separations."""
    repeats, n = size.pick(100, 1000), size.pick(1000, 5000)
    arcs, caps = np.array([0.5, 0.1]), np.array([0.5, 0.25])
    circle, sphere = draws(seed, repeats, n, 2, arcs), draws(seed, size.pick(40, 200), 800, 3, caps)
    laws = np.stack([theory.renyi_count(n, arcs), theory.strong_count(n, arcs, 2)])
    strong = np.asarray(theory.strong_count(800, caps, 3))
    means, errors = (lambda x: (x.mean(1), x.std(1) / np.sqrt(x.shape[1])))(circle)
    mean, error = sphere[1].mean(0), sphere[1].std(0) / np.sqrt(sphere.shape[1])
    limit = theory.PARKING * 2 * np.pi / arcs
    return CLAIM.judge(
        equal(f"Rényi centres of {n} tokens on the circle, δ = 0.5, 0.1", laws[0], means[0], DEVIATIONS * errors[0]),
        equal(f"strong centres of {n} tokens on the circle, δ = 0.5, 0.1", laws[1], means[1], DEVIATIONS * errors[1]),
        equal("strong centres of 800 tokens on the sphere, δ = 0.5, 0.25", strong, mean, DEVIATIONS * error),
        # Limits of the laws for many tokens, with the digits of the catalogue.
        equal("Rényi centres of endless tokens, δ = 0.5, 0.1", [9.39, 46.97], theory.renyi_count(np.inf, arcs), 0.005),
        equal("the same by the parking constant", limit, theory.renyi_count(np.inf, arcs), 1e-10),
        # Every strong centre is a Rényi centre.
        at_least("least excess of Rényi over strong centres", 0, min((c[0] - c[1]).min() for c in (circle, sphere))),
        # No two Rényi centres are closer than δ, so caps of half of it do not overlap.
        at_most(
            "Rényi centres on the sphere times the cap of δ/2",
            1.0,
            sphere[0].max(0) * np.asarray(theory.cap(caps / 2, 3)),
        ),
        # In β = δ^{-2}, before the circle is full: what is missing is below a tenth.
        equal("exponent of Rényi centres in β, circle", 0.5, slope(arcs**-2, means[0]), 0.05),
        data={"n": n, "circle": means, "sphere": sphere.mean(1)},
    )


def draw(found: dict) -> Figure:
    """The numbers of centres against the inverse square of the separation, with their laws."""
    arcs, caps, n = np.array([0.5, 0.1]), np.array([0.5, 0.25]), found["n"]
    curves = [
        Curve("Rényi, circle", arcs**-2, found["circle"][0], theory.renyi_count(n, arcs)),
        Curve("strong, circle", arcs**-2, found["circle"][1], theory.strong_count(n, arcs, 2)),
        Curve("Rényi, sphere", caps**-2, found["sphere"][0]),
        Curve("strong, sphere", caps**-2, found["sphere"][1], theory.strong_count(800, caps, 3)),
    ]
    return curves_figure(curves, r"$\delta^{-2}=\beta/c^2$", "centres", log="xy", law="expected number")
