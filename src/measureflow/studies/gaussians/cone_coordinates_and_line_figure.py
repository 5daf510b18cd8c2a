"""Covariances of the plane are the points of a cone, and one key direction drives them all to one ray of its boundary."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.fields import L2Attention, SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Gaussian
from measureflow.plotting import Figure, draw_cone, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.studies.gaussians.moments import covariance
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "In (a-b,2c,a+b) coordinates 2x2 covariances fill the cone z>=√(x^2+y^2), and a rank-one key-query direction drives all "
    "starts to a line orthogonal to it.",
    reference="castin:25",
    where="figure of covariances in their cone, part III of the talk",
)
KEY = np.array([[0.406324, 0.913729]])
END = 1e4
TIMES = np.concatenate([[0.0], np.geomspace(0.1, END, 40)])


def starts(side: int) -> np.ndarray:
    """Covariances of trace one on a square grid inside the disc of the cone."""
    x, y = np.meshgrid(*[np.linspace(-0.5, 0.5, side)] * 2)
    grid = np.stack([x.ravel(), y.ravel(), np.ones(side**2)], -1)
    return np.asarray(theory.from_cone(jnp.asarray(grid)))


@eqx.filter_jit
def flows(field, roots):
    """The covariances of many starts over time, and whether they arrive."""

    def one(root):
        mu = Gaussian.from_root(jnp.zeros(2), root)
        path = evolve(field, mu, jnp.asarray(TIMES))
        return path.map(covariance), path.outcome.ok

    return jax.vmap(one)(roots)


def outside(count: int, seed: int) -> int:
    """In how many random symmetric matrices the sign of the eigenvalues and the place in the cone disagree."""
    a, b, c = np.random.default_rng(seed).normal(size=(3, count))
    matrices = np.stack([np.stack([a, c], -1), np.stack([c, b], -1)], -2)
    x, y, z = np.asarray(theory.cone(jnp.asarray(matrices))).T
    return int(((np.linalg.eigvalsh(matrices)[:, 0] >= 0) != (z >= np.hypot(x, y))).sum())


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """The grid of the paper under softmax and L2 attention."""
    covs = starts(size.pick(5, 10))
    n, roots = len(covs), jnp.asarray(np.linalg.cholesky(covs))
    checks = [equal("random matrices whose sign and place in the cone disagree", 0, outside(2000, seed), 0)]
    A, V, paths = -KEY.T @ KEY, np.eye(2), {}
    for name, field in {"softmax": SoftmaxAttention(A, V), "L2": L2Attention(KEY, -KEY, V)}.items():
        paths[name], ok = (np.asarray(part) for part in flows(field, roots))
        final = paths[name][:, -1]
        direction = np.linalg.eigh(final)[1][:, :, 1]
        angle = np.arcsin(np.abs(direction @ KEY[0]) / np.linalg.norm(KEY))
        x, y, z = np.asarray(theory.cone(jnp.asarray(final))).T
        arrived = ok & (angle < 1e-2) & (z - np.hypot(x, y) < 1e-2 * z)
        checks += [
            # The distance to the limit is of order 1/t = 1e-4, over variances above 0.1.
            equal(f"{name}: starts that end on the ray orthogonal to the key", n, int(arrived.sum()), 0),
            at_most(f"{name}: largest angle to the ray", 1e-2, angle.max()),
        ]
        if name == "softmax":
            closed = np.stack([theory.covariance(END, *map(jnp.asarray, (S, A, V))) for S in covs])
            # The tolerance of the solver, over some hundred steps.
            checks.append(equal("softmax: distance to the closed form", 0.0, np.abs(final - closed).max(), 1e-7))
    return CLAIM.judge(*checks, data=paths)


def draw(paths: dict[str, np.ndarray]) -> Figure:
    """The ways of all starts in the cone, to its ray orthogonal to the key."""
    figure, axes = panels(len(paths), width=5.0, height=4.6)
    for ax, (name, covs) in zip(axes, paths.items(), strict=True):
        draw_cone(ax, covs).set_title(f"{name} attention", fontsize=12)
    return figure
