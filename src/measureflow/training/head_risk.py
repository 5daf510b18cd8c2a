"""The cross-entropy of attention heads: next-token prediction by a measure of heads.

A layer of heads with law `mu` has the logits `z = ∫ A x U dmu W_E` and the risk `R(mu) = E sum_t l(y_t, z_t)`, where `l` is the
cross-entropy, so that `Psi(theta; mu) = E sum_t <phi_t(theta), softmax(z_t) - y_t>`. Work and memory are linear in the number of
heads.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.flows import precision
from measureflow.measures import AbstractMeasure, Particles
from measureflow.training import head_sums
from measureflow.training.families import ByBlock, Theta
from measureflow.training.head_families import AbstractHeads
from measureflow.training.landscape import PARAMETERS, AbstractLandscape
from measureflow.training.losses import CrossEntropy
from measureflow.training.risk import AbstractRisk

TINY = 1e-30
"""Stands for no decay where one is divided by."""


@final
class HeadRisk(AbstractRisk):
    """The cross-entropy of next-token prediction by one causal layer of heads with a fixed unembedding.

    - `tokens` `(S, T, d)`: embedded sequences, all equally likely.
    - `labels`: integers `(S, T)` below the vocabulary size, or target laws `(S, T, V)`.
    - `unembedding` `(d, V)`: the fixed matrix from vectors to logits.
    - `heads`: what the parameters of a head mean.
    - `reduction`: add up the positions of a sequence, or average them.
    - `mask` `(S, T)`: true where a position counts; needed when sequences were padded to one length.
    """

    tokens: Float[Array, "S T d"]
    targets: Float[Array, "S T V"]
    shares: Float[Array, "S T"]
    unembedding: Float[Array, "d V"]
    heads: AbstractHeads
    criterion: CrossEntropy

    def __init__(
        self,
        tokens: Numbers,
        labels: Numbers,
        unembedding: Numbers,
        heads: AbstractHeads,
        *,
        reduction: str = "sum",
        mask: Bool[ArrayLike, "S T"] | None = None,
    ):
        self.tokens = _tokens(tokens, heads.dim)
        S, T, d = self.tokens.shape
        self.unembedding = checks.floating(unembedding).astype(self.tokens.dtype)
        checks.shaped("unembedding", self.unembedding, (d, "V"), "It maps a vector of the size of a token to logits.")
        checks.finite("unembedding", self.unembedding)
        self.criterion = CrossEntropy()
        self.targets = self.criterion.targets(labels, (S, T), self.unembedding.shape[1], self.tokens.dtype)
        self.shares = _shares(mask, (S, T), reduction, self.tokens.dtype)
        self.heads = heads

    @property
    def family(self) -> AbstractHeads:
        """The heads."""
        return self.heads

    def features(self, theta: Theta) -> Float[Array, "S T V"]:
        """The logits of one head: `phi(x; theta) = A x U W_E`."""
        mixed = jax.vmap(lambda x: self.heads.mix(theta, x))(self.tokens.astype(theta.dtype))
        return mixed @ self.unembedding.astype(theta.dtype)

    def logits(self, mu: AbstractMeasure) -> Float[Array, "S T V"]:
        """The average of the features over the heads: `z = ∫ phi dmu`."""
        tokens = self.tokens.astype(precision(mu))
        if isinstance(mu, Particles):
            mixed = head_sums.total(self.heads, mu.points, mu.weights, tokens)
        else:
            mixed = mu.integrate(jax.vmap(lambda theta: jax.vmap(lambda x: self.heads.mix(theta, x))(tokens)))
        return jnp.matmul(mixed, self.unembedding.astype(mixed.dtype), precision=jax.lax.Precision.HIGHEST)

    def pulled(self, residuals: Float[Array, "S T V"]) -> Float[Array, "S T d"]:
        """The residuals pulled back by the unembedding."""
        return jnp.matmul(residuals, self.unembedding.astype(residuals.dtype).T, precision=jax.lax.Precision.HIGHEST)

    def against(self, cotangents: Float[Array, "S T d"], xs: Float[Array, "m D"]) -> Float[Array, " m"]:
        """The pairing of what heads compute with given cotangents: `sum_st <(A x U)_st, c_st>`."""
        return head_sums.pairing(self.heads, xs, self.tokens.astype(xs.dtype), cotangents)

    def outer(self, mu: AbstractMeasure, theta: Theta) -> Float[Array, "d d"]:
        """What the best output of a head depends on: `G = E sum_t (A x)_t (softmax(z_t) - y_t)^T W_E^T`.

        Then `Psi = tr(U^T G)`, linear in the output matrix `U`.
        """
        return self.outer_against(self.cotangents(mu), theta)

    def outer_against(self, cotangents: Float[Array, "S T d"], theta: Theta) -> Float[Array, "d d"]:
        """The matrix `sum_st (A x)_st c_st^T` for given cotangents."""

        def one(x, c):
            return (self.heads.attention(theta, x) @ x).T @ c

        return jax.vmap(one)(self.tokens.astype(theta.dtype), cotangents).sum(0)

    def best_output(self, cotangents: Float[Array, "S T d"], radii: ByBlock, decay: ByBlock, theta: Theta) -> Theta:
        """Values and outputs of rank one, along the top singular pair of `G`; heads with frozen output stay."""
        if not self.heads.linear:
            return theta
        u, sizes, vt = jnp.linalg.svd(self.outer_against(cotangents, theta))
        far, out = _lengths(sizes[0], radii, decay)
        blocks = self.heads.unfold(theta)
        value = jnp.zeros_like(blocks["value"]).at[:, 0].set(far.astype(theta.dtype) * u[:, 0])
        output = jnp.zeros_like(blocks["output"]).at[0].set(-out.astype(theta.dtype) * vt[0])
        return self.heads.fold({**blocks, "value": value, "output": output})

    def landscape(self, cotangents: Float[Array, "S T d"], radii: ByBlock) -> AbstractLandscape | None:
        """That of the heads."""
        return self.heads.landscape(self.tokens.astype(cotangents.dtype), cotangents, radii)

    def located(self, point: Float[Array, " k"], radii: ByBlock) -> Theta:
        """The head with such scores."""
        return self.heads.located(point, radii)

    @property
    def provable(self) -> str:
        """Where scores have few parameters."""
        return (
            f"`ScoreHeads` of at most {PARAMETERS} parameters, or `FullHeads` on tokens of 2 coordinates, with a ball for each "
            f"block; got {type(self.heads).__name__} of {self.heads.size} parameters on tokens of {self.heads.dim} coordinates"
        )

    def data(self) -> tuple[Any, Any, Any]:
        """The sequences."""
        return self.tokens, self.targets, self.shares

    def with_heads(self, heads: AbstractHeads) -> "HeadRisk":
        """The same data with another family of heads."""
        return eqx.tree_at(lambda r: r.heads, self, heads)


def _lengths(size: Array, radii: ByBlock, decay: ByBlock) -> tuple[Array, Array]:
    """The lengths `a` of a value and `b` of an output within radii that make `-size a b` plus their decay least.

    That is bilinear but for the decay: either nothing, or one of them at its radius and the other as long as the decay lets it.
    """
    a, b = radii["value"], radii["output"]
    if not decay:
        return a, b
    ends = jnp.stack(
        [
            jnp.zeros(2, size.dtype),
            jnp.stack([a, jnp.minimum(b, size * a / jnp.maximum(decay["output"], TINY))]).astype(size.dtype),
            jnp.stack([jnp.minimum(a, size * b / jnp.maximum(decay["value"], TINY)), b]).astype(size.dtype),
        ]
    )
    losses = (
        -size * ends[:, 0] * ends[:, 1] + (decay["value"] * ends[:, 0] ** 2 + decay["output"] * ends[:, 1] ** 2) / 2
    )
    best = ends[jnp.argmin(losses)]
    return best[0], best[1]


def _tokens(tokens: Numbers, dim: int) -> Float[Array, "S T d"]:
    try:
        array = checks.floating(tokens)
    except (ValueError, TypeError):
        raise ValueError(
            "`tokens` must be one array of sequences of equal length; pad shorter ones and give a `mask`."
        ) from None
    checks.shaped("tokens", array, ("S", "T", dim), "Sequences, positions, coordinates of a token.")
    checks.finite("tokens", array)
    return array


def _shares(mask: Bool[ArrayLike, "S T"] | None, shape: tuple[int, int], reduction: str, dtype) -> Float[Array, "S T"]:
    if reduction not in ("sum", "mean"):
        raise ValueError(f"`reduction` must be 'sum' or 'mean'; got {reduction!r}.")
    counts = jnp.ones(shape, dtype) if mask is None else jnp.asarray(mask)
    checks.shaped("mask", counts, shape, "It says for each position whether it counts.")
    counts = counts.astype(dtype)
    if checks.concrete(counts) and not np.asarray(counts).any():
        raise ValueError("`mask` hides every position; at least one must count.")
    return counts / (shape[0] if reduction == "sum" else counts.sum())
