"""Plain gradient descent on means and square roots of the components is the Bures-Wasserstein flow of the mixture.

With `S = L L^T` and `H` the mean Hessian of the first variation, the gradient in `L` is `H L = 2 (dF/dS) L`, so a step of length
`h` takes `S` to `(I - hH) S (I - hH)`, which stays positive. A component of mass `1/K` has `1/K` of the gradient, so the step is
`K` times it. For ReLU the blocks of `H` are sums over the data: `H_aa = 0`, `H_aw = E r x Phi(m/s)`,
`H_ww = E r x x^T (mu_a - c m/s^2) phi(m/s)/s`, with `r` the slope of the loss, `c = S_aw x` and `m`, `s` those of the score.
"""

import equinox as eqx
import jax
import numpy as np
from scipy.stats import norm

from measureflow.flows import Euler, evolve
from measureflow.measures import GaussianMixture
from measureflow.networks import GaussianMixtureLayer
from measureflow.plotting import Figure, draw_ellipses, label_axes, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.training import Descent, NeuronRisk, Neurons
from measureflow.training.activations import ReLU

CLAIM = Claim(
    "Plain gradient descent on mean and square-root factor is the Bures-Wasserstein gradient flow and keeps covariances "
    "positive.",
    reference="yan:25",
    where="derived; the abstract states the training as a Wasserstein gradient flow",
)

COMPONENTS, STEP = 3, 0.05
TIMES = STEP * np.arange(201)


def hessians(inputs: np.ndarray, residuals: np.ndarray, mu: GaussianMixture) -> np.ndarray:
    """The mean Hessian of the first variation over each component, block by block."""
    found = []
    for mean, cov in zip(np.asarray(mu.means), np.asarray(mu.covs), strict=True):
        m, c = inputs @ mean[1:], inputs @ cov[0, 1:]
        s = np.sqrt(np.einsum("nd,de,ne->n", inputs, cov[1:, 1:], inputs))
        bend = residuals * (mean[0] - c * m / s**2) * norm.pdf(m / s) / s
        mixed = (residuals * norm.cdf(m / s)) @ inputs
        found.append(np.block([[np.zeros((1, 1)), mixed[None]], [mixed[:, None], (inputs.T * bend) @ inputs]]))
    return np.array(found)


@eqx.filter_jit
def slopes(risk: NeuronRisk, layer: GaussianMixtureLayer) -> tuple[jax.Array, jax.Array]:
    """The slopes of the loss in the outputs, and its plain gradient in the square roots."""
    gradient = jax.grad(lambda one: risk.loss(jax.vmap(one)(risk.inputs)))(layer)
    return risk.residuals_of(jax.vmap(layer)(risk.inputs))[:, 0], gradient.spreads


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Three components of ReLU neurons with four parameters on ten data: one step, and the flow."""
    rng = np.random.default_rng(seed)
    neurons = Neurons(3, activation=ReLU())
    risk = NeuronRisk(rng.normal(size=(10, 3)), rng.normal(size=10), neurons)
    layer = GaussianMixtureLayer(neurons, rng.normal(size=(COMPONENTS, 4)), rng.normal(size=(COMPONENTS, 4, 4)) / 2)
    mu, (residuals, gradient) = layer.mixture, map(np.asarray, slopes(risk, layer))
    H = hessians(np.asarray(risk.inputs), residuals, mu)
    path = evolve(Descent(risk, factor=1.0), mu, TIMES, Euler(STEP))
    stepped = layer.spreads - STEP * COMPONENTS * gradient
    shrink = np.eye(4) - STEP * H
    exact = shrink @ np.asarray(mu.covs) @ shrink
    least = np.linalg.eigvalsh(np.asarray(path.measures.covs)).min()
    return CLAIM.judge(
        # Identities, up to rounding.
        equal(
            "K times the gradient in L, less H L",
            0.0,
            float(np.abs(COMPONENTS * gradient - H @ layer.spreads).max()),
            1e-10,
        ),
        equal(
            "S after a step, less (I - hH) S (I - hH)", 0.0, float(np.abs(stepped @ stepped.mT - exact).max()), 1e-10
        ),
        equal(
            "S after a step of the flow, less the same",
            0.0,
            float(np.abs(np.asarray(path.at(1).covs) - exact).max()),
            1e-10,
        ),
        at_least("least eigenvalue of a covariance along the flow", 0.0, float(least), slack=1e-12),
        data=(np.asarray(path.measures.means), np.asarray(path.measures.covs)),
    )


def draw(data: tuple) -> Figure:
    """The components in the plane of the output and the first weight, from pale to full."""
    means, covs = data
    figure, (ax,) = panels(width=6.4, height=4.8)
    draw_ellipses(ax, means[:, :, :2], covs[:, :, :2, :2])
    label_axes(ax, "output a", "weight w₁", f"{COMPONENTS} components along the flow")
    return figure
