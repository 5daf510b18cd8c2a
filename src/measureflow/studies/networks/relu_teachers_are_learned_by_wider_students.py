"""Students with ReLU neurons find a teacher of a few such neurons more often the wider they are.

Teachers have unit weights in random directions and outputs of both signs; students start from normal parameters and see the same
data. A student as narrow as its teacher is often caught in a local minimum, one three times as wide hardly ever.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from measureflow.flows import Euler, evolve
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
from measureflow.studies.networks.widths import interval, of_width
from measureflow.training import Descent, NeuronRisk, Neurons

CLAIM = Claim(
    "Gradient descent of a two-layer ReLU network finds its teacher's function once it is a few times as wide as the teacher.",
    reference="chizat:18",
    where="section on numerical experiments, figure of ReLU networks; sizes are our own",
)
DIM, TEACHER, DATA = 3, 6, 80
WIDTHS = TEACHER * np.array([1, 2, 3, 4])
LEARNED = 1e-3
"""The share of the teacher's mean square below which a student has learned: local minima lie above, and slow runs below."""


def teacher(rng: np.random.Generator) -> np.ndarray:
    """Neurons of unit weight and outputs ±2, so that averages are of order one."""
    weights = rng.normal(size=(TEACHER, DIM))
    outputs = np.resize([2.0, -2.0], TEACHER)
    return np.concatenate([outputs[:, None], weights / np.linalg.norm(weights, axis=1, keepdims=True)], 1)


@eqx.filter_jit
def losses(
    risk: NeuronRisk,
    teachers: Float[Array, "r m D"],
    points: Float[Array, "r n D"],
    widths: Int[Array, " r"],
    times: Array,
) -> Float[Array, "r k"]:
    """The loss along each run, over that of a network without neurons."""

    def one(teacher, points, width):
        taught = eqx.tree_at(lambda r: r.targets, risk, jax.vmap(risk.features)(teacher).mean(0))
        path = evolve(Descent(taught), of_width(risk.neurons.space, points, width), times, Euler(0.3))
        return path.map(taught) / taught.loss(jnp.zeros_like(taught.targets))

    return jax.vmap(one)(teachers, points, widths)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Teachers of six neurons in three dimensions; each run has a teacher and a start of its own."""
    rng, runs = np.random.default_rng(seed), size.pick(16, 200)
    widths, times = np.repeat(WIDTHS, runs), jnp.linspace(0.0, size.pick(1200.0, 6000.0), 11)
    risk = NeuronRisk(rng.normal(size=(DATA, DIM)), np.zeros(DATA), Neurons(DIM))
    teachers = np.stack([teacher(rng) for _ in widths])
    points = rng.normal(size=(len(widths), WIDTHS[-1], DIM + 1))
    found = losses(risk, jnp.asarray(teachers), jnp.asarray(points), jnp.asarray(widths), times)
    ends = np.asarray(found)[:, -1].reshape(len(WIDTHS), runs)
    shares = interval((ends < LEARNED).sum(1), runs)
    return CLAIM.judge(
        # Over 96 runs of each width a quarter of the narrow students learn, and 95% of those three or four times as wide: 16
        # runs miss one of these bounds with probability below 2e-4.
        at_most("share of runs that learn with the teacher's width", 0.7, float(shares[1, 0])),
        at_least("share of runs that learn with three and four times its width", 0.6, shares[1, 2:]),
        at_least("gain of share from one to four times the width", 0.2, float(shares[1, -1] - shares[1, 0])),
        # The last two widths may learn equally often: then a share of 16 runs is below another by 0.4 once in a thousand.
        at_least("gain of share from each width to the next", 0.0, np.diff(shares[1]), slack=0.4),
        data=(ends, shares),
    )


def draw(data: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The loss that is left against the width, and the share of runs that learn."""
    ends, shares = data
    figure, (left, right) = panels(2)
    times = WIDTHS / TEACHER
    levels = {"lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75}
    curves = [Curve(name, times, np.quantile(ends, level, axis=1)) for name, level in levels.items()]
    draw_curves(left, curves, "neurons for each of the teacher", "loss left", log="y")
    curves = [Curve(name, times, part) for name, part in zip(("95% low", "share", "95% high"), shares, strict=True)]
    draw_curves(right, curves, "neurons for each of the teacher", "share of runs that learn")
    return figure
