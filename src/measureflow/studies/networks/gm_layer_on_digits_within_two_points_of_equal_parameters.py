"""On handwritten digits ten Gaussian components do better than ten neurons and about as well as the twenty that they cost.

A component of `theta = (a, w, b)` with a root of one column has as many numbers as two neurons. All networks take the same steps
of Adam on all the training digits. Components learn several times more slowly, and in the end, with losses below 0.001, the
layer is 0.3 points below as many parameters, which is within the interval of five draws, and 1.5 points above as many units.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import t as student

from measureflow.networks import GaussianMixtureLayer, LowRank
from measureflow.networks.gaussian import Dense
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.studies.networks.adam import begun, stepped

CLAIM = Claim(
    "On digits a Gaussian-mixture layer is comparable to dense networks: within two points of one with as many parameters, and "
    "better than one with as many neurons as it has components.",
    reference="yan:25",
    where="abstract; data, sizes and what counts as comparable are chosen here",
)
COMPONENTS, DRAWS, TRAINED, RATE, FRAMES = 10, 5, 1200, 0.01, 8


def split(seed: int) -> tuple[jax.Array, ...]:
    """Digits to train and to test, with the pixels centred and of unit size."""
    from sklearn.datasets import load_digits  # installed beside the library, or the claim is not decided

    images, labels = (np.asarray(part) for part in load_digits(return_X_y=True))
    order = np.random.default_rng(seed).permutation(len(images))
    seen = images[order[:TRAINED]]
    images = jnp.asarray((images[order] - seen.mean(0)) / seen.std(), jnp.float32)
    return (
        images[:TRAINED],
        jnp.asarray(labels[order[:TRAINED]]),
        images[TRAINED:],
        jnp.asarray(labels[order[TRAINED:]]),
    )


def dense(width: int, key: jax.Array) -> Dense:
    """A plain block whose scores and outputs have about unit size."""
    inner, outer = jax.random.split(key)
    weights, outputs = (
        jax.random.normal(k, (n, m), jnp.float32) for k, n, m in ((inner, width, 64), (outer, 10, width))
    )
    return Dense(weights / 8, outputs / width**0.5, jnp.zeros(width, jnp.float32), jax.nn.relu)


def mixture(key: jax.Array) -> GaussianMixtureLayer:
    """Components with outputs as large as those of the neurons, and one column of deviations each."""
    layer = GaussianMixtureLayer.normal(64, 10, COMPONENTS, key=key, covariances=LowRank(1))
    large = layer.means.at[:, :10].multiply(COMPONENTS**0.5)
    layer = eqx.tree_at(lambda one: one.means, layer, large)
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), layer)


NETWORKS = {
    f"{COMPONENTS} components": mixture,
    f"{2 * COMPONENTS} neurons, as many parameters": lambda key: dense(2 * COMPONENTS, key),
    f"{COMPONENTS} neurons, as many units": lambda key: dense(COMPONENTS, key),
}


def loss(layer: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean cross-entropy."""
    found = jax.nn.log_softmax(jax.vmap(layer)(images))
    return -jnp.mean(jnp.take_along_axis(found, labels[:, None], 1))


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(0, 0, None))
def trained(layer: Any, data: tuple[jax.Array, ...], steps: int) -> tuple[jax.Array, jax.Array]:
    """The accuracy on new digits and the loss on known ones, at eight times of training by Adam."""
    numbers, form = eqx.partition(layer, eqx.is_inexact_array)
    images, labels, new, new_labels = data

    def step(state, k):
        g = jax.grad(lambda x: loss(eqx.combine(x, form), images, labels))(state[0])
        return stepped(state, g, k, RATE), None

    def frame(state, k):
        state, _ = jax.lax.scan(step, state, (k * steps // FRAMES + jnp.arange(steps // FRAMES)).astype(jnp.float32))
        layer = eqx.combine(state[0], form)
        return state, (jnp.mean(jnp.argmax(jax.vmap(layer)(new), 1) == new_labels), loss(layer, images, labels))

    return jax.lax.scan(frame, begun(numbers), jnp.arange(FRAMES))[1]


def stacked(items: list[Any]) -> Any:
    """Trees of one shape as one with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *items)


def interval(values: np.ndarray) -> tuple[float, float]:
    """The mean of draws, and half the width of its interval of confidence 95 percent."""
    return float(values.mean()), float(student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """1200 digits to train and 597 to test, five splits, 200 steps (full: 2400)."""
    steps = size.pick(200, 2400)
    data = stacked([split(DRAWS * seed + k) for k in range(DRAWS)])
    keys, found = jax.random.split(jax.random.key(seed), DRAWS), {}
    for name, make in NETWORKS.items():
        accuracy, left = trained(stacked([make(key) for key in keys]), data, steps)
        found[name] = 100 * np.asarray(accuracy, float), np.asarray(left, float)
    gm, same, narrow = (accuracy[:, -1] for accuracy, _ in found.values())
    (below, room), above = interval(gm - same), float((gm - narrow).mean())
    learnt = [float(left[:, -1].mean()) for _, left in found.values()]
    return CLAIM.judge(
        # Both ends of the interval of confidence 95 percent over five paired draws; two points are called comparable here.
        equal("points above as many parameters, ends", [0.0, 0.0], [below - room, below + room], 2.0),
        # The standard error of a mean over five draws is half a point.
        at_least("points above as many units", 0.0, above, 0.5),
        at_least("accuracy in percent", 93.0, gm.mean()),
        # Components learn more slowly, several times so in every draw.
        at_least("loss on known digits over that of as many parameters", 2.0, learnt[0] / learnt[1]),
        data=(steps, found),
    )


def draw(data: tuple[int, dict[str, tuple[np.ndarray, np.ndarray]]]) -> Figure:
    """Accuracy with its interval of confidence 95 percent, and what is left of the loss, over the steps."""
    steps, found = data
    figure, axes = panels(2)
    at = steps * np.arange(1, FRAMES + 1) / FRAMES
    for ax, k, up in ((axes[0], 0, "accuracy on new digits in percent"), (axes[1], 1, "loss on known digits")):
        curves = [Curve(name, at, one[k].mean(0)) for name, one in found.items()]
        draw_curves(ax, curves, "steps", up, log="y" if k else "")
        for line, one in zip(ax.get_lines(), found.values(), strict=True):
            centre, room = np.array([interval(values) for values in one[k].T]).T
            ax.fill_between(at, centre - room, centre + room, color=line.get_color(), alpha=0.15, linewidth=0)
    return figure
