"""Random tokens on the circle: how many clusters attention makes of them first, and how many modes their density had.

Softmax attention climbs the logarithm of a density estimate at the bandwidth `β^{-1/2}`. If the estimate did not change on the
way, each of its modes would become a cluster. It does change, and modes merge while tokens gather; the study says by how much.
The ratio at t = 10 falls a little with β, from 1.00 ± .04 at 10 to 0.89 ± .01 at 1000, so it is no universal number.
Modes are those of the Gaussian estimate on the circle unrolled three times; shot noise predicts their number.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.diagnostics import line_modes
from measureflow.fields import SoftmaxAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import modes

CLAIM = Claim(
    "Attention on the circle first gathers 100 random tokens into as many clusters as their density estimate has modes at the "
    "bandwidth β^{-1/2}, within a sixth for β from 10 to 1000; then clusters merge slowly, and at t=100 between 0.7 and 0.9 of "
    "them are left.",
    reference="geshkovski:24",
    where="derived: the question of its introduction, decided by simulation",
)

N = 100
TIMES = np.array([0.0, 10.0, 30.0, 100.0])


@eqx.filter_jit
def paths(betas: Float[Array, " k"], angles: Float[Array, "k n"]) -> Float[Array, "k frames n"]:
    """The angles of tokens at all times."""

    def one(start):
        beta, angles = start
        mu = Particles(Sphere(2), jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1))
        points = evolve(SoftmaxAttention.isotropic(2, beta), mu, TIMES, Adaptive(1e-5)).measures.points
        return jnp.arctan2(points[..., 1], points[..., 0])

    return jax.lax.map(one, (betas, angles))


def modes_around(angles: np.ndarray, beta: float) -> int:
    """The modes of the estimate around the circle."""
    once = np.sort(np.mod(angles, 2 * np.pi))
    found = line_modes(np.concatenate([once - 2 * np.pi, once, once + 2 * np.pi]), beta)
    return int(((found >= 0) & (found < 2 * np.pi)).sum())


def clusters_around(angles: np.ndarray, beta: float) -> int:
    """Groups of tokens apart by more than a bandwidth."""
    once = np.sort(np.mod(angles, 2 * np.pi))
    return max(int((np.diff(np.append(once, once[0] + 2 * np.pi)) > beta**-0.5).sum()), 1)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Count modes at the start and clusters at t = 10, 30 and 100, for 8 starts (40 in full) of 100 tokens and each beta."""
    betas = np.array(size.pick([30.0, 100.0, 300.0], [10.0, 30.0, 100.0, 300.0, 1000.0]))
    starts = size.pick(8, 40)
    angles = 2 * np.pi * np.random.default_rng(seed).random((len(betas), starts, N))
    each = np.repeat(betas, starts)
    found = np.asarray(paths(jnp.asarray(each), jnp.asarray(angles.reshape(-1, N)))).reshape(
        len(betas), starts, len(TIMES), N
    )
    first = np.array([[modes_around(start, beta) for start in some] for some, beta in zip(angles, betas, strict=True)])
    later = np.array(
        [
            [[clusters_around(f, beta) for f in path[1:]] for path in some]
            for some, beta in zip(found, betas, strict=True)
        ]
    )
    ratios = later.sum(1) / first.sum(1)[:, None]
    tokens = N / (2 * np.pi * np.sqrt(betas))
    expected = 2 * np.pi * np.sqrt(betas) * np.asarray(modes.shot_noise(tokens))
    errors = 0.6 * np.sqrt(expected / starts)
    return CLAIM.judge(
        # Four standard errors, since counts scatter by at most 0.6 of their root, and a hundredth for the table.
        equal("modes of the start, against shot noise", expected, first.mean(1), 4 * errors + 0.01 * expected),
        # Means over 40 starts are .89 to 1.00; those of 8 starts scatter by .03.
        at_least("clusters at t = 10 over modes of the start", 5 / 6, ratios[:, 0], slack=size.pick(0.05, 0.0)),
        at_most("the same, from above", 7 / 6, ratios[:, 0], slack=size.pick(0.05, 0.0)),
        # Means over 40 starts are .75 to .82.
        at_least("clusters at t = 100 over modes of the start", 0.7, ratios[:, 2], slack=size.pick(0.05, 0.0)),
        at_most("clusters at t = 100 over modes, from above", 0.9, ratios[:, 2], slack=size.pick(0.05, 0.0)),
        at_most("change of the number of clusters from t = 10 to 100", 0, int((later[..., 2] - later[..., 0]).max())),
        data={
            "beta": betas,
            "modes": first,
            "clusters": later,
            "path": np.sort(found[1, 0], axis=-1),
            "expected": expected,
        },
    )


def draw(found: dict[str, np.ndarray]) -> Figure:
    """Modes at the start and clusters later over β, and their ratio; bars are two standard errors."""
    figure, (left, right) = panels(2)
    beta, first, later = found["beta"], found["modes"], found["clusters"]
    root = np.sqrt(first.shape[1])
    rows = {f"clusters, t = {t:g}": later[..., i] for i, t in enumerate(TIMES[1:])}
    numbers, shares = (
        rows | {"modes of the start": first},
        {name: each / first.mean(1)[:, None] for name, each in rows.items()},
    )
    laws = {"modes of the start": found["expected"]}
    draw_curves(
        left, [Curve(name, beta, each.mean(1), laws.get(name)) for name, each in numbers.items()], "β", "number", log="xy",
        law="shot noise",
    )  # fmt: skip
    draw_curves(
        right, [Curve(name, beta, each.mean(1)) for name, each in shares.items()], "β", "clusters over modes", log="x"
    )
    for i, each in enumerate(numbers.values()):
        left.errorbar(
            beta, each.mean(1), 2 * each.std(1) / root, fmt="none", color=left.lines[i].get_color(), capsize=3
        )
    for i, each in enumerate(rows.values()):
        bars = 2 * (each - first).std(1) / root / first.mean(1)
        right.errorbar(
            beta, each.mean(1) / first.mean(1), bars, fmt="none", color=right.lines[i].get_color(), capsize=3
        )
    right.set_ylim(0.5, 1.2)
    right.axhline(1.0, color="#9A9A9A", linewidth=0.9)
    return figure
