"""Confined to one Gaussian, the law of the neurons trains along another curve than a wide network that starts from it.

The network of 2000 neurons sampled from the Gaussian has its loss at the start up to sampling. Then its neurons part into groups,
their law is Gaussian no more, and its loss falls while that of the Gaussian lingers.
"""

import numpy as np

from measureflow.flows import Euler, evolve
from measureflow.measures import GaussianMixture
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
from measureflow.studies.networks.classes import quadrants
from measureflow.training import Descent, Logistic, NeuronRisk, Neurons
from measureflow.training.activations import ReLU

CLAIM = Claim(
    "Training curves of a Gaussian-mixture layer differ markedly from those of a wide fully connected network started from the "
    "same law.",
    reference="yan:25",
    where="abstract; the setting is chosen here",
)

WIDTH, TIMES = 2000, np.linspace(0.0, 20.0, 41)


def kurtosis(points: np.ndarray) -> np.ndarray:
    """The largest excess kurtosis of a parameter at each time, in units of its scatter for as many normal numbers."""
    away = points - points.mean(1, keepdims=True)
    excess = (away**4).mean(1) / (away**2).mean(1) ** 2 - 3
    return np.abs(excess).max(-1) / np.sqrt(24 / points.shape[1])


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """One standard normal law of ReLU neurons and 2000 neurons drawn from it, on 200 points by quadrants."""
    rng = np.random.default_rng(seed)
    neurons = Neurons(2, activation=ReLU(), bias=True)
    risk = NeuronRisk(*quadrants(rng, 200, 2), neurons, Logistic())
    normal = GaussianMixture([1.0], np.zeros((1, neurons.size)), np.eye(neurons.size)[None])
    sample, step = normal.sample(WIDTH, key=int(rng.integers(2**31))), Euler(size.pick(0.1, 0.02))
    lost, field = lambda mu: risk(mu), Descent(risk)
    one, wide = (evolve(field, start, TIMES, step, observe=lost, keep=True) for start in (normal, sample))
    losses, tails = np.array([one.observed, wide.observed]), kurtosis(np.asarray(wide.points))
    apart = np.abs(losses[0] - losses[1]) / losses[0]
    return CLAIM.judge(
        # The slope of the loss is at most one half on average, and outputs scatter like a few m^{-1/2}.
        at_most("relative difference of the losses at the start", 3 * WIDTH**-0.5, float(apart[0])),
        at_least("relative difference of the losses at the end", 0.1, float(apart[-1])),
        # Four parameters of a normal law stay within five deviations but for a chance of 1e-5 or so.
        at_most("excess kurtosis at the start, in its scatter", 5.0, float(tails[0])),
        at_least("excess kurtosis at the end, in its scatter", 8.0, float(tails[-1])),
        data=(losses, tails),
    )


def draw(data: tuple) -> Figure:
    """Both losses over time, and how far the law of the neurons is from a normal one."""
    losses, tails = data
    figure, (left, right) = panels(2)
    names = ("one Gaussian", f"{WIDTH} neurons from it")
    curves = [Curve(name, TIMES, loss) for name, loss in zip(names, losses, strict=True)]
    draw_curves(left, curves, "time t", "logistic loss", title="training from the same law")
    curve = Curve(f"{WIDTH} neurons", TIMES, tails, np.ones(len(TIMES)))
    draw_curves(
        right, [curve], "time t", "excess kurtosis over its scatter", law="normal law", title="law of the neurons"
    )
    return figure
