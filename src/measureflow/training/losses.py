"""Convex losses: what a risk adds up over its data, as a function of a prediction `z` in `R^V` and a target `y`."""

import abc
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Numbers


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


def _below(labels: Array, outputs: int) -> None:
    if checks.concrete(labels):
        low, high = int(np.asarray(labels).min()), int(np.asarray(labels).max())
        if low < 0 or high >= outputs:
            raise ValueError(
                f"`labels` must lie between 0 and {outputs - 1}, one below the number of outputs; got "
                f"{low if low < 0 else high}."
            )
