"""The uniform density on the circle breaks up into ripples, the fastest of which sets the first number of clusters.

Rates of a density are quadratic in it, so differences over a disturbance are derivatives exactly. The library moves moments
through convolutions on a grid; the law has Bessel functions.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import iv

from measureflow.fields import UnnormalisedAttention
from measureflow.flows import evolve
from measureflow.measures import CircleDensity
from measureflow.plotting import Curve, Figure, draw_curves, draw_density_over_time, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import circle

CLAIM = Claim(
    "The uniform state on the circle is unstable with growth k^2 I_k(β)/β in mode k.",
    reference="chen:25, geshkovski:25",
    where="derived: linearisation at the uniform density",
)

BETAS = np.array([1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0])
MODES, SHOWN = 128, 24
SIZE = 0.1
"""Of a disturbance; differences are exact whatever it is."""
RIPPLE, BETA, TIMES = 1e-6, 10.0, np.linspace(0.0, 180.0, 91)


@eqx.filter_jit
def growths(betas: Float[Array, " b"]) -> Float[Array, "b k"]:
    """The rates at which cosines grow on the uniform density, by differences of the rates of moments."""
    uniform = CircleDensity.uniform(MODES)

    def rate(beta, k, size):
        mu = eqx.tree_at(lambda mu: mu.moments, uniform, uniform.moments.at[0, k].set(size))
        attention = UnnormalisedAttention.isotropic(2, beta)
        return mu.transport(lambda xs: attention(0.0, xs, mu)).moments[0, k]

    def growth(beta, k):
        return (rate(beta, k, SIZE) - rate(beta, k, -SIZE)) / (2 * SIZE)

    return jax.vmap(jax.vmap(growth, in_axes=(None, 0)), in_axes=(0, None))(betas, jnp.arange(1, SHOWN + 1))


def ripples(seed: int) -> CircleDensity:
    """The uniform density with small waves of random phase."""
    rng = np.random.default_rng(seed)
    phases = 2 * np.pi * rng.random(8)

    def density(angle):
        waves = jnp.cos(jnp.outer(angle, jnp.arange(1.0, 9)) + phases[None])
        return (1 + RIPPLE * waves.sum(1)) / (2 * jnp.pi)

    return CircleDensity.from_function(density, MODES)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Disturb the uniform density by each mode for seven betas; at beta = 10 follow random ripples until they are large."""
    found = np.asarray(growths(jnp.asarray(BETAS)))
    k = np.arange(1, SHOWN + 1)
    law = k**2 * iv(k, BETAS[:, None]) / BETAS[:, None]
    fastest = 1 + found.argmax(1)
    attention = np.exp(-BETA) * UnnormalisedAttention.isotropic(2, BETA)
    path = evolve(attention, ripples(seed), TIMES)
    moments = np.asarray(path.measures.moments)
    sizes = np.hypot(moments[:, 0], moments[:, 1])
    early = sizes[:, 1:].max(1) < 1e-4  # products of waves, up to 1e-8, are small beside each of them
    grown = np.log(sizes[early][-1, 1:7] / sizes[0, 1:7]) / TIMES[: len(sizes)][early][-1]
    rows = [list(BETAS).index(beta) for beta in (2.0, 5.0, 10.0)]
    return CLAIM.judge(
        # Digits printed.
        equal("growth over its printed value, (β,k) = (2,1), (5,2), (10,3)", [1.0] * 3, printed(found, rows), 1e-6),
        # Rounding of a transform, relative to the largest rate.
        equal(
            "growth of modes 1 to 24 over the largest",
            law / law.max(1, keepdims=True),
            found / law.max(1, keepdims=True),
            1e-10,
        ),
        equal("mode of fastest growth", circle.first_clusters(BETAS), fastest, 0),
        # A whole number next to sqrt(2 beta), which is only asymptotic.
        at_least("mode of fastest growth over sqrt(2 beta), beta >= 5", 0.75, (fastest / np.sqrt(2 * BETAS))[2:]),
        at_most("the same, from above", 1.15, (fastest / np.sqrt(2 * BETAS))[2:]),
        # Products of waves add 1e-4 to the slowest, over fifty units of time.
        equal("growth of modes 1 to 6 along a flow at beta = 10", law[3, :6] * np.exp(-BETA), grown, 2e-5),
        data={"growth": found, "law": law, "values": np.asarray(jax.vmap(lambda mu: mu.values)(path.measures))},
    )


def printed(found: np.ndarray, rows: list[int]) -> list[float]:
    """Growth rates over the values of the catalogue."""
    pairs = zip(rows, (1, 2, 3), (0.795318, 14.00449, 1582.5426), strict=True)
    return [float(found[row, k - 1] / value) for row, k, value in pairs]


def draw(found: dict[str, np.ndarray]) -> Figure:
    """Growth of modes for several β, and ripples on the way to clusters."""
    figure, (left, right) = panels(2)
    k = np.arange(1, 15)
    curves = [
        Curve(
            f"β = {BETAS[i]:g}",
            k,
            found["growth"][i, :14] * np.exp(-BETAS[i]),
            found["law"][i, :14] * np.exp(-BETAS[i]),
        )
        for i in (1, 2, 3, 4, 5)
    ]
    draw_curves(left, curves, "mode k", "growth rate times exp(-β)", law="k² I(k,β)/β")
    values = found["values"]
    late = TIMES[: len(values)] >= 90
    draw_density_over_time(right, TIMES[: len(values)][late], np.maximum(values[late], 0.0))
    right.set_title(f"β = {BETA:g}", fontsize=12)
    return figure
