"""The moments of a Gaussian obey a closed equation, and samples of it follow at the rate of Monte Carlo."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.fields import SoftmaxAttention
from measureflow.flows import RK4, Adaptive, evolve
from measureflow.measures import Gaussian, Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal, slope
from measureflow.studies.gaussians.moments import COV, MEAN, A, V
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "A Gaussian start stays Gaussian with α'=V(I+ΣA)α and Σ'=VΣAΣ+ΣA^TΣV^T.",
    reference="castin:25",
    where="proposition on Gaussian initial data, part III of the talk",
)


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
def drawn_moments(n: int, keys):
    """Mean and covariance of `n` tokens drawn from the law, after one unit of time, again and again."""

    def one(key):
        return moments(final(Gaussian(MEAN, COV).sample(n, key=key).points, jnp.ones(n), jnp.asarray(0.25)))

    return jax.lax.map(one, keys)


def sampling_errors(law, n: int, keys) -> tuple[float, float]:
    """The root mean square error of mean and covariance of `n` tokens drawn from the law."""
    mean, cov = map(np.asarray, drawn_moments(n, keys))
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


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """The matrices of the sheet until t = 1."""
    ns, repetitions = size.pick((64, 512), (250, 1000, 4000)), 200
    law = evolve(SoftmaxAttention(A, V), Gaussian(MEAN, COV), [0.0, 1.0], Adaptive(rtol=1e-11)).final
    mean, cov, form, value = map(jnp.asarray, (MEAN, COV, A, V))
    rates = theory.moment_rates(theory.softmax(mean, cov, form, value), mean, cov)
    printed = value @ (jnp.eye(2) + cov @ form) @ mean, value @ cov @ form @ cov + cov @ form.T @ cov @ value.T
    keys = jax.random.split(jax.random.key(seed), (len(ns), repetitions))
    errors = np.array([sampling_errors(law, n, of_n) for n, of_n in zip(ns, keys, strict=True)])
    slopes = [slope(ns, error) for error in errors.T]
    return CLAIM.judge(
        equal(
            "rates as printed",
            0.0,
            max(float(jnp.abs(a - b).max()) for a, b in zip(rates, printed, strict=True)),
            1e-14,
        ),
        equal("fourth moments over those of a normal law - 1", 0.0, excess(law, 16), 1e-5),  # the error of the steps
        # Root mean squares over 200 repetitions scatter by five per cent, slopes over a factor of eight by .035. Slopes of -1/3
        # or -2/3 are outside.
        equal("slope of the error of the mean", -0.5, slopes[0], 0.15),
        equal("slope of the error of the covariance", -0.5, slopes[1], 0.15),
        data=(np.array(ns), errors),
    )


def draw(found: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The errors of mean and covariance against the number of tokens."""
    n, errors = found
    laws = errors[0] * np.sqrt(n[0] / n[:, None])
    curves = [Curve(name, n, e, law) for name, e, law in zip(("mean", "covariance"), errors.T, laws.T, strict=True)]
    return curves_figure(curves, "tokens n", "root mean square error at t = 1", log="xy", law=r"$\propto n^{-1/2}$")
