"""Three equal clusters at 120 degrees attract below beta = -2/3, and further polygons with an odd number of corners later.

Eigenvalues are those of the derivative of the velocities that attention gives to tokens; the theory has sums over corners.
Random starts near -2/3 would show nothing, since few of them end in the triangle.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import UnnormalisedAttention
from measureflow.flows import evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.theory import synchronization

CLAIM = Claim(
    "Global synchronization fails for β<-2/3 because three equal clusters attract; further odd polygons stabilise later, even "
    "ones never.",
    reference="polyanskiy:25",
    where="abstract; the other polygons are derived",
)

ODD, EVEN = (3, 5, 7, 9, 11), (4, 6, 8, 10, 12, 14)
MOST = max(EVEN)
SCANNED = np.linspace(-15.0, 0.5, 63)
TIMES = np.linspace(0.0, 60.0, 61)


def circle(angles: Float[Array, " n"], weights: Float[Array, " n"] | None = None) -> Particles:
    """Tokens at angles."""
    return Particles(Sphere(2), jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1), weights)


@eqx.filter_jit
def slopes(betas: Float[Array, " k"], angles: Float[Array, " n"], weights: Float[Array, " n"]) -> Float[Array, "k n n"]:
    """The derivatives of the angular velocities for each beta, over the largest kernel."""

    def turning(angles, beta):
        mu, attention = circle(angles, weights), UnnormalisedAttention.isotropic(2, beta)
        v = mu.transport(lambda xs: attention(0.0, xs, mu)).points
        return (mu.points[:, 0] * v[:, 1] - mu.points[:, 1] * v[:, 0]) * jnp.exp(-jnp.abs(beta))

    return jax.vmap(jax.jacfwd(turning), in_axes=(None, 0))(angles, betas)


def tops(betas: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """The largest eigenvalue for each beta, without that of a turn of all tokens.

    Tokens of no weight are added, so that all polygons are one program.
    """
    n = len(angles)
    weights = np.where(np.arange(MOST) < n, 1.0, 1e-30)
    found = np.asarray(slopes(jnp.asarray(betas), jnp.asarray(np.resize(angles, MOST)), jnp.asarray(weights)))[
        :, :n, :n
    ]
    return np.linalg.eigvalsh(found - 1e3 * np.ones((n, n)) / n)[:, -1]  # symmetric, because f is odd


def corners(number: int, copies: int = 1) -> np.ndarray:
    """The angles of clusters at the corners of a regular polygon."""
    return np.repeat(2 * np.pi * np.arange(number) / number, copies)


def threshold(angles: np.ndarray, betas: np.ndarray = SCANNED, refinements: int = 7) -> float:
    """The last beta at which the top eigenvalue is negative, on grids that become sixty times finer."""
    last = int(np.flatnonzero(tops(betas, angles) < 0)[-1])
    bracket = np.linspace(betas[last], betas[last + 1], len(betas))
    return threshold(angles, bracket, refinements - 1) if refinements else float(betas[last])


@eqx.filter_jit
def paths(betas: Float[Array, " k"], angles: Float[Array, " n"]) -> Float[Array, "k frames n"]:
    """The angles over time for each beta."""

    def path(beta):
        frames = evolve(UnnormalisedAttention.isotropic(2, beta), circle(angles), TIMES).measures.points
        return jnp.arctan2(frames[..., 1], frames[..., 0])

    return jax.lax.map(path, betas)


@jax.jit
@jax.vmap
def triangle_tops(beta: Float[Array, ""]) -> Float[Array, ""]:
    """The top eigenvalue of three clusters in the theory."""
    return synchronization.polygon(lambda x: synchronization.attention(x, beta), 3).top


def clusters(angles: np.ndarray) -> int:
    """How many groups of tokens there are within a thousandth."""
    return len(np.unique(np.round(np.exp(1j * angles), 3)))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Compare eigenvalues with the theory for polygons of 3 to 14 corners, and let a shaken triangle go."""
    betas, triangle = np.resize([-0.66, -0.667, -1.0], len(SCANNED)), corners(3, 4)
    twelve = (tops(betas, triangle) * np.exp(np.abs(betas)))[:3]
    scans = {q: tops(SCANNED, corners(q)) for q in (*ODD, *EVEN)}
    found = [threshold(corners(q)) for q in ODD]
    theory = [float(synchronization.polygon_threshold(q)) for q in ODD]
    crossings = [int(np.abs(np.diff(np.sign(scans[q]))).sum()) // 2 for q in ODD]
    shaken = jnp.asarray(triangle) + 0.05 * jax.random.normal(jax.random.key(seed), (12,))
    after = np.asarray(paths(jnp.array([-1.0, -0.3]), shaken))
    return CLAIM.judge(
        # Digits printed; the formula has them to rounding.
        equal("top eigenvalue of 3 clusters of 4, beta = -.66, -.667, -1", [0.0070, -0.00035, -0.397], twelve, 5e-4),
        equal("the same, by sums over corners", triangle_tops(jnp.array([-0.66, -0.667, -1.0])), twelve, 1e-12),
        equal("threshold of the triangle", -2 / 3, found[0], 1e-6),
        equal("thresholds of 3, 5, 7, 9, 11 corners", theory, found, 1e-9),  # rounding over the slope of the eigenvalue
        equal(
            "the same, as printed", [-0.667, -2.13, -4.45, -8.03, -11.9], found, 0.02 * np.abs(found)
        ),  # a coarse scan
        equal("sign changes of the top eigenvalue, beta = -15 to 0.5", [1] * len(ODD), crossings, 0),
        at_least("least top eigenvalue of 4, 6, ..., 14 corners", 0.0, min(scans[q].min() for q in EVEN)),
        # A displacement of .05 is inside the basin at beta = -1, and far from the triangle nothing holds tokens at -0.3.
        equal(
            "clusters of a shaken triangle at t = 60, beta = -1, -0.3", [3, 1], [clusters(end[-1]) for end in after], 0
        ),
        data={"scans": scans, "paths": after},
    )


def draw(found: dict) -> Figure:
    """Eigenvalues of polygons over β, and a shaken triangle on both sides of its threshold."""
    figure, axes = panels(3, width=4.6, height=3.9)
    curves = [Curve(f"{q} corners", SCANNED, found["scans"][q]) for q in ODD]
    draw_curves(axes[0], curves, "β", "top eigenvalue, over the largest kernel")
    axes[0].axhline(0.0, color="#9A9A9A", linewidth=0.9)
    axes[0].set(ylim=(-0.08, 0.25))
    for ax, path, beta in zip(axes[1:], found["paths"], (-1, -0.3), strict=True):
        turned = np.unwrap(np.where(path[:1] < -1, path[:1] + 2 * np.pi, path[:1]) + np.unwrap(path, axis=0) - path[:1])
        curves = [Curve("", TIMES[:31], token[:31]) for token in turned.T]
        draw_curves(ax, curves, "time t", "angle", title=f"a shaken triangle, β = {beta}")
    return figure
