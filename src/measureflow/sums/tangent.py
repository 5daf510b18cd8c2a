"""Derivatives of kernel sums are kernel sums: averages of other values with the same exponentials.

With `p_ij = e^{<a_i, y_j> + w_j - L_i}` and `E_i[z] = sum_j p_ij z_j` the tangent of the log mass and the mean is

    dL = <da, m> + <a, E[dy]> + E[dw],
    dm = Cov da + E[dy] + E[y <a, dy>] + E[y dw] - m (<a, E[dy]> + E[dw]),        Cov = E[y y^T] - m m^T.

So no array of pairs is needed, and the products with the Jacobian cost little more than the sum itself. The values have
`d^2` columns, which pays for few coordinates.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

FEW_COORDINATES = 8
"""Up to this many coordinates derivatives are such sums; beyond, those of the engine's own program."""

Average = Callable[[Float[Array, "n e"]], Float[Array, "m e"]]


def attend_tangent(average: Average, a: Array, y: Array, log_mass: Array, mean: Array, tangents) -> tuple[Array, Array]:
    """The tangents of log mass and mean, given the averages `z -> E[z]`; tangents that vanish may be symbolic zeros."""
    da, dy, dw = tangents
    moved = jnp.zeros_like(log_mass), jnp.zeros_like(mean)
    if not isinstance(da, SymbolicZero):
        covariance = second_moment(average, y) - mean[:, :, None] * mean[:, None, :]
        moved = moved[0] + jnp.sum(da * mean, 1), moved[1] + jnp.sum(covariance * da[:, None, :], 2)
    if not isinstance(dw, SymbolicZero):
        found = average(jnp.concatenate([dw[:, None], dw[:, None] * y], 1))
        moved = moved[0] + found[:, 0], moved[1] + found[:, 1:] - mean * found[:, :1]
    if not isinstance(dy, SymbolicZero):
        d = y.shape[1]
        found = average(jnp.concatenate([dy, outer(y, dy)], 1))
        shift = jnp.sum(a * found[:, :d], 1)
        turned = jnp.sum(found[:, d:].reshape(-1, d, d) * a[:, None, :], 2)
        moved = moved[0] + shift, moved[1] + found[:, :d] + turned - mean * shift[:, None]
    return moved


def second_moment(average: Average, y: Float[Array, "n d"]) -> Float[Array, "m d d"]:
    """The averages `E[y y^T]`, of which those above the diagonal are summed once."""
    rows, columns = np.triu_indices(y.shape[1])
    return average(y[:, rows] * y[:, columns])[:, symmetric(y.shape[1])]


def symmetric(d: int) -> np.ndarray:
    """Where the entries of a symmetric matrix are in the list of those on and above its diagonal, row by row."""
    rows, columns = np.triu_indices(d)
    place = np.zeros((d, d), int)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    return place


def outer(y: Float[Array, "*b n k"], z: Float[Array, "*c n e"]) -> Float[Array, "*e n ke"]:
    """All products of a column of one with a column of the other."""
    products = y[..., :, None] * z[..., None, :]
    return products.reshape(*products.shape[:-2], -1)
