"""Risks as energies: a convex loss of linear features of a measure, and the cross-entropy risk of heads as the first of them.

A layer of heads with law `mu` has the logits `z = ∫ A x U dmu W_E` and the risk `R(mu) = E sum_t l(y_t, z_t)`, where `l` is the
cross-entropy. Its first variation is `Psi(theta; mu) = E sum_t <phi_t(theta), softmax(z_t) - y_t>`, not shifted to mean zero.
For `N` equal heads `N dR/dtheta_i = grad Psi(theta_i; mu)`. Work and memory are linear in the number of heads.
"""

import abc
from typing import Any, NamedTuple, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from scipy.special import xlogy

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.energies import AbstractEnergy
from measureflow.flows import precision
from measureflow.measures import AbstractMeasure, Particles
from measureflow.training import crowd
from measureflow.training.families import Theta
from measureflow.training.heads import AbstractHeads
from measureflow.training.losses import AbstractLoss, CrossEntropy


class Baselines(NamedTuple):
    """Risks that need no heads: of equal chances, of the frequencies of labels, and, for text, of those after each character."""

    uniform: float
    unigram: float
    bigram: float | None = None


def entropy(counts: np.ndarray) -> float:
    """The entropy of the law that is proportional to counts."""
    law = counts / counts.sum()
    return float(-xlogy(law, law).sum())


Risk = TypeVar("Risk", bound="AbstractRisk")


class AbstractRisk(AbstractEnergy):
    """A convex loss of linear features of a measure: `R(mu) = sum_s share_s l(z_s, y_s)` with `z = ∫ phi dmu`.

    Convex in the measure, with the first variation `Psi(theta; mu) = sum_s share_s <phi_s(theta), l'(z_s, y_s)>`, not shifted to
    mean zero. `shares` say how much each datum counts.
    """

    criterion: eqx.AbstractVar[AbstractLoss]
    targets: eqx.AbstractVar[Float[Array, "*s V"]]
    shares: eqx.AbstractVar[Float[Array, "*s"]]

    @abc.abstractmethod
    def features(self, theta: Theta) -> Float[Array, "*s V"]:
        """The predictions of one particle."""

    @abc.abstractmethod
    def logits(self, mu: AbstractMeasure) -> Float[Array, "*s V"]:
        """The average of the features over the measure: `z = ∫ phi dmu`."""

    @abc.abstractmethod
    def against(self, cotangents: Array, xs: Float[Array, "m D"]) -> Float[Array, " m"]:
        """The pairing of what particles compute with given cotangents."""

    @abc.abstractmethod
    def data(self) -> tuple[Any, Any, Any]:
        """What there is of each datum: its input, its target and its share."""

    def draw(self: Risk, key: PRNGKeyArray, size: int) -> Risk:
        """The risk of a random batch of data, drawn with replacement; its expectation is this risk."""
        inputs, targets, shares = self.data()
        chosen = jax.random.randint(key, (size,), 0, len(inputs))
        batch = inputs[chosen], targets[chosen], shares[chosen] * (len(inputs) / size)
        return eqx.tree_at(lambda risk: risk.data(), self, batch)

    def pulled(self, residuals: Float[Array, "*s V"]) -> Array:
        """Residuals as cotangents of what particles compute; the same unless a fixed map follows the particles."""
        return residuals

    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """The loss of the predictions of a measure."""
        return self.loss(self.logits(mu))

    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """What a particle would add to the risk: `Psi(theta; mu) = sum_s share_s <phi_s(theta), l'(z_s, y_s)>`."""
        return self.against(self.cotangents(mu), xs)

    def loss(self, logits: Float[Array, "*s V"]) -> Float[Array, ""]:
        """The risk of given predictions."""
        z = logits
        return jnp.sum(self.shares.astype(z.dtype) * self.criterion(z, self.targets.astype(z.dtype)))

    def floor(self) -> Float[Array, ""]:
        """What no predictions can go below."""
        return jnp.sum(self.shares * self.criterion.floor(self.targets))

    def residuals(self, mu: AbstractMeasure) -> Float[Array, "*s V"]:
        """The gradient of the loss in the predictions of a measure, with the share of each datum in the risk."""
        return self.residuals_of(self.logits(mu))

    def residuals_of(self, logits: Float[Array, "*s V"]) -> Float[Array, "*s V"]:
        """The gradient of the loss in given predictions."""
        z = logits
        return self.shares.astype(z.dtype)[..., None] * self.criterion.residual(z, self.targets.astype(z.dtype))

    def cotangents(self, mu: AbstractMeasure) -> Array:
        """The residuals of a measure, pulled back to what particles compute."""
        return self.pulled(self.residuals(mu))


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

    def pulled(self, residuals: Float[Array, "S T V"]) -> Float[Array, "S T d"]:
        """The residuals pulled back by the unembedding."""
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

    def data(self) -> tuple[Any, Any, Any]:
        """The sequences."""
        return self.tokens, self.targets, self.shares

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


def _shares(mask: Bool[ArrayLike, "S T"] | None, shape: tuple[int, int], reduction: str, dtype) -> Float[Array, "S T"]:
    if reduction not in ("sum", "mean"):
        raise ValueError(f"`reduction` must be 'sum' or 'mean'; got {reduction!r}.")
    counts = jnp.ones(shape, dtype) if mask is None else jnp.asarray(mask)
    checks.shaped("mask", counts, shape, "It says for each position whether it counts.")
    counts = counts.astype(dtype)
    if checks.concrete(counts) and not np.asarray(counts).any():
        raise ValueError("`mask` hides every position; at least one must count.")
    return counts / (shape[0] if reduction == "sum" else counts.sum())
