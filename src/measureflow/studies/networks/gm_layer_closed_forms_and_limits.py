"""A layer of neurons with Gaussian parameters is a formula: `E[a s(w x)] = mu_a A(m, v) + S_aw x A_1(m, v)`.

`A` and `A_1` are means of the activation and of its slope over the normal law of the score, closed forms for nine activations.
Without covariance the layer is a plain one, sampling its neurons errs like `N^{-1/2}`, and descent keeps the rank of its roots.
"""

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.flows import Euler, evolve
from measureflow.networks import GaussianMixtureLayer, LowRank
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal, slope
from measureflow.training import Descent, NeuronRisk, Neurons
from measureflow.training.activations import (
    GELU,
    AbstractActivation,
    Cosine,
    Erf,
    Exponential,
    LeakyReLU,
    Probit,
    ReLU,
    Sine,
    SquaredReLU,
)

CLAIM = Claim(
    "A Gaussian-mixture layer has closed-form outputs for common activations, becomes a plain layer at zero covariance, is "
    "sampled with an error like the inverse root of the number of neurons, and small steps of descent lower its loss at "
    "constant rank.",
    reference="yan:25",
    where="derived for the layer of the abstract",
)

ACTIVATIONS: tuple[AbstractActivation, ...] = (
    ReLU(), SquaredReLU(), LeakyReLU(0.2), Erf(), Probit(), GELU(), Sine(), Cosine(), Exponential(),
)  # fmt: skip
WIDTHS, STEPS = np.array([100, 1000, 10_000, 100_000]), 200


def mean_output(law: AbstractActivation, mean: np.ndarray, cov: np.ndarray) -> float:
    """`E[a s(w)]` for a normal pair `(a, w)`, by Gauss-Legendre rules on forty panels on either side of the kink at zero.

    Given `w`, the output has the mean `mu_a + (S_aw / S_ww) (w - mu_w)`.
    """
    nodes, weights = np.polynomial.legendre.leggauss(20)
    places = ((np.arange(40)[:, None] + (nodes[None] + 1) / 2) / 40).ravel()
    s, total = np.sqrt(cov[1, 1]), 0.0
    low, high = mean[1] - 14 * s, mean[1] + 14 * s
    middle = np.clip(0.0, low, high)
    for start, length in ((low, middle - low), (middle, high - middle)):
        w = start + length * places
        density = np.exp(-((w - mean[1]) ** 2) / (2 * s**2)) / np.sqrt(2 * np.pi) / s
        given = mean[0] + cov[0, 1] / cov[1, 1] * (w - mean[1])
        total += length * np.tile(weights / 80, 40) @ (given * density * np.asarray(law(jnp.asarray(w))))
    return float(total)


def drawn(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and roots of normal pairs of output and weight, correlated."""
    return rng.normal(size=(count, 2)), rng.normal(size=(count, 2, 2))


def errors(rng: np.random.Generator) -> np.ndarray:
    """How far the closed forms are from quadrature, by activation."""
    means, roots = drawn(rng, 20)
    covs, unit = roots @ roots.transpose(0, 2, 1), jnp.ones((1, 1))
    off = []
    for law in ACTIVATIONS:
        closed = jax.vmap(lambda m, r, law=law: Neurons(1, activation=law).mean(m, r, unit)[0, 0])
        exact = np.array([mean_output(law, *pair) for pair in zip(means, covs, strict=True)])
        found = np.asarray(jax.jit(closed)(jnp.asarray(means), jnp.asarray(roots)))
        off.append(np.abs(found - exact) / np.maximum(np.abs(exact), 1.0))
    return np.array(off).max(1)


def narrowed(rng: np.random.Generator, inputs: jax.Array) -> float:
    """How far a layer of standard deviation 1e-4 is from the plain one of its means."""
    W, V, b = rng.normal(size=(5, 3)), rng.normal(size=(1, 5)) / 5, rng.normal(size=5)
    near = jax.jit(lambda x: jax.vmap(GaussianMixtureLayer.from_dense(W, V, b, 1e-4, activation=GELU()))(x))
    plain = GELU()(inputs @ W.T + b[None]) @ V.T
    return float(jnp.abs(near(inputs) - plain).max())


def sampled(layer: GaussianMixtureLayer, inputs: jax.Array, seed: int) -> np.ndarray:
    """The root mean square error of networks of sampled neurons, by width, from 24 draws each."""

    @jax.jit
    def squares(keys):
        exact = jax.vmap(layer)(inputs)

        def draw(key):
            points = layer.sample(int(WIDTHS[-1]), key=key).points
            active, outputs = layer.neurons.active(points, inputs), layer.neurons.out(points)
            return jnp.stack([jnp.mean((active[:n].T @ outputs[:n] / n - exact) ** 2) for n in WIDTHS.tolist()])

        return jax.lax.map(draw, keys)

    return np.sqrt(squares(jax.random.split(jax.random.key(seed), 24)).mean(0))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Twenty normal pairs for each activation, a layer in three dimensions, and 200 steps with roots of shape 5 x 2."""
    rng = np.random.default_rng(seed)
    inputs = jnp.asarray(rng.normal(size=(10, 3)))
    off, near = errors(rng), narrowed(rng, inputs)
    layer = GaussianMixtureLayer.normal(3, 1, 3, key=seed, spread=0.7, covariances=LowRank(2))
    scatter = sampled(layer, inputs, seed)
    risk = NeuronRisk(inputs, rng.normal(size=10), layer.neurons)
    times, lost = np.arange(STEPS + 1) * 0.02, lambda mu: risk(mu)
    path = evolve(Descent(risk), layer.mixture, times, Euler(0.02), observe=lost, keep=True)
    loss, ranks = np.asarray(path.observed), np.linalg.matrix_rank(np.asarray(path.measures.covs))
    return CLAIM.judge(
        # Forty panels of twenty nodes are exact to rounding.
        at_most("closed forms off quadrature", 1e-10, off),
        # The curvature of the activation times half the variance of a score, about 1e-8.
        at_most("layer at deviation 1e-4 off the plain one", 1e-6, near),
        # 24 draws leave a scatter of 0.022 in the exponent.
        equal("exponent of the sampling error", -0.5, slope(WIDTHS, scatter), 0.1),
        at_most("rise of the loss in a step", 0.0, np.diff(loss), slack=1e-12),
        equal("ranks of covariances", np.full(ranks.shape, 2), ranks, 0.0),
        data=(off, scatter, loss),
    )


def draw(data: tuple) -> Figure:
    """The averages of three activations, the sampling error by width, and the loss along the descent."""
    _, scatter, loss = data
    figure, (left, middle, right) = panels(3)
    m = np.linspace(-3, 3, 201)
    pairs = {"ReLU": ReLU(), "GELU": GELU(), "sine": Sine()}
    curves = [
        Curve(name, m, law.average(jnp.asarray(m), jnp.ones(201)), law(jnp.asarray(m))) for name, law in pairs.items()
    ]
    draw_curves(left, curves, "mean score m", "mean output A(m, 1)", law="without variance", title="closed forms")
    law = scatter[0] * (WIDTHS / WIDTHS[0]) ** -0.5
    draw_curves(
        middle,
        [Curve("sampled neurons", WIDTHS, scatter, law)],
        "neurons N",
        "error",
        log="xy",
        law=r"$\propto N^{-1/2}$",
    )
    middle.set_title("sampling", fontsize=12)
    draw_curves(
        right, [Curve("loss", np.arange(len(loss)), loss)], "step", "loss", log="y", title="descent at rank two"
    )
    return figure
