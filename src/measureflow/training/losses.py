"""Convex losses: what a risk adds up over its data, as a function of a prediction `z` in `R^V` and a target `y`."""

import abc
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import xlogy

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.precision import keep_all


class AbstractLoss(eqx.Module):
    """A convex function of a prediction, with what certificates need of it; the last axis is that of the prediction."""

    @abc.abstractmethod
    def __call__(self, z: Float[Array, "*s V"], y: Float[Array, "*s V"]) -> Float[Array, "*s"]:
        """The loss of predictions."""

    @abc.abstractmethod
    def residual(self, z: Float[Array, "*s V"], y: Float[Array, "*s V"]) -> Float[Array, "*s V"]:
        """Its gradient in the prediction."""

    @abc.abstractmethod
    def curved(self, z: Float[Array, "*s V"], y: Float[Array, "*s V"], v: Float[Array, "*s V"]) -> Float[Array, "*s V"]:
        """Its Hessian in the prediction, applied to a direction."""

    @abc.abstractmethod
    def floor(self, y: Float[Array, "*s V"]) -> Float[Array, "*s"]:
        """The least loss that any prediction has."""

    @property
    @abc.abstractmethod
    def smoothness(self) -> float:
        """A bound of its Hessian, with which the theory counts."""

    @abc.abstractmethod
    def divergence(self, z: Float[Array, "*s V"], at: Float[Array, "*s V"]) -> Float[Array, "*s"]:
        """How far predictions exceed the tangent at others: the excess loss where those are optimal, with all its digits."""

    @abc.abstractmethod
    def constant(self, y: Float[np.ndarray, "s V"], shares: Float[np.ndarray, " s"]) -> float:
        """The least loss of one prediction for all data."""

    @property
    @abc.abstractmethod
    def quality(self) -> str:
        """What `judged` measures, in words."""

    @abc.abstractmethod
    def judged(self, z: Float[Array, "s V"], y: Float[Array, "s V"], shares: Float[Array, " s"]) -> Float[Array, ""]:
        """How good predictions are, at most one: the share of hits, or of the variance that they explain."""

    @abc.abstractmethod
    def targets(self, labels: Numbers, shape: tuple[int, ...], outputs: int, dtype) -> Float[Array, "*s V"]:
        """Targets from what a user gives as labels, for data of a shape and predictions of so many numbers."""


@final
class CrossEntropy(AbstractLoss):
    """The cross-entropy of logits, `log sum_v e^{z_v} - <y, z>`; labels are integers, or laws over the classes."""

    def __call__(self, z: Float[Array, "*s V"], y: Float[Array, "*s V"]) -> Float[Array, "*s"]:
        """The logarithm of the sum of exponentials, less what the target says."""
        return jax.nn.logsumexp(z, axis=-1) - jnp.sum(y * z, -1)

    def residual(self, z: Float[Array, "*s V"], y: Float[Array, "*s V"]) -> Float[Array, "*s V"]:
        """How far the predicted law is from the target, `softmax(z) - y`."""
        return jax.nn.softmax(z) - y

    def curved(self, z: Float[Array, "*s V"], y: Float[Array, "*s V"], v: Float[Array, "*s V"]) -> Float[Array, "*s V"]:
        """The covariance of the predicted law, `(diag p - p p^T) v`."""
        p = jax.nn.softmax(z)
        return p * (v - jnp.sum(p * v, -1, keepdims=True))

    def floor(self, y: Float[Array, "*s V"]) -> Float[Array, "*s"]:
        """The entropy of the target: zero if its label is certain."""
        return -jnp.sum(jax.scipy.special.xlogy(y, y), -1)

    @property
    def smoothness(self) -> float:
        """One, the constant of the theory; the least is one half."""
        return 1.0

    def divergence(self, z: Float[Array, "*s V"], at: Float[Array, "*s V"]) -> Float[Array, "*s"]:
        """The divergence `KL(softmax(at) || softmax(z))`, as `log sum p e^d - <p, d>` from `expm1`."""
        p = jax.nn.softmax(at)
        d = z - at
        d = d - jnp.sum(p * d, -1, keepdims=True)
        # The mean of d under p is zero now, so that what is left of the sum is quadratic.
        return jnp.log1p(jnp.sum(p * (jnp.expm1(d) - d), -1))

    def constant(self, y: Float[np.ndarray, "s V"], shares: Float[np.ndarray, " s"]) -> float:
        """The entropy of the frequencies of labels."""
        return float(shares.sum() * entropy(shares @ y))

    @property
    def quality(self) -> str:
        """The share of hits."""
        return "accuracy"

    def judged(self, z: Float[Array, "s V"], y: Float[Array, "s V"], shares: Float[Array, " s"]) -> Float[Array, ""]:
        """The share of data whose most likely class is the most likely target."""
        return jnp.sum(shares, where=jnp.argmax(z, -1) == jnp.argmax(y, -1)) / jnp.sum(shares)

    def targets(self, labels: Numbers, shape: tuple[int, ...], outputs: int, dtype) -> Float[Array, "*s V"]:
        """One-hot vectors of integers, or the laws themselves."""
        labels = jnp.asarray(labels)
        if jnp.issubdtype(labels.dtype, jnp.integer):
            checks.shaped("labels", labels, shape, "There is one label for each position.")
            _below(labels, outputs)
            return jax.nn.one_hot(labels, outputs, dtype=dtype)
        checks.shaped(
            "labels", labels, (*shape, outputs), "Labels are integers, or a law over the vocabulary a position."
        )
        if checks.concrete(labels) and (
            np.abs(np.asarray(labels).sum(-1) - 1).max() > 1e-6 or np.asarray(labels).min() < 0
        ):
            raise ValueError("`labels` given as laws must be non-negative and sum to one at every position.")
        return labels.astype(dtype)


@final
class Square(AbstractLoss):
    """The squared distance `|z - y|^2` to targets that are numbers, without a factor one half."""

    def __call__(self, z: Float[Array, "*s V"], y: Float[Array, "*s V"]) -> Float[Array, "*s"]:
        """The sum of squares."""
        return jnp.sum((z - y) ** 2, -1)

    def residual(self, z: Float[Array, "*s V"], y: Float[Array, "*s V"]) -> Float[Array, "*s V"]:
        """Twice the difference."""
        return 2 * (z - y)

    def curved(self, z: Float[Array, "*s V"], y: Float[Array, "*s V"], v: Float[Array, "*s V"]) -> Float[Array, "*s V"]:
        """Twice the direction."""
        return 2 * v

    def floor(self, y: Float[Array, "*s V"]) -> Float[Array, "*s"]:
        """Zero."""
        return jnp.zeros(y.shape[:-1], y.dtype)

    @property
    def smoothness(self) -> float:
        """Two."""
        return 2.0

    def divergence(self, z: Float[Array, "*s V"], at: Float[Array, "*s V"]) -> Float[Array, "*s"]:
        """The squared distance."""
        return jnp.sum((z - at) ** 2, -1)

    def constant(self, y: Float[np.ndarray, "s V"], shares: Float[np.ndarray, " s"]) -> float:
        """The variance of the targets."""
        mean = shares @ y / shares.sum()
        return float(shares @ ((y - mean) ** 2).sum(-1))

    @property
    def quality(self) -> str:
        """The share of the variance of the targets that is explained."""
        return "variance explained"

    def judged(self, z: Float[Array, "s V"], y: Float[Array, "s V"], shares: Float[Array, " s"]) -> Float[Array, ""]:
        """One minus the loss over the variance of the targets."""
        mean = shares @ y / jnp.sum(shares)
        return 1 - shares @ self(z, y) / (shares @ jnp.sum((y - mean[None]) ** 2, -1))

    def targets(self, labels: Numbers, shape: tuple[int, ...], outputs: int, dtype) -> Float[Array, "*s V"]:
        """The numbers themselves; one for each datum may leave out the last axis."""
        found = checks.floating(labels).astype(dtype)
        found = found[..., None] if outputs == 1 and found.ndim == len(shape) else found
        checks.shaped("labels", found, (*shape, outputs), "There is one number for each output of each datum.")
        checks.finite("labels", found)
        return found


@final
class Logistic(AbstractLoss):
    """The logistic loss `log(1 + e^{-yz})` of one number, with labels -1 and 1."""

    def __call__(self, z: Float[Array, "*s V"], y: Float[Array, "*s V"]) -> Float[Array, "*s"]:
        """Small where prediction and label have one sign."""
        return jnp.sum(jax.nn.softplus(-y * z), -1)

    def residual(self, z: Float[Array, "*s V"], y: Float[Array, "*s V"]) -> Float[Array, "*s V"]:
        """Minus the label times the chance of the other one."""
        return -y * jax.nn.sigmoid(-y * z)

    def curved(self, z: Float[Array, "*s V"], y: Float[Array, "*s V"], v: Float[Array, "*s V"]) -> Float[Array, "*s V"]:
        """The product of both chances, times the direction."""
        return jax.nn.sigmoid(z) * jax.nn.sigmoid(-z) * v

    def floor(self, y: Float[Array, "*s V"]) -> Float[Array, "*s"]:
        """Zero, which large predictions approach."""
        return jnp.zeros(y.shape[:-1], y.dtype)

    @property
    def smoothness(self) -> float:
        """A quarter."""
        return 0.25

    def divergence(self, z: Float[Array, "*s V"], at: Float[Array, "*s V"]) -> Float[Array, "*s"]:
        """That of cross-entropy with the logits `z` and zero."""
        both = (jnp.concatenate([side, jnp.zeros_like(side)], -1) for side in (z, at))
        return CrossEntropy().divergence(*both)

    def constant(self, y: Float[np.ndarray, "s V"], shares: Float[np.ndarray, " s"]) -> float:
        """The entropy of the frequencies of both labels."""
        return float(shares.sum() * entropy(np.array([shares[y[:, 0] > 0].sum(), shares[y[:, 0] < 0].sum()])))

    @property
    def quality(self) -> str:
        """The share of hits."""
        return "accuracy"

    def judged(self, z: Float[Array, "s V"], y: Float[Array, "s V"], shares: Float[Array, " s"]) -> Float[Array, ""]:
        """The share of data whose prediction has the sign of the label."""
        return jnp.sum(shares, where=(z * y)[..., 0] > 0) / jnp.sum(shares)

    def targets(self, labels: Numbers, shape: tuple[int, ...], outputs: int, dtype) -> Float[Array, "*s V"]:
        """The signs."""
        if outputs != 1:
            raise ValueError(f"The logistic loss takes one output; got {outputs}. Use `CrossEntropy()` for classes.")
        found = checks.floating(labels).astype(dtype)
        checks.shaped("labels", found, shape, "There is one label for each datum.")
        if checks.concrete(found) and not np.isin(np.asarray(found), [-1, 1]).all():
            wrong = np.asarray(found)[~np.isin(np.asarray(found), [-1, 1])]
            raise ValueError(f"`labels` of the logistic loss are -1 or 1; got {wrong[0]:g}.")
        return found[..., None]


def entropy(counts: np.ndarray) -> float:
    """The entropy of the law that is proportional to counts."""
    law = counts / counts.sum()
    return float(-xlogy(law, law).sum())


def _below(labels: Array, outputs: int) -> None:
    if checks.concrete(labels):
        low, high = int(np.asarray(labels).min()), int(np.asarray(labels).max())
        if low < 0 or high >= outputs:
            raise ValueError(
                f"`labels` must lie between 0 and {outputs - 1}, one below the number of outputs; got "
                f"{low if low < 0 else high}."
            )


keep_all(globals())
