"""The energy of attention on the sphere bends both ways and is stationary wherever symmetry asks for it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.energies import InteractionEnergy
from measureflow.fields import AbstractAttention, SoftmaxAttention, UnnormalisedAttention
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure
from measureflow.plotting.transport import geodesic_and_mixture_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.theory import rates
from measureflow.theory.equiangular import softmax, unnormalised
from measureflow.transport import coupling, mixture

CLAIM = Claim(
    "The interaction energy on the sphere is not geodesically convex and has many stationary points, among them "
    "unstable antipodal pairs.",
    reference="deck:25",
    where="slides on clustering and convergence; the second derivative is derived",
)

MODELS = (SoftmaxAttention, UnnormalisedAttention)
SHARES = np.linspace(0.0, 1.0, 31)


def circle(angles: Float[Array, " n"]) -> Particles:
    """Equal masses on the circle."""
    return Particles(Sphere(2), jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1))


def pair_energy(phi: Float[Array, ""]) -> Float[Array, ""]:
    """The energy `-∬e^{<x,y>}` of two half masses at an angle: the angle runs along a geodesic of measures."""
    return -2 * InteractionEnergy(1.0)(circle(jnp.stack([0 * phi, phi])))


def bending(phi: Float[Array, " k"], h: float = 5e-4) -> np.ndarray:
    """The second derivative of the pair energy, by central differences."""
    left, middle, right = np.asarray(jax.vmap(jax.jit(pair_energy))(jnp.concatenate([phi - h, phi, phi + h]))).reshape(
        3, -1
    )
    return (left - 2 * middle + right) / h**2


@eqx.filter_jit
def speeds(model: type[AbstractAttention], configurations: list[Particles]) -> Float[Array, " k"]:
    """The largest velocity of a token in each configuration, tangent to the sphere."""

    def speed(mu: Particles):
        attention = model.isotropic(mu.space.dim, beta=1.0)
        return jnp.abs(mu.transport(lambda xs: attention(0.0, xs, mu)).points).max()

    return jnp.stack([speed(mu) for mu in configurations])


def opening_rate(model: type[AbstractAttention]) -> float:
    """The rate at which a pair leaves the antipodal position: the slope of `phi'` at `phi = pi`."""

    def widening(phi):
        mu = circle(jnp.stack([0 * phi, phi]))
        attention = model.isotropic(2, beta=1.0)
        v = mu.transport(lambda xs: attention(0.0, xs, mu)).points
        turning = mu.points[:, 0] * v[:, 1] - mu.points[:, 1] * v[:, 0]
        return turning[1] - turning[0]

    return float(jax.jit(jax.grad(widening))(jnp.pi))


def ways() -> dict[str, tuple[np.ndarray, list[Particles]]]:
    """The energy along the geodesic from one cluster to a wide pair and along their mixture, and some frames."""
    cluster = jnp.linspace(-0.12, 0.12, 8)
    narrow, wide = (circle(jnp.concatenate([cluster, cluster + phi])) for phi in (0.02, 2.6))
    plan, energy = coupling(narrow, wide), eqx.filter_jit(-2 * InteractionEnergy(1.0))
    frames = {
        "along the geodesic": [plan.geodesic(float(t)) for t in SHARES],
        "along the mixture": [mixture(narrow, wide, float(t)) for t in SHARES],
    }
    return {name: (np.array([energy(mu) for mu in path]), path[::10]) for name, path in frames.items()}


def run(size: Size = SMALL) -> Verdict:
    """Bend the energy of a pair, and look for motion at regular polygons, a simplex and an antipodal pair."""
    golden = np.arccos((np.sqrt(5) - 1) / 2)
    phi = np.linspace(0.05, np.pi, 60)
    law = np.exp(np.cos(phi)) * (np.cos(phi) - np.sin(phi) ** 2) / 2
    simplex = Particles(Sphere(3), np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3))
    polygons = [circle(2 * jnp.pi * jnp.arange(float(q)) / q) for q in range(2, 9)]
    leaving = [float(rates.simplex_escape(2, 1.0, model=law)) / 2 for law in (softmax, unnormalised)]
    return CLAIM.judge(
        # Finite differences: h²/12 times a fourth derivative is about 1e-7.
        equal(
            "F'' at pi/2, pi, golden",
            [-1 / 2, -1 / (2 * np.e), 0],
            bending(jnp.array([np.pi / 2, np.pi, golden])),
            1e-6,
        ),
        equal("F'' against its law", 0.0, np.abs(bending(jnp.asarray(phi)) - law).max(), 1e-6),
        equal("sign of F'' around golden", [1.0, -1.0], np.sign(bending(jnp.array([golden - 0.01, golden + 0.01]))), 0),
        at_most(
            "largest speed at a rest point", 1e-14, np.max([speeds(model, [*polygons, simplex]) for model in MODELS])
        ),  # symmetry: only rounding is left
        # Positive, so the pair is unstable; overlaps are quadratic in displacements and leave at twice the rate.
        equal("rate of leaving the antipodal pair, SA and USA", leaving, [opening_rate(m) for m in MODELS], 1e-12),
        data=ways(),
    )


def draw(ways: dict[str, tuple[np.ndarray, list[Particles]]]) -> Figure:
    """A cluster that opens along a geodesic against one that fades into a pair, and the energy along both."""
    curves = [Curve(name, SHARES, energy) for name, (energy, _) in ways.items()]
    (_, geodesic), (_, mixture) = ways.values()
    return geodesic_and_mixture_figure(geodesic, mixture, SHARES[::10], curves, "energy")
