"""Gaussian variational inference: the Gaussian nearest to `e^{-V}` in relative entropy, as a flow of Gaussians.

`KL(N(m, S) | e^{-V})` is the mean of `V`, which a gradient step lowers, minus an entropy, for which the implicit step of the
Bures geometry has a closed form. Going forward along the one and backward along the other keeps every iterate a
Gaussian and has the minimiser as its fixed point, whatever the step (diao:23).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Number
from measureflow.measures.gaussian import Gaussian
from measureflow.precision import keep_all
from measureflow.transport.gaussians import root


class Inference(NamedTuple):
    """The iterates of variational inference, the start first, and the last as a measure."""

    means: Float[Array, "k d"]
    covs: Float[Array, "k d d"]
    final: Gaussian


def gaussian_inference(
    potential: Callable[[Float[Array, " d"]], Float[Array, ""]],
    start: Gaussian,
    *,
    step: Number,
    steps: int,
) -> Inference:
    """Forward-backward steps towards the Gaussian nearest to `e^{-V}`; `potential` is `V` at one point.

    `m <- m - h E grad V`, and with `Z = (I - hH) S (I - hH)`, `H = E hess V`: `S <- (Z + 2hI + (Z (Z + 4hI))^{1/2}) / 2`.
    Stable for `h <= 1/L` when `hess V <= L`, and a contraction when `V` is strongly convex. Averages are those of
    `Gaussian.expect`.
    """
    checks.positive("step", step)
    if steps < 1:
        raise ValueError(f"`steps` must be at least 1; got {steps}.")
    h = jnp.asarray(step, start.mean.dtype)
    eye = jnp.eye(len(start.mean), dtype=h.dtype)

    def advance(mu, _):
        slope, H = mu.expect(jax.grad(potential)), mu.expect(jax.hessian(potential))
        Z = (eye - h * H) @ mu.cov @ (eye - h * H)
        cov = (Z + 2 * h * eye + root(Z @ (Z + 4 * h * eye))) / 2
        mu = Gaussian.from_root(mu.mean - h * slope, root(cov))
        return mu, (mu.mean, mu.cov)

    final, (means, covs) = jax.lax.scan(advance, Gaussian.from_root(start.mean, root(start.cov)), length=steps)
    if checks.concrete(means) and not np.isfinite(np.asarray(means)).all():
        raise ValueError(f"`step` {float(h):g} is too long for this potential: the iterates diverge. Try half of it.")
    return Inference(jnp.concatenate([start.mean[None], means]), jnp.concatenate([start.cov[None], covs]), final)


keep_all(globals())
