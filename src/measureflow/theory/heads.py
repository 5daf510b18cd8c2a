"""Attention heads trained by cross-entropy, written out: an oracle for what the library computes by other means.

A head is `(W_Q, W_K, W_V, W_O)` with features `A x W_V W_O W_E`; `A` is causal softmax attention of the scores
`x W_Q W_K^T x^T / sqrt(d_k)`. Features, risk and first variation are plain sums, bounds and rates closed forms of
`heads:26` or derived from it. `rate` stands for the integral of the learning-rate profile.
"""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from measureflow.annotations import Numbers, Values


def softmax_jacobian(p: Float[ArrayLike, " V"]) -> Float[Array, "V V"]:
    """The derivative of softmax where it takes the value p: diag(p) - p p^T, with eigenvalues between 0 and 1/2."""
    p = jnp.asarray(p)
    return jnp.diag(p) - jnp.outer(p, p)


def features(
    x: Float[ArrayLike, "T d"],
    query: Float[ArrayLike, "d k"],
    key: Float[ArrayLike, "d k"],
    value: Float[ArrayLike, "d v"],
    output: Float[ArrayLike, "v d"],
    unembedding: Float[ArrayLike, "d V"],
) -> Float[Array, "T V"]:
    """The logits of one head, position by position: each sees the tokens up to itself."""
    x, query, key, value, output, unembedding = map(jnp.asarray, (x, query, key, value, output, unembedding))
    rows = []
    for t in range(len(x)):
        scores = jnp.array([(x[t] @ query) @ (x[u] @ key) for u in range(t + 1)]) / query.shape[1] ** 0.5
        shares = jnp.exp(scores - scores.max())
        rows.append((shares / shares.sum()) @ x[: t + 1] @ value @ output @ unembedding)
    return jnp.stack(rows)


def cross_entropy(labels: ArrayLike, logits: Float[ArrayLike, "T V"]) -> Float[Array, ""]:
    """The sum over positions of `log sum_v e^{z_v} - z_label`."""
    z = jnp.asarray(logits)
    chosen = jnp.array([z[t, label] for t, label in enumerate(jnp.asarray(labels))])
    return jnp.sum(jnp.log(jnp.exp(z).sum(-1)) - chosen)


def zero_head_matrix(
    x: Float[ArrayLike, "S T d"], labels: ArrayLike, unembedding: Float[ArrayLike, "d V"]
) -> Float[Array, "d d"]:
    """The matrix `G_0 = E sum_t xbar_t (1/V - y_t)^T W_E^T` at zero heads, with running means `xbar`.

    Its largest singular value is the weight decay at which the zero head loses its stability.
    """
    x, W = jnp.asarray(x), jnp.asarray(unembedding)
    S, T, _ = x.shape
    V = W.shape[1]
    total = jnp.zeros((x.shape[2], x.shape[2]))
    for s in range(S):
        for t in range(T):
            residual = 1 / V - jnp.eye(V)[jnp.asarray(labels)[s, t]]
            total += jnp.outer(x[s, : t + 1].mean(0), W @ residual) / S
    return total


def feature_bound(token: Numbers, block: Numbers, unembedding: Numbers) -> Values:
    """A bound of the features, `B_x B^2 B_E`, for tokens, blocks and unembedding of at most these norms; free of T."""
    return jnp.asarray(token) * jnp.asarray(block) ** 2 * jnp.asarray(unembedding)


def jacobian_bound(token: Numbers, block: Numbers, unembedding: Numbers, key_dim: Numbers) -> Values:
    """A bound of the derivative of features in a head: `B_x B B_E sqrt(2 + 2 B_x^4 B^4 / d_k)`; free of T."""
    x, b, e, k = (jnp.asarray(v, float) for v in (token, block, unembedding, key_dim))
    return x * b * e * jnp.sqrt(2 + 2 * x**4 * b**4 / k)


def static_gap_bound(length: Numbers, feature: Numbers, heads: Numbers) -> Values:
    """How far the best N heads may be from the best measure: `sqrt(2) T C_0 / sqrt(N)` (Theorem 4.1 of heads:26)."""
    length, feature, heads = (jnp.asarray(v, float) for v in (length, feature, heads))
    return jnp.sqrt(2.0) * length * feature / jnp.sqrt(heads)


def sharp_static_gap_bound(length: Numbers, feature: Numbers, heads: Numbers) -> Values:
    """The same by smoothness of the loss: `T C_0^2 / (4 N)` (derived)."""
    length, feature, heads = (jnp.asarray(v, float) for v in (length, feature, heads))
    return length * feature**2 / (4 * heads)


def gap_bound(gap: Numbers, constant: Numbers, exponent: float, rate: Numbers) -> Values:
    """What `D >= c gap^{2 alpha}` leaves of a gap after the training time `rate` (Theorem 6.10 of heads:26).

    `gap exp(-2 c rate)` for alpha = 1/2, and `[gap^{1-2alpha} + 2c (2 alpha - 1) rate]^{-1/(2 alpha - 1)}` above.
    """
    gap, c, rate = (jnp.asarray(v, float) for v in (gap, constant, rate))
    if exponent == 0.5:
        return gap * jnp.exp(-2 * c * rate)
    power = 2 * exponent - 1
    return (gap**-power + 2 * c * power * rate) ** (-1 / power)


def decay_exponent(exponent: float) -> float:
    """The power of time with which a gap falls for `alpha > 1/2`: `-1/(2 alpha - 1)`, which is -2 for 3/4."""
    return -1 / (2 * exponent - 1)


def contraction(monotonicity: Numbers, rate: Numbers) -> Values:
    """The factor `exp(-2 m rate)` by which strong monotonicity contracts W_2 (Theorem 7.1 of heads:26)."""
    return jnp.exp(-2 * jnp.asarray(monotonicity, float) * jnp.asarray(rate, float))


def zero_head_rate(decay: Numbers, critical: Numbers) -> Values:
    """The exponential rate of small heads under weight decay: `2 (critical - decay)`, zero at the bifurcation."""
    return 2 * (jnp.asarray(critical, float) - jnp.asarray(decay, float))
