"""A feed-forward layer without activation is affine, so Gaussians stay Gaussian through whole layers."""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import Perceptron, SoftmaxAttention
from measureflow.flows import RK4, Adaptive, evolve
from measureflow.measures import Gaussian
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "Adding an affine feed-forward term keeps Gaussians and rank.",
    reference="feedforward:26",
    where="theorem of the abstract",
)
END = 0.5


def identity(x):
    """No activation."""
    return x


def sampling_error(field, law: Gaussian, start: Gaussian, n: int, seed: int) -> float:
    """How far the moments of tokens are from the law, in units of `sqrt(tr Σ / n)`."""
    tokens = evolve(field, start.sample(n, key=seed), jnp.array([0.0, END]), RK4(0.1)).final
    mean = tokens.expect(lambda x: x)
    cov = tokens.expect(lambda x: jnp.outer(x - mean, x - mean))
    size = jnp.sqrt(jnp.trace(law.cov) / n)
    return float(jnp.maximum(jnp.linalg.norm(mean - law.mean), jnp.linalg.norm(cov - law.cov)) / size)


def run(size: Size = SMALL) -> Verdict:
    """Random contracting attention with a random affine layer; then the same from a start of rank one."""
    rng = np.random.default_rng(10)
    q, V, W = rng.normal(size=(3, 2, 2)) / 2
    A, b, mean, root = -q.T @ q, rng.normal(size=2), rng.normal(size=2), rng.normal(size=(2, 2)) / 2
    field = (
        SoftmaxAttention(A, V)
        + Perceptron(W, np.eye(2), np.zeros(2), identity)
        + Perceptron(np.eye(2), np.zeros((2, 2)), b, identity)
    )
    start = Gaussian(mean, root @ root.T)
    m, S, Aj, Vj, Wj, bj = map(jnp.asarray, (mean, root @ root.T, A, V, W, b))
    softmax = theory.moment_rates(theory.softmax(m, S, Aj, Vj), m, S)
    rate = start.transport(lambda xs: field(0.0, xs, start))
    extra = rate.mean - softmax[0], rate.root @ start.root.T + start.root @ rate.root.T - softmax[1]
    law = evolve(field, start, [0.0, END], Adaptive(rtol=1e-10)).final
    thin = evolve(field, Gaussian(mean, np.outer(root[0], root[0])), [0.0, END]).final.cov
    n = size.pick(1000, 4000)
    errors = [sampling_error(field, law, start, n, seed) for seed in range(size.pick(3, 10))]  # pyright: ignore[reportArgumentType]
    return CLAIM.judge(
        equal("extra rate of the mean - (Wα+b)", 0.0, float(jnp.abs(extra[0] - Wj @ m - bj).max()), 1e-13),  # rounding
        equal(
            "extra rate of the covariance - (WΣ+ΣW^T)", 0.0, float(jnp.abs(extra[1] - Wj @ S - S @ Wj.T).max()), 1e-13
        ),
        equal("rank after a start of rank one", 1, int(theory.rank(thin, 1e-9)), 0),
        # Five standard errors: fluctuations of tokens grow by the Jacobian of the flow, at most a factor of two here.
        equal("largest error of the moments, in standard errors", 0.0, max(errors), 5.0),
    )
