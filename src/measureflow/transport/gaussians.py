"""Transport of Gaussians: the geometry of Bures and Wasserstein on covariance matrices.

The distance of two covariances is that of their closest square roots, `min |A^{1/2} - B^{1/2} U|` over rotations `U`. In
this form nothing cancels when they are close. The optimal map is linear, geodesics and barycenters follow from it, and
derivatives of every order are exact: a root and the Lyapunov equation have each other as derivatives.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from measureflow import checks
from measureflow.annotations import Number, Numbers
from measureflow.precision import keep_all

Matrix = Float[Array, "d d"]


def bures(a: Numbers, b: Numbers) -> Float[Array, ""]:
    """The distance `W_2` of two centred Gaussians, from their covariances.

    `(tr(A + B - 2 (A^{1/2} B A^{1/2})^{1/2}))^{1/2}`: in one dimension the difference of the standard deviations.
    """
    a, b = covariance("a", a), covariance("b", b)
    checks.shaped("b", b, a.shape, "Both covariances act on the same coordinates.")
    return jnp.sqrt(bures_squared(a, b))


def gaussian_cost(mean: Float[Array, " d"], cov: Matrix, other_mean: Float[Array, " d"], other_cov: Matrix):
    """The cost `W_2^2 = |m - m'|^2 + bures(A, B)^2` of two Gaussians, which any two laws with these moments exceed."""
    return jnp.sum((mean - other_mean) ** 2) + bures_squared(cov, other_cov)


def bures_map(a: Numbers, b: Numbers) -> Matrix:
    """The optimal map from one centred Gaussian to another, the symmetric `T` with `T A T = B`."""
    a, b = covariance("a", a), covariance("b", b)
    checks.shaped("b", b, a.shape, "Both covariances act on the same coordinates.")
    if checks.concrete(a) and np.linalg.eigvalsh(np.asarray(a))[0] <= 0:
        raise ValueError(
            "`a` is singular, so a map from it may have to split mass; swap the two, or add a multiple of I."
        )
    return _map(a, b)


def bures_geodesic(a: Numbers, b: Numbers, t: Number) -> Matrix:
    """The covariance `t` of the way: `M A M` with `M = (1 - t) I + t T`; standard deviations interpolate in one dimension."""
    a = covariance("a", a)
    step = _interpolated(bures_map(a, b), jnp.asarray(t, a.dtype))
    return step @ a @ step


class Barycenter(NamedTuple):
    """A mean of covariances, the residual `|sum_i w_i T_i - I|` it leaves, and the steps it took."""

    cov: Matrix
    residual: Float[Array, ""]
    steps: Int[Array, ""]


def bures_barycenter(
    covs: Numbers,
    weights: Numbers | None = None,
    *,
    start: Numbers | None = None,
    tolerance: float = 1e-12,
    steps: int = 1000,
) -> Barycenter:
    """The covariance with the least mean squared distance to others, by the fixed point `A <- M A M`, `M = sum_i w_i T_i`.

    Each step is a unit step along the gradient `(I - M) / 2`; it lowers the objective and converges linearly when the
    eigenvalues are bounded (chewi:25). Commuting covariances have the square of the mean root.
    """
    checks.shaped("covs", covs, ("k", "d", "d"), "Stack the covariances along a first axis.")
    covs = jnp.stack([covariance(f"covs[{i}]", cov) for i, cov in enumerate(jnp.asarray(covs))])
    w = _shares(weights, len(covs), covs.dtype)
    first = jnp.tensordot(w, covs, 1) if start is None else covariance("start", start)

    def mean_map(a):
        return jnp.tensordot(w, jax.vmap(lambda b: _map(a, b))(covs), 1)

    def residual(M):
        return jnp.linalg.norm(M - jnp.eye(len(M), dtype=M.dtype))

    def going(state):
        _, M, step = state
        return (residual(M) > tolerance) & (step < steps)

    def step(state):
        a, M, count = state
        a = M @ a @ M
        return a, mean_map(a), count + 1

    cov, M, count = jax.lax.while_loop(going, step, (first, mean_map(first), jnp.zeros((), int)))
    left = residual(M)
    if checks.concrete(left) and not left <= tolerance and steps == count:
        raise ValueError(
            f"`steps` {steps} leave a residual of {float(left):.3g}, above `tolerance` {tolerance:g}; allow more steps, or a "
            "looser tolerance when the covariances are close to singular."
        )
    return Barycenter(cov, left, count)


@jax.custom_jvp
def bures_squared(a: Matrix, b: Matrix) -> Float[Array, ""]:
    """The squared distance of the closest square roots."""
    return jnp.sum((root(a) - _closest_root(root(a), b)) ** 2)


@bures_squared.defjvp
def _(primals, tangents):
    a, b = primals
    da, db = tangents
    eye = jnp.eye(len(a), dtype=a.dtype)
    return bures_squared(a, b), jnp.sum((eye - _map(a, b)) * da) + jnp.sum((eye - _map(b, a)) * db)


@jax.custom_jvp
def root(a: Matrix) -> Matrix:
    """The positive square root of a covariance; eigenvalues that rounding made negative count as zero."""
    s, U = jnp.linalg.eigh(a)
    return (U * jnp.sqrt(jnp.maximum(s, 0.0))[None]) @ U.T


@root.defjvp
def _(primals, tangents):
    r = root(*primals)
    return r, lyapunov(r, *tangents)


@jax.custom_jvp
def lyapunov(r: Matrix, c: Matrix) -> Matrix:
    """The solution `y` of `r y + y r = c` for a positive definite `r`."""
    s, U = jnp.linalg.eigh(r)
    return U @ ((U.T @ c @ U) / (s[:, None] + s[None])) @ U.T


@lyapunov.defjvp
def _(primals, tangents):
    (r, c), (dr, dc) = primals, tangents
    y = lyapunov(r, c)
    return y, lyapunov(r, dc - dr @ y - y @ dr)


def covariance(name: str, value: Numbers) -> Matrix:
    """A covariance as an array, or a sentence why it is none."""
    value = checks.floating(value)
    checks.shaped(name, value, ("d", len(value) if value.ndim else 1), "A covariance is a square matrix.")
    checks.finite(name, value)
    if checks.concrete(value):
        numbers = np.asarray(value)
        slack = 100 * np.finfo(numbers.dtype).eps * np.abs(numbers).max()  # rounding of a product of small matrices
        if (off := np.abs(numbers - numbers.T).max()) > slack:
            raise ValueError(f"`{name}` must be symmetric; it is off by {off:.3g}. Use (A + A^T) / 2.")
        if (low := np.linalg.eigvalsh(numbers)[0]) < -slack:
            raise ValueError(f"`{name}` must have no negative eigenvalue to be a covariance; got {low:.3g}.")
    return value


def _closest_root(r: Matrix, b: Matrix) -> Matrix:
    """The square root `B^{1/2} U` closest to another; `U` is the rotation of a singular value decomposition."""
    s = root(b)
    P, _, Q = jnp.linalg.svd(s.T @ r)
    return s @ P @ Q


def _map(a: Matrix, b: Matrix) -> Matrix:
    """`A^{-1/2} (A^{1/2} B A^{1/2})^{1/2} A^{-1/2}`."""
    r = root(a)
    inner = root(r @ b @ r)
    return jnp.linalg.solve(r, jnp.linalg.solve(r, inner).T)


def _interpolated(T: Matrix, t: Float[Array, ""]) -> Matrix:
    return (1 - t) * jnp.eye(len(T), dtype=T.dtype) + t * T


def _shares(weights: Numbers | None, k: int, dtype) -> Float[Array, " k"]:
    if weights is None:
        return jnp.full(k, 1 / k, dtype)
    checks.shaped("weights", weights, (k,), "There is one weight for each covariance.")
    checks.positive("weights", weights)
    weights = jnp.asarray(weights, dtype)
    return weights / weights.sum()


keep_all(globals())
