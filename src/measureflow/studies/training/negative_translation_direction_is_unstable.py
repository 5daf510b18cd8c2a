"""A head displaced along a negative direction of `H_tr` leaves, with the speed that the Hessian predicts."""

import jax.numpy as jnp
import numpy as np

from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.training import Descent, fixtures, observed_rate
from measureflow.training.perturbation import matrix, translation

CLAIM = Claim(
    "Theorem 7.8: a negative direction of H_tr makes the Dirac unstable with initial speed -4ξη^2 v^TH_tr v.",
    reference="heads:26",
    where="theorem 7.8",
)
SIZE = 1e-3


def run(size: Size = SMALL) -> Verdict:
    """The zero head of F1 and the eigenvector of its most negative eigenvalue."""
    risk = fixtures.f1()
    zero = Particles(Euclidean(24), jnp.zeros((1, 24)))
    values, vectors = np.linalg.eigh(np.asarray(matrix(translation, risk, zero)))
    v = jnp.asarray(vectors[:, :1].T)
    moved = Particles(zero.space, SIZE * v)
    speed = 2 * jnp.sum(moved.points * Descent(risk)(0.0, moved.points, moved)) / SIZE**2
    growth = observed_rate(risk, jnp.zeros(24), SIZE * v, (0.0, 1.0))
    return CLAIM.judge(
        # Printed digits; then relative errors of the order of the displacement, squared by symmetry.
        equal("least eigenvalue of H_tr", -0.7066840280, values[0], 1e-9),
        equal("d/dt|h|²/η² at the start", -4 * values[0], float(speed), 1e-5 * 2.83),
        equal("exponential growth up to t = 1", -2 * values[0], growth, 1e-3),
    )
