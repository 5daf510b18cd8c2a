"""The cross-entropy risk of a measure of heads, as an energy.

A layer of heads with law `mu` has the logits `z = ∫ A x U dmu W_E` and the risk `R(mu) = E sum_t l(y_t, z_t)`, where `l` is the
cross-entropy. Its first variation is `Psi(theta; mu) = E sum_t <phi_t(theta), softmax(z_t) - y_t>`, not shifted to mean zero.
For `N` equal heads `N dR/dtheta_i = grad Psi(theta_i; mu)`. Work and memory are linear in the number of heads.
"""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from scipy.special import xlogy

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.energies import AbstractEnergy
from measureflow.flows import precision
from measureflow.measures import AbstractMeasure, Particles
from measureflow.training import crowd
from measureflow.training.heads import AbstractHeads, Theta


class Baselines(NamedTuple):
    """Risks that need no heads: of equal chances, of the frequencies of labels, and, for text, of those after each character."""

    uniform: float
    unigram: float
    bigram: float | None = None


def entropy(counts: np.ndarray) -> float:
    """The entropy of the law that is proportional to counts."""
    law = counts / counts.sum()
    return float(-xlogy(law, law).sum())


@final
class HeadRisk(AbstractEnergy):
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
        self.targets = _targets(labels, (S, T), self.unembedding.shape[1], self.tokens.dtype)
        self.shares = _shares(mask, (S, T), reduction, self.tokens.dtype)
        self.heads = heads

    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """The mean over sequences of the cross-entropy: `E sum_t (log sum_v e^{z_tv} - <y_t, z_t>)`."""
        return self.loss(self.logits(mu))

    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """What a head would add to the risk: `Psi(theta; mu) = E sum_t <phi_t(theta), softmax(z_t) - y_t>`."""
        return self.against(self.cotangents(mu), xs)

    def loss(self, logits: Float[Array, "S T V"]) -> Float[Array, ""]:
        """The cross-entropy of given logits."""
        cross = jax.nn.logsumexp(logits, axis=-1) - jnp.sum(self.targets.astype(logits.dtype) * logits, -1)
        return jnp.sum(self.shares.astype(logits.dtype) * cross)

    def floor(self) -> Float[Array, ""]:
        """The entropy of the targets, which no logits can go below: zero if every label is certain."""
        return -jnp.sum(self.shares * jnp.sum(jax.scipy.special.xlogy(self.targets, self.targets), -1))

    def baselines(self) -> Baselines:
        """What the labels tell without heads: `log V` and the entropy of their frequencies, times the positions that count."""
        shares, targets = np.asarray(self.shares, float), np.asarray(self.targets, float)
        each = np.log(targets.shape[-1]), entropy(np.tensordot(shares, targets, 2))
        return Baselines(*(float(shares.sum() * value) for value in each))

    def accuracy(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """The share of positions whose most likely next token is the most likely target."""
        hits = jnp.argmax(self.logits(mu), -1) == jnp.argmax(self.targets, -1)
        return jnp.sum(self.shares, where=hits) / jnp.sum(self.shares)

    def features(self, theta: Theta) -> Float[Array, "S T V"]:
        """The logits of one head: `phi(x; theta) = A x U W_E`."""
        mixed = jax.vmap(lambda x: self.heads.mix(theta, x))(self.tokens.astype(theta.dtype))
        return mixed @ self.unembedding.astype(theta.dtype)

    def logits(self, mu: AbstractMeasure) -> Float[Array, "S T V"]:
        """The average of the features over the heads: `z = ∫ phi dmu`."""
        tokens = self.tokens.astype(precision(mu))
        if isinstance(mu, Particles):
            mixed = crowd.total(self.heads, mu.points, mu.weights, tokens)
        else:
            mixed = mu.integrate(jax.vmap(lambda theta: jax.vmap(lambda x: self.heads.mix(theta, x))(tokens)))
        return jnp.matmul(mixed, self.unembedding.astype(mixed.dtype), precision=jax.lax.Precision.HIGHEST)

    def residuals(self, mu: AbstractMeasure) -> Float[Array, "S T V"]:
        """How far predictions are from the targets, `softmax(z) - y`, with the share of each position in the risk."""
        return self.residuals_of(self.logits(mu))

    def residuals_of(self, logits: Float[Array, "S T V"]) -> Float[Array, "S T V"]:
        """The gradient of the loss in given logits."""
        z = logits
        return self.shares.astype(z.dtype)[..., None] * (jax.nn.softmax(z) - self.targets.astype(z.dtype))

    def cotangents(self, mu: AbstractMeasure) -> Float[Array, "S T d"]:
        """The residuals pulled back by the unembedding."""
        residuals = self.residuals(mu)
        return jnp.matmul(residuals, self.unembedding.astype(residuals.dtype).T, precision=jax.lax.Precision.HIGHEST)

    def against(self, cotangents: Float[Array, "S T d"], xs: Float[Array, "m D"]) -> Float[Array, " m"]:
        """The pairing of what heads compute with given cotangents: `sum_st <(A x U)_st, c_st>`."""
        return crowd.pairing(self.heads, xs, self.tokens.astype(xs.dtype), cotangents)

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

    def draw(self, key: PRNGKeyArray, size: int) -> "HeadRisk":
        """The risk of a random batch of sequences, drawn with replacement; its expectation is this risk."""
        count = len(self.tokens)
        chosen = jax.random.randint(key, (size,), 0, count)
        parts = (self.tokens[chosen], self.targets[chosen], self.shares[chosen] * (count / size))
        return eqx.tree_at(lambda r: (r.tokens, r.targets, r.shares), self, parts)

    def with_heads(self, heads: AbstractHeads) -> "HeadRisk":
        """The same data with another family of heads."""
        return eqx.tree_at(lambda r: r.heads, self, heads)


@final
class Ridge(AbstractEnergy):
    """Weight decay: `∫ sum_k (strength_k / 2) (theta_k - anchor_k)^2 dmu`, linear in the measure.

    `strength` is one number or one for each coordinate (`heads.by_block(value=0.1, output=0.1)`).
    """

    strength: Float[Array, "*D"] = eqx.field(converter=checks.floating)
    anchor: Float[Array, "*D"] = eqx.field(converter=checks.floating, default=0.0)

    def __check_init__(self):
        checks.finite("strength", self.strength)
        if checks.concrete(self.strength) and (np.asarray(self.strength) < 0).any():
            raise ValueError(f"`strength` must not be negative; got {np.asarray(self.strength).min():g}.")

    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """The average of the penalty."""
        return mu.integrate(lambda xs: self.variation(mu, xs))

    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The penalty itself."""
        strength, anchor = (jnp.broadcast_to(v.astype(xs.dtype), xs.shape[-1:]) for v in (self.strength, self.anchor))
        return (xs - anchor[None]) ** 2 @ strength / 2


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


def _targets(labels: Numbers, shape: tuple[int, int], vocabulary: int, dtype) -> Float[Array, "S T V"]:
    labels = jnp.asarray(labels)
    if jnp.issubdtype(labels.dtype, jnp.integer):
        checks.shaped("labels", labels, shape, "There is one label for each position.")
        _in_vocabulary(labels, vocabulary)
        return jax.nn.one_hot(labels, vocabulary, dtype=dtype)
    checks.shaped(
        "labels", labels, (*shape, vocabulary), "Labels are integers, or a law over the vocabulary a position."
    )
    if checks.concrete(labels) and (
        np.abs(np.asarray(labels).sum(-1) - 1).max() > 1e-6 or np.asarray(labels).min() < 0
    ):
        raise ValueError("`labels` given as laws must be non-negative and sum to one at every position.")
    return labels.astype(dtype)


def _in_vocabulary(labels: Int[Array, "S T"], vocabulary: int) -> None:
    if checks.concrete(labels):
        low, high = int(np.asarray(labels).min()), int(np.asarray(labels).max())
        if low < 0 or high >= vocabulary:
            raise ValueError(
                f"`labels` must lie between 0 and {vocabulary - 1}, the vocabulary of `unembedding`; got "
                f"{low if low < 0 else high}."
            )


def _shares(mask: Bool[ArrayLike, "S T"] | None, shape: tuple[int, int], reduction: str, dtype) -> Float[Array, "S T"]:
    if reduction not in ("sum", "mean"):
        raise ValueError(f"`reduction` must be 'sum' or 'mean'; got {reduction!r}.")
    counts = jnp.ones(shape, dtype) if mask is None else jnp.asarray(mask)
    checks.shaped("mask", counts, shape, "It says for each position whether it counts.")
    counts = counts.astype(dtype)
    if checks.concrete(counts) and not np.asarray(counts).any():
        raise ValueError("`mask` hides every position; at least one must count.")
    return counts / (shape[0] if reduction == "sum" else counts.sum())
