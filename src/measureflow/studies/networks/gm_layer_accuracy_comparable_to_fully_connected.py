"""Ten Gaussian components classify as well as fifty neurons, and as well as neurons with the same number of parameters.

All networks descend the logistic risk by the same steps of the flow of their measure: means and roots of the one, neurons of the
others. With `D` parameters a neuron, `K` components with full roots have `K (D + D^2)` numbers, and so have `K (1 + D)` neurons.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import t as student

from measureflow.flows import Euler, evolve
from measureflow.measures import AbstractMeasure, Particles
from measureflow.networks import GaussianMixtureLayer
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least
from measureflow.studies.networks.classes import quadrants, shells
from measureflow.training import Descent, Logistic, NeuronRisk, Neurons
from measureflow.training.activations import ReLU

CLAIM = Claim(
    "On simple classification a Gaussian-mixture layer reaches test accuracy comparable to a two-layer fully connected network.",
    reference="yan:25",
    where="abstract; data, sizes and what counts as comparable are chosen here",
)

COMPONENTS, WIDTH, DRAWS, POINTS = 10, 50, 5, 1000
KINDS = {"quadrants": quadrants, "shells": shells}
STEP = 0.25


def accuracy(risk: NeuronRisk, mu: AbstractMeasure, inputs: jax.Array, labels: jax.Array) -> jax.Array:
    """The share of points on the right side."""
    return jnp.mean((eqx.tree_at(lambda r: r.inputs, risk, inputs).logits(mu)[:, 0] > 0) == (labels > 0))


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(0, 0, 0, 0, None))
def trained(
    risk: NeuronRisk, start: AbstractMeasure, inputs: jax.Array, labels: jax.Array, times: jax.Array
) -> jax.Array:
    """The accuracy on new points along the flow of the risk."""
    observe = lambda mu: accuracy(risk, mu, inputs, labels)  # noqa: E731
    return evolve(Descent(risk), start, times, Euler(STEP), observe=observe).observed


def stacked(items: list[Any]) -> Any:
    """Trees of one shape as one with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *items)


def starts(neurons: Neurons, rng: np.random.Generator) -> dict[str, AbstractMeasure]:
    """Networks of three kinds with parameters of about one size."""
    D, d = neurons.size, neurons.dim
    layer = GaussianMixtureLayer.normal(d, 1, COMPONENTS, key=int(rng.integers(2**31)))
    unit = neurons.by_block(output=1.0, weight=d**-0.5, bias=1.0)[None]
    widths = {f"{WIDTH} neurons": WIDTH, "same number of parameters": COMPONENTS * (1 + D)}
    plain = {name: Particles(neurons.space, unit * rng.normal(size=(n, D))) for name, n in widths.items()}
    return {f"{COMPONENTS} Gaussians": layer.mixture, **plain}


def compared(rng: np.random.Generator, dim: int, times: np.ndarray) -> dict[str, np.ndarray]:
    """Accuracies `(kinds of data, draws, times)` of each network in a dimension."""
    neurons = Neurons(dim, 1, ReLU(), bias=True)
    data = [make(rng, 2 * POINTS, dim) for make in KINDS.values() for _ in range(DRAWS)]
    risks = stacked([NeuronRisk(x[:POINTS], y[:POINTS], neurons, Logistic()) for x, y in data])
    inputs, labels = (jnp.stack([pair[i][POINTS:] for pair in data]) for i in range(2))
    networks = [starts(neurons, rng) for _ in data]
    found = {}
    for name in networks[0]:
        start = stacked([one[name] for one in networks])
        found[name] = np.asarray(trained(risks, start, inputs, labels, jnp.asarray(times)))
    return {name: values.reshape(len(KINDS), DRAWS, -1) for name, values in found.items()}


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Two kinds of data in five dimensions (full: two, five and ten), 1000 points to train and 1000 to test, five draws each."""
    rng = np.random.default_rng(seed)
    times = np.linspace(0.0, size.pick(40.0, 100.0), 11)
    found = {dim: compared(rng, dim, times) for dim in size.pick((5,), (2, 5, 10))}
    ends = {dim: {name: values[:, :, -1].mean(1) for name, values in one.items()} for dim, one in found.items()}
    gm, wide, same = (np.array([list(one.values())[k] for one in ends.values()]) for k in range(3))
    return CLAIM.judge(
        # Five points: comparable has no number in the abstract. Being better counts as comparable.
        at_least(f"accuracy above that of {WIDTH} neurons", -0.05, gm - wide),
        at_least("accuracy above that of the same number of parameters", -0.05, gm - same),
        # Otherwise it would be easy to be comparable.
        at_least("accuracy", 0.75, gm),
        data=(times, found),
    )


def draw(data: tuple) -> Figure:
    """The mean accuracy over training, with its interval of confidence 95 percent, for each kind of data and dimension."""
    times, found = data
    figure, axes = panels(len(KINDS), len(found))
    far = student.ppf(0.975, DRAWS - 1) / DRAWS**0.5
    shown = [(kind, i, dim) for dim in found for i, kind in enumerate(KINDS)]
    for ax, (kind, i, dim) in zip(axes, shown, strict=True):
        values = {name: one[i] for name, one in found[dim].items()}
        curves = [Curve(name, times, one.mean(0)) for name, one in values.items()]
        draw_curves(ax, curves, "time t", "test accuracy", title=f"{kind} in {dim} dimensions")
        for line, one in zip(ax.get_lines(), values.values(), strict=True):
            mean, room = one.mean(0), far * one.std(0, ddof=1)
            ax.fill_between(times, mean - room, mean + room, color=line.get_color(), alpha=0.15, linewidth=0)
    return figure
