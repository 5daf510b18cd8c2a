"""Near consensus at an eigenvector of V, tokens contract at rates that the eigenvalues of V alone decide.

At consensus in `x` with `Vx = λx` every weight is `1/n`, and small changes `δ_i` obey `δ_i' = P_x V δ - λ δ_i` with the mean `δ`.
Differences decay at rate `λ`, whatever Q and K, and the mean returns at the rates `λ - μ` of the other eigenvalues `μ`. For
unnormalised attention both are multiplied by `e^{<Ax, x>}`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.diagnostics import decay
from measureflow.fields import SoftmaxAttention, UnnormalisedAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal

CLAIM = Claim(
    "Near consensus tokens contract at the rate of the linearised operator for general Q, K, V.",
    reference="chen:25",
    where="general parameters of the abstract; the operator is derived here",
)

TOKENS, WIDTH = 16, 1e-3
TIMES = np.linspace(0.0, 16.0, 65)


def matrices(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Forms, values with the eigenvalue 1 and two below it, which are not normal, and their left and right eigenvectors."""
    A = rng.normal(size=(count, 3, 3)) / 2
    S = np.eye(3) + 0.3 * rng.uniform(-1, 1, (count, 3, 3))
    values = 1 - np.concatenate(
        [np.zeros((count, 1)), rng.uniform(0.3, 0.5, (count, 1)), rng.uniform(0.5, 0.9, (count, 1))], 1
    )
    left = np.linalg.inv(S)
    return A, S @ (values[:, :, None] * left), left, S


@eqx.filter_jit
def widths(drawn: tuple[jnp.ndarray, ...], normalised: bool) -> jnp.ndarray:
    """How wide clouds are over time, and the part of their mean that the second left eigenvector sees, in columns."""

    def path(A, V, left, points, pole):
        # In the time unit of softmax attention: unnormalised it is faster by e^{<Ax, x>}.
        field = SoftmaxAttention(A, V) if normalised else UnnormalisedAttention(A, V * jnp.exp(-(A @ pole) @ pole))

        def observe(mu):
            mean = mu.points.mean(0)
            return jnp.stack([jnp.abs(mu.points - mean[None]).max(), jnp.abs(left[1] @ mean / (left[0] @ mean))])

        return evolve(field, Particles(Sphere(3), points), TIMES, Adaptive(1e-9, 1e-16), observe=observe).observed

    return jax.lax.map(lambda each: path(*each), drawn)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Fit both rates for random matrices and clouds near the dominant eigenvector."""
    rng, count = np.random.default_rng(seed), size.pick(6, 20)
    A, V, left, right = matrices(rng, count)
    poles = right[:, :, 0] / np.linalg.norm(right[:, :, 0], axis=1, keepdims=True)
    starts = poles[:, None] + WIDTH * rng.normal(size=(count, TOKENS, 3))
    starts /= np.linalg.norm(starts, axis=2, keepdims=True)
    drawn = tuple(jnp.asarray(part) for part in (A, V, left, starts, poles))
    soft, plain = (np.asarray(widths(drawn, normalised)) for normalised in (True, False))
    gap = 1 - np.sort(np.linalg.eigvals(V).real, 1)[:, 1]
    rates = {
        name: np.array([[decay(TIMES, column).rate for column in rows.T] for rows in found])
        for name, found in (("softmax", soft), ("unnormalised", plain))
    }
    return CLAIM.judge(
        *(
            check
            for name, found in rates.items()
            for check in (
                # Terms of second order are a part of 1e-3 of the first ones, and gone within some units of time.
                equal(f"{name}: rate of differences", np.ones(count), found[:, 0], 0.01),
                equal(f"{name}: rate of the mean over its gap", np.ones(count), found[:, 1] / gap, 0.01),
            )
        ),
        data=(gap, rates),
    )


def draw(data: tuple) -> Figure:
    """Fitted rates of the mean against the gap, and of differences against one."""
    gap, rates = data
    order = np.argsort(gap)
    curves = [Curve(f"mean, {name}", gap[order], found[order, 1], gap[order]) for name, found in rates.items()]
    differences = [
        Curve(f"differences, {name}", gap[order], found[order, 0], np.ones(len(gap))) for name, found in rates.items()
    ]
    return curves_figure([*curves, *differences], "gap of V", "fitted rate", law="linearised operator")
