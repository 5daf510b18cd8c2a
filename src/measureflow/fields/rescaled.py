"""Tokens in a frame that grows with them: the clusters of unnormalised space."""

from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow.annotations import Number
from measureflow.fields.attention import SoftmaxAttention
from measureflow.fields.base import AbstractField
from measureflow.measures import AbstractMeasure
from measureflow.measures.matrices import full


@final
class Rescaled(AbstractField):
    """Softmax attention for the tokens `z = e^{-tV} x`, which stay bounded while `x` grows.

    `z_i' = sum_j P_ij V (z_j - z_i)` with scores `<A e^{tV} z_i, e^{tV} z_j>`; the two frames agree at `t = 0`. Scores grow
    like `e^{2t}` but only their differences to the largest count. geshkovski:23

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.Rescaled(mf.SoftmaxAttention.isotropic(2, beta=np.log(3)))
    >>> field(0.0, mu.points, mu).round(3).tolist()
    [[-0.25, 0.25], [0.25, -0.25]]
    """

    attention: SoftmaxAttention

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity `V (grad L(e^{tV^T} A e^{tV} z) - z)`."""
        A, V = full((self.attention.interaction, self.attention.value))
        growth = jax.scipy.linalg.expm(jnp.asarray(t, xs.dtype) * V)
        return (mu.attend(xs @ (growth.T @ A @ growth).T).mean - xs) @ V.T

    def scores(self, t: Number, xs: Float[Array, "m d"], ys: Float[Array, "n d"]) -> Float[Array, "m n"]:
        """The scores `<A e^{tV} x, e^{tV} y>` of all pairs, for small clouds."""
        A, V = full((self.attention.interaction, self.attention.value))
        growth = jax.scipy.linalg.expm(jnp.asarray(t, xs.dtype) * V)
        return xs @ (growth.T @ A @ growth).T @ ys.T
