"""Gaussians under attention: closed forms of fields, covariances, blow-up times, limits and energies.

On `N(m, Σ)` softmax, L2, Sinkhorn and linear attention are affine, `v(x) = Lx + b`, so that `m' = Lm + b` and
`Σ' = LΣ + ΣL^T`. With `B = VA + A^T V^T` softmax has a Riccati equation, solved in closed form when V commutes with B and
the first covariance. Laws in one dimension are given for a variance `s` and scalar weights. castin:25
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from measureflow.annotations import Number, Numbers

Matrix = Float[Array, "d d"]
Vector = Float[Array, " d"]


class Affine(NamedTuple):
    """The velocity `slope x + shift`."""

    slope: Matrix
    shift: Vector


def moment_rates(field: Affine, mean: Vector, cov: Matrix) -> tuple[Vector, Matrix]:
    """The rates of mean and covariance under an affine velocity: `m' = Lm + b`, `Σ' = LΣ + ΣL^T`."""
    L, b = field
    return L @ mean + b, L @ cov + cov @ L.T


def softmax(mean: Vector, cov: Matrix, A: Matrix, V: Matrix) -> Affine:
    """Softmax attention on a Gaussian: `V(m + ΣAx)`; in one dimension with unit weights, `x + m`."""
    return Affine(V @ cov @ A, V @ mean)


def l2(mean: Vector, cov: Matrix, Q: Float[Array, "h d"], K: Float[Array, "h d"], V: Matrix) -> Affine:
    """L2 attention on a Gaussian: `VM(m + 2ΣK^TQx)` with `M = (I + 2ΣK^TK)^{-1}`."""
    M = jnp.linalg.inv(jnp.eye(len(mean)) + 2 * cov @ K.T @ K)
    return Affine(2 * V @ M @ cov @ K.T @ Q, V @ M @ mean)


def sinkhorn(mean: Vector, cov: Matrix, A: Matrix, V: Matrix) -> Affine:
    """Sinkhorn attention on a Gaussian with invertible covariance: `V(m + C^TΣ^{-1}(x - m))` with `C` of `coupling`."""
    L = V @ jnp.linalg.solve(cov, coupling(cov, A)).T
    return Affine(L, V @ mean - L @ mean)


def coupling(cov: Matrix, A: Matrix) -> Matrix:
    """The covariance between query and key under the Sinkhorn kernel of a Gaussian.

    With `Σ^{1/2}A^TΣ^{1/2} = U diag(σ) W^T` it is `Σ^{1/2}U diag(c) W^TΣ^{1/2}`, `c = 2σ/(1 + sqrt(1 + 4σ^2))`: less than
    one, so keys never move further than queries. Holds for singular matrices too.
    """
    root = symmetric_root(cov)
    U, sigma, Wt = jnp.linalg.svd(root @ A.T @ root)
    return root @ (U * (2 * sigma / (1 + jnp.sqrt(1 + 4 * sigma**2)))[None]) @ Wt @ root


def linear(mean: Vector, cov: Matrix, A: Matrix, V: Matrix) -> Affine:
    """Linear attention, which sees the second moment alone: `V(Σ + mm^T)Ax`, for every law with these moments."""
    return Affine(V @ (cov + jnp.outer(mean, mean)) @ A, jnp.zeros_like(mean))


def centred_relu(cov: Matrix, A: Matrix, V: Matrix) -> Affine:
    """ReLU attention on a centred Gaussian: half of softmax attention, by symmetry."""
    return Affine(V @ cov @ A / 2, jnp.zeros(len(cov)))


def unnormalised(x: Vector, mean: Vector, cov: Matrix, A: Matrix, V: Matrix) -> Vector:
    """Unnormalised attention, which is not affine: `V(m + ΣAx) e^{<Ax, m> + ½<Ax, ΣAx>}`."""
    a = A @ x
    return V @ (mean + cov @ a) * jnp.exp(a @ mean + a @ cov @ a / 2)


def riccati_form(A: Matrix, V: Matrix) -> Matrix:
    """The form `B = VA + A^TV^T` that decides between growth and decay."""
    return V @ A + A.T @ V.T


def covariance(t: Number, cov: Matrix, A: Matrix, V: Matrix) -> Matrix:
    """The covariance under softmax attention: `Σ(t) = (Σ_0^{-1} - tB)^{-1} = Σ_0(I - tBΣ_0)^{-1}`.

    When V commutes with B and Σ_0, as V = I always does, and before `blow_up_time`. In one dimension `s/(1 - 2vast)`.
    """
    B = riccati_form(A, V)
    return jnp.linalg.solve((jnp.eye(len(cov)) - jnp.asarray(t, float) * B @ cov).T, cov).T


def blow_up_time(cov: Matrix, A: Matrix, V: Matrix) -> Float[Array, ""]:
    """When the covariance under softmax attention leaves every bound: `1/λ_max(Σ_0^{1/2}BΣ_0^{1/2})`, or never.

    Under the hypothesis of `covariance`. In one dimension `1/(2vas)`.
    """
    root = symmetric_root(cov)
    top = jnp.linalg.eigvalsh(root @ riccati_form(A, V) @ root)[-1]
    return jnp.where(top > 0, 1 / jnp.where(top > 0, top, 1.0), jnp.inf)


def limit(cov: Matrix, A: Matrix, V: Matrix, threshold: float = 1e-10) -> Matrix:
    """Where the covariance goes when B is negative semidefinite: `N(N^TΣ_0^{-1}N)^{-1}N^T`, N a basis of ker B.

    Under the hypothesis of `covariance`, with Σ_0 invertible; eigenvalues of B below `threshold` relative to the largest
    are zero. The distance to it falls like 1/t.
    """
    values, vectors = jnp.linalg.eigh(riccati_form(A, V))
    N = vectors[:, jnp.abs(values) <= threshold * jnp.abs(values).max()]
    return N @ jnp.linalg.inv(N.T @ jnp.linalg.inv(cov) @ N) @ N.T


def rank(matrix: Float[Array, "*batch d d"], threshold: float = 1e-8) -> Int[Array, "*batch"]:
    """The number of eigenvalues above a threshold relative to the largest."""
    values = jnp.linalg.eigvalsh(matrix)
    return (values > threshold * values[..., -1:]).sum(-1)


def scalar_covariance(t: Numbers, s: Numbers, va: Numbers) -> Array:
    """A variance under softmax attention in one dimension: `s/(1 - 2vast)`."""
    t, s, va = _floats(t, s, va)
    return s / (1 - 2 * va * s * t)


def scalar_mean(t: Numbers, mean: Numbers, s: Numbers, v: Numbers, a: Numbers) -> Array:
    """A mean under softmax attention in one dimension: `m e^{vt} sqrt(s(t)/s)`."""
    t, mean, s, v, a = _floats(t, mean, s, v, a)
    return mean * jnp.exp(v * t) * jnp.sqrt(scalar_covariance(t, s, v * a) / s)


def l2_clock(s: Numbers, k: Numbers) -> Array:
    """What grows evenly along L2 attention in one dimension: `-1/s + 2k^2 log s`, at rate `4vqk`."""
    s, k = _floats(s, k)
    return -1 / s + 2 * k**2 * jnp.log(s)


def sinkhorn_clock(s: Numbers, a: Numbers) -> Array:
    """What grows evenly along Sinkhorn attention in one dimension: `θ - coth(θ/2)`, `θ = asinh(2|a|s)`, at rate `2v sign a`."""
    s, a = _floats(s, a)
    theta = jnp.arcsinh(2 * jnp.abs(a) * s)
    return theta - 1 / jnp.tanh(theta / 2)


def l2_bound(t: Numbers, cov: Matrix, Q: Float[Array, "h d"], K: Float[Array, "h d"], V: Matrix) -> Array:
    """A bound on the covariance under L2 attention with injective keys: `|Σ_0| e^{2|V||Q|t/σ_min(K)}`."""
    least = jnp.linalg.svd(K, compute_uv=False)[-1]
    return _norm(cov) * jnp.exp(2 * _norm(V) * _norm(Q) * jnp.asarray(t, float) / least)


def sinkhorn_bound(t: Numbers, cov: Matrix, V: Matrix) -> Array:
    """A bound on the covariance under Sinkhorn attention: `|Σ_0| e^{2|V|t}`."""
    return _norm(cov) * jnp.exp(2 * _norm(V) * jnp.asarray(t, float))


def score_energy(cov: Matrix, A: Matrix) -> Float[Array, ""]:
    """The energy that softmax attention with `V = A` symmetric raises on centred Gaussians: `¼ tr((AΣ)^2)`."""
    return jnp.trace(A @ cov @ A @ cov) / 4


def sinkhorn_energy(cov: Matrix, A: Matrix) -> Float[Array, ""]:
    """The energy `-½ KL(k mu mu | e^{<Ax, y>} mu mu)` of Sinkhorn attention on centred Gaussians, `A` symmetric.

    `F = ¼ log det(I - C~^TC~) + ½ tr(AC)` with `C = Σ^{1/2}C~Σ^{1/2}` of `coupling`.
    """
    root = symmetric_root(cov)
    sigma = jnp.linalg.svd(root @ A.T @ root, compute_uv=False)
    c = 2 * sigma / (1 + jnp.sqrt(1 + 4 * sigma**2))
    return jnp.log1p(-(c**2)).sum() / 4 + jnp.trace(A @ coupling(cov, A)) / 2


def cone(cov: Float[Array, "*batch 2 2"]) -> Float[Array, "*batch 3"]:
    """A 2 x 2 covariance `[[a, c], [c, b]]` as the point `(a - b, 2c, a + b)` of the cone `z >= |(x, y)|`."""
    a, b, c = cov[..., 0, 0], cov[..., 1, 1], cov[..., 0, 1]
    return jnp.stack([a - b, 2 * c, a + b], -1)


def from_cone(point: Float[Array, "*batch 3"]) -> Float[Array, "*batch 2 2"]:
    """The covariance at a point of the cone, the inverse of `cone`."""
    x, y, z = (point[..., i] for i in range(3))
    return jnp.stack([jnp.stack([x + z, y], -1), jnp.stack([y, z - x], -1)], -2) / 2


def symmetric_root(cov: Matrix) -> Matrix:
    """The positive semidefinite square root."""
    values, vectors = jnp.linalg.eigh(cov)
    return (vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None]) @ vectors.T


def _norm(matrix: Array) -> Float[Array, ""]:
    return jnp.linalg.norm(matrix, 2)


def _floats(*values) -> list[Array]:
    return list(jnp.broadcast_arrays(*(jnp.asarray(value, float) for value in values)))
