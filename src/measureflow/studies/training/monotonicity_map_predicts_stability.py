"""Where the constants of strong monotonicity are positive clouds contract; the map over scale and decay shows how much they miss.

In a ball around a rest point, `Psi` has at least the curvature `m_0`, and what one cloud feels of the other's place is at most
`L_0 = k E |J|^2`. Pairs of particles of two clouds then come together at least like `exp(-2 m t)` with `m = m_0 - L_0`. The scale
multiplies the output of heads and the inputs of neurons, as an inverse temperature does. Time runs in units of `1 / decay`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.energies import AbstractEnergy
from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.plotting import Figure, draw_table, panels
from measureflow.plotting.colours import PALETTE
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.training import Constant, Descent, NeuronRisk, Neurons, Ridge, fixtures
from measureflow.training.perturbation import monotonicity, rest_point

CLAIM = Claim(
    "Strong monotonicity predicts stable regimes: where m_0 > L_0 two clouds contract, at least like exp(-2(m_0-L_0)t).",
    reference="heads:26",
    where="theorem 7.1 and its review, mapped over temperature and decay",
)
RADIUS, CLOUD, STABLE = 0.5, 6, 0.5
"""The ball, the particles of a cloud, and the share of their distance that contracting clouds may have left at the end."""
STEP = 0.01
"""Below the limit of stability at the largest scale and the least decay, where rates are 300 in units of the decay."""
TIMES = np.linspace(0.0, 3.0, 13)


class Map(NamedTuple):
    """For scales (rows) and decays (columns): `m`, and the distance of two clouds over time, relative to its start."""

    scales: np.ndarray
    decays: np.ndarray
    m: np.ndarray
    left: np.ndarray

    @property
    def contracting(self) -> np.ndarray:
        """Which cells come together."""
        return self.left[..., -1] < STABLE

    @property
    def bound(self) -> np.ndarray:
        """What is left at most if the constants are right."""
        return np.exp(-2 * (np.maximum(self.m, 0.0) / self.decays)[..., None] * TIMES)


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(0, 0, 0, None))
def apart(energy: AbstractEnergy, rest: jax.Array, decay: jax.Array, away: jax.Array) -> jax.Array:
    """The root of the mean squared distance of paired particles of two clouds, over time in units of the inverse decay."""

    def cloud(away):
        start = Particles(Euclidean(len(rest)), rest[None] + away)
        return evolve(Descent(energy, Constant(1 / decay)), start, TIMES, RK4(STEP)).measures.points

    return jnp.sqrt(jnp.sum((cloud(away[0]) - cloud(away[1])) ** 2, (-2, -1)))


def mapped(make: Callable[[float], Any], scales: np.ndarray, decays: np.ndarray, seed: int) -> Map:
    """The map of a family of risks."""
    cells = [(make(float(scale)), Ridge(float(decay))) for scale in scales for decay in decays]
    D = cells[0][0].family.size
    rests = [rest_point(risk + ridge, jnp.zeros(D)) for risk, ridge in cells]
    found = [
        monotonicity(risk + ridge, risk, rest, RADIUS, key=seed)
        for (risk, ridge), rest in zip(cells, rests, strict=True)
    ]
    away = RADIUS * jax.random.ball(jax.random.key(seed), D, shape=(2, CLOUD), dtype=float)
    energies = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(risk + ridge for risk, ridge in cells))
    far = np.asarray(apart(energies, jnp.stack(rests), jnp.tile(jnp.asarray(decays), len(scales)), away))
    shape = len(scales), len(decays)
    return Map(scales, decays, np.reshape([one.m for one in found], shape), (far / far[:, :1]).reshape(*shape, -1))


def network(rng: np.random.Generator) -> Callable[[float], NeuronRisk]:
    """Neurons with tanh on twelve points of the plane."""
    x = rng.normal(size=(12, 2))
    y = np.sin(x[:, 0]) + 0.5 * rng.normal(size=12)
    return lambda scale: NeuronRisk(scale * x, y, Neurons(2, activation=jnp.tanh))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Score heads of F2 and neurons with tanh, 6 x 6 cells (full: 12 x 12), two clouds of six in a ball of radius one half."""
    count = size.pick(6, 12)
    scales, decays = np.geomspace(0.05, 1.6, count), np.geomspace(0.06, 3.0, count)
    families = {"heads of F2": fixtures.f2, "neurons with tanh": network(np.random.default_rng(seed))}
    maps = {name: mapped(make, scales, decays, seed) for name, make in families.items()}
    sure = {name: one.m > 0 for name, one in maps.items()}
    wrong = [int((sure[name] & ~one.contracting).sum()) for name, one in maps.items()]
    shares = [float(sure[name].sum() / one.contracting.sum()) for name, one in maps.items()]
    unstable = [int((~one.contracting).sum()) for one in maps.values()]
    worst = [(one.left / one.bound)[sure[name]].max() for name, one in maps.items()]
    return CLAIM.judge(
        equal("cells predicted stable that do not contract", [0, 0], wrong, 0),
        # Rounding of the first frame, where the bound is an equality; extrema over samples are nearer than the bound is sharp.
        at_most("distance over its bound, predicted cells", 1 + 1e-9, worst),
        # Otherwise the map would say nothing: it has cells of both kinds, and a good part of the stable ones is predicted.
        at_least("cells that do not contract", [1, 1], unstable),
        at_least("share of contracting cells that are predicted", [0.3, 0.3], shares),
        data=maps,
    )


def draw(maps: dict[str, Map]) -> Figure:
    """The distance that two clouds have left, and the line above which contraction is certain."""
    figure, axes = panels(len(maps), height=5.2)
    for ax, (name, one) in zip(axes, maps.items(), strict=True):
        draw_table(ax, one.left[..., -1].clip(0, 1), name, top=1.0, names=("decay", "scale"))
        fine = np.kron(one.m > 0, np.ones((40, 40)))  # so that the line follows the edges of cells
        ends = -0.5, len(one.decays) - 0.5, -0.5, len(one.scales) - 0.5
        ax.contour(fine, levels=[0.5], colors=PALETTE[1], linewidths=2.5, extent=ends)
        for axis, values in ((ax.xaxis, one.decays), (ax.yaxis, one.scales)):
            shown = range(0, len(values), max(1, len(values) // 6))
            axis.set_ticks(shown, [f"{values[k]:.2g}" for k in shown])
    share = f"share of their distance that two clouds have left after {TIMES[-1]:g} / decay, at most 1"
    figure.suptitle(f"{share}; upper right of the line m₀ > L₀", fontsize=11)
    return figure
