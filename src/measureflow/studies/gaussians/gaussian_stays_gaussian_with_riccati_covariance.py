"""The moments of a Gaussian obey a closed equation, and samples of it follow at the rate of Monte Carlo, with its constant.

How far the moments of n tokens are from the law is foretold to leading order by what a little mass, added at one place, changes
of them at the end: its mean square over the law, over n. NumPy computes that on nodes of a quadrature, without the library.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.fields import SoftmaxAttention
from measureflow.flows import RK4, Adaptive, evolve
from measureflow.measures import Gaussian, Particles
from measureflow.plotting import Figure, curve_within, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal, slope
from measureflow.studies.gaussians.moments import COV, MEAN, A, V, closed_moments, nodes
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "A Gaussian start stays Gaussian with α'=V(I+ΣA)α and Σ'=VΣAΣ+ΣA^TΣV^T.",
    reference="castin:25",
    where="proposition on Gaussian initial data, part III of the talk",
)

ROOM = 0.3
"""How far the error of the covariance may be from its leading order, in parts of it."""


def moments(tokens):
    """The mean and covariance of weighted tokens."""
    mean = tokens.expect(lambda x: x)
    return mean, tokens.expect(lambda x: jnp.outer(x - mean, x - mean))


@eqx.filter_jit
def final(points, weights, step):
    """Tokens after one unit of time."""
    tokens = Particles(Euclidean(2), points, weights)
    return evolve(SoftmaxAttention(A, V), tokens, jnp.array([0.0, 1.0]), RK4(step)).final


@eqx.filter_jit
def drawn_moments(most: int, n, keys):
    """Mean and covariance of `n` tokens drawn from the law, after one unit of time, again and again.

    All clouds have the same number of tokens, so that one program moves them; those beyond `n` weigh next to nothing.
    """
    weights = jnp.where(jnp.arange(most) < n, 1.0, 1e-30)

    def one(key):
        return moments(final(Gaussian(MEAN, COV).sample(most, key=key).points, weights, jnp.asarray(0.25)))

    return jax.lax.map(one, keys)


def sampling_errors(law, most: int, n, keys) -> tuple[float, float]:
    """The root mean square error of mean and covariance of `n` tokens drawn from the law."""
    mean, cov = map(np.asarray, drawn_moments(most, jnp.asarray(n), keys))
    return (
        float(np.sqrt(((mean - np.asarray(law.mean)) ** 2).sum(-1).mean())),
        float(np.sqrt(((cov - np.asarray(law.cov)) ** 2).sum((-1, -2)).mean())),
    )


def excess(law, count: int) -> float:
    """How far the fourth moment of weighted tokens, which carry the law to quadrature accuracy, is from a normal one's."""
    z, w = np.polynomial.hermite_e.hermegauss(count)
    grid, weights = np.stack(np.meshgrid(z, z), -1).reshape(-1, 2), np.outer(w, w).ravel()
    cloud = final(jnp.asarray(MEAN + grid @ np.linalg.cholesky(COV).T), jnp.asarray(weights), jnp.asarray(0.05))
    fourth = cloud.expect(lambda x: (x - law.mean) ** 4)
    return float(jnp.abs(fourth / (3 * jnp.diag(law.cov) ** 2) - 1).max())


def final_moments(start: np.ndarray, weights: np.ndarray, steps: int = 4) -> np.ndarray:
    """Mean and covariance after one unit of time, in a row, of tokens with the weights of each row; by Runge-Kutta steps."""

    def speed(x):
        scores = x @ A.T @ x.swapaxes(1, 2)
        kernel = weights[:, None] * np.exp(scores - scores.max(2, keepdims=True))
        return (kernel / kernel.sum(2, keepdims=True)) @ x @ V.T

    x, h = np.broadcast_to(start, (len(weights), *start.shape)), 1 / steps
    for _ in range(steps):
        k1 = speed(x)
        k2 = speed(x + h / 2 * k1)
        k3 = speed(x + h / 2 * k2)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + speed(x + h * k3))
    mean = np.einsum("ki,kia->ka", weights, x)
    cov = np.einsum("ki,kia,kib->kab", weights, x, x) - mean[:, :, None] * mean[:, None]
    return np.concatenate([mean, cov.reshape(-1, 4)], 1)


def constants(count: int = 10) -> np.ndarray:
    """The root mean square errors of mean and covariance of n tokens times √n, to leading order."""
    places, weights = nodes(count)
    added = 1e-6
    rows = np.concatenate([weights[None], (1 - added) * weights + added * np.eye(len(weights))])
    found = final_moments(MEAN + places @ np.linalg.cholesky(COV).T, rows)
    change = weights @ ((found[1:] - found[0]) / added) ** 2
    return np.sqrt([change[:2].sum(), change[2:].sum()])


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """The matrices of the sheet until t = 1."""
    ns, repetitions = np.array(size.pick((32, 100, 320), (250, 1000, 4000))), 200
    law = evolve(SoftmaxAttention(A, V), Gaussian(MEAN, COV), [0.0, 1.0], Adaptive(rtol=1e-11)).final
    mean, cov, form, value = map(jnp.asarray, (MEAN, COV, A, V))
    rates = theory.moment_rates(theory.softmax(mean, cov, form, value), mean, cov)
    printed = value @ (jnp.eye(2) + cov @ form) @ mean, value @ cov @ form @ cov + cov @ form.T @ cov @ value.T
    keys = jax.random.split(jax.random.key(seed), (len(ns), repetitions))
    errors = np.array([sampling_errors(law, int(ns[-1]), n, of_n) for n, of_n in zip(ns, keys, strict=True)])
    laws = constants() / np.sqrt(ns)[:, None]
    slopes = [slope(ns, error) for error in errors.T]
    means, covs = closed_moments(lambda m, S: theory.softmax(m, S, form, value), MEAN, COV, np.array([0.0, 1.0]))
    closed, flowed = np.append(means[-1], covs[-1]), np.append(law.mean, law.cov)
    off = max(float(jnp.abs(a - b).max()) for a, b in zip(rates, printed, strict=True))
    return CLAIM.judge(
        equal("rates as printed", 0.0, off, 1e-14),
        # The tolerances of the two are 1e-11 and 1e-12.
        equal("moments of the flow against the closed equations, by SciPy", closed, flowed, 1e-9),
        equal("fourth moments over those of a normal law - 1", 0.0, excess(law, 16), 1e-5),  # the error of the steps
        # Root mean squares over 200 repetitions scatter by five per cent, slopes over a factor of ten by .03. Slopes of -1/3
        # or -2/3 are outside.
        equal("slope of the error of the mean", -0.5, slopes[0], 0.15),
        equal("slope of the error of the covariance", -0.5, slopes[1], 0.15),
        # The next order in 1/n takes up to a tenth from the covariance, whose far tokens matter most and are rarely drawn.
        equal("error of the mean against linear response", laws[:, 0], errors[:, 0], 0.2 * laws[:, 0]),
        equal("error of the covariance against linear response", laws[:, 1], errors[:, 1], ROOM * laws[:, 1]),
        data=(ns, errors, laws),
    )


def draw(found: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Figure:
    """The errors of mean and covariance against the number of tokens."""
    n, errors, laws = found
    rooms = np.array([0.2, ROOM]) * laws
    rows = zip(("mean", "covariance"), errors.T, laws.T, rooms.T, strict=True)
    curves = [curve_within(name, n, *row) for name, *row in rows]
    return curves_figure(curves, "tokens n", "root mean square error at t = 1", log="xy", law="linear response")
