"""The nearest flow of Gaussians, for fields that do not keep them."""

from typing import final

from jaxtyping import Array, Float

from measureflow.annotations import Number
from measureflow.fields.base import AbstractField
from measureflow.measures import AbstractMeasure, Gaussian


@final
class MomentClosure(AbstractField):
    """The affine field nearest to a field on a Gaussian: `v(x) = E v + E[Dv] (x - m)`.

    It is the projection in the mean square, so mean and covariance have the rates that the field itself gives them at
    this Gaussian. An affine field is its own closure. Exponentials are averaged in closed form; the rest is quadrature, in
    more than seven dimensions of degree five, and refused where a second rule gives other rates.

    >>> cube = mf.Perceptron([[1.0]], [[1.0]], [0.0], activation=lambda x: x**3)
    >>> mu = mf.Gaussian([0.0], [[1.0]])
    >>> mf.MomentClosure(cube)(0.0, jnp.array([[2.0]]), mu).round(3).tolist()  # E[3 x^2] x
    [[6.0]]
    """

    field: AbstractField

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The rates of mean and root, read as a velocity in the coordinates `z` of `m + Rz`."""
        if not isinstance(mu, Gaussian):
            raise TypeError(
                f"`MomentClosure` needs a `Gaussian`; got {type(mu).__name__}, which the field itself can move."
            )
        mean, root = self.field.project(t, mu, mu)
        return mean[None] + mu.coordinates(xs) @ root.T
