"""The largest curvature of an energy around its particles, which limits the steps of explicit descent."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow.energies import AbstractEnergy, GradientFlow
from measureflow.measures import Particles
from measureflow.precision import keep_all


def stiffness(energy: AbstractEnergy, mu: Particles, iterations: int = 30) -> float:
    """The largest eigenvalue of the Hessian of `N R_N`, by Lanczos with Hessian-vector products.

    For weights `w_i` it is that of `h -> d/ds grad Psi(theta_i + s h_i; mu_s)`, self-adjoint in the weighted product.
    """
    return float(_stiffness(energy, mu, iterations))


@eqx.filter_jit
def _stiffness(energy: AbstractEnergy, mu: Particles, iterations: int) -> Float[Array, ""]:
    root = jnp.sqrt(mu.weights)[:, None]

    def descent(points):
        return -GradientFlow(energy)(0.0, points, eqx.tree_at(lambda m: m.points, mu, points))

    def curvature(h):
        return root * jax.jvp(descent, (mu.points,), (h / root,))[1]

    start = jax.random.normal(jax.random.key(0), mu.points.shape, mu.points.dtype)
    alphas, betas = lanczos(curvature, start, min(iterations, mu.points.size))
    return jnp.linalg.eigvalsh(jnp.diag(alphas) + jnp.diag(betas, 1) + jnp.diag(betas, -1))[-1]


def lanczos(operator, start: Float[Array, "*s"], iterations: int) -> tuple[Float[Array, " k"], Float[Array, " l"]]:
    """The tridiagonal matrix of a symmetric operator in a Krylov space, with full reorthogonalisation."""
    tiny = jnp.finfo(start.dtype).eps

    def step(carry, k):
        basis, q, q_old, beta = carry
        basis = basis.at[k].set(q.ravel())
        w = operator(q) - beta * q_old
        alpha = jnp.vdot(q, w)
        w = (w - alpha * q).ravel()
        for _ in range(2):  # twice is enough
            w = w - basis.T @ (basis @ w)
        length = jnp.linalg.norm(w)
        # An invariant space is reached: the rest of the matrix is zero and adds no eigenvalue above the largest.
        new = jnp.where(length > 100 * tiny * jnp.abs(alpha), w / jnp.where(length > 0, length, 1.0), 0.0)
        return (basis, new.reshape(q.shape), q, jnp.where(length > 100 * tiny * jnp.abs(alpha), length, 0.0)), (
            alpha,
            length,
        )

    q = start / jnp.linalg.norm(start.ravel())
    basis = jnp.zeros((iterations, start.size), start.dtype)
    carry = (basis, q, jnp.zeros_like(q), jnp.zeros((), start.dtype))
    _, (alphas, betas) = jax.lax.scan(step, carry, jnp.arange(iterations))
    return alphas, betas[:-1]


keep_all(globals())
