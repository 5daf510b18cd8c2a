"""Finitely many weighted points: the tokens themselves."""

from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from measureflow.annotations import Numbers, RandomKey
from measureflow.measures.cloud import AbstractCloud, as_key, checked_points, checked_weights
from measureflow.spaces import AbstractSpace
from measureflow.sums import AbstractEngine, Auto


@final
class Particles(AbstractCloud):
    """The measure `sum_i w_i delta_{x_i}` of tokens in a space, whose order means nothing.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2), weights=[1.0, 3.0])
    >>> mu
    Particles(2 tokens on S¹)
    >>> mu.weights.round(3).tolist()
    [0.25, 0.75]
    >>> mu.expect(lambda x: x).round(3).tolist()
    [0.25, 0.75]
    """

    space: AbstractSpace
    points: Float[Array, "n d"]
    log_weights: Float[Array, " n"]
    engine: AbstractEngine

    def __init__(
        self,
        space: AbstractSpace,
        points: Numbers,
        weights: Numbers | None = None,
        engine: AbstractEngine | None = None,
    ):
        self.space = space
        self.points = checked_points(space, points)
        self.log_weights = checked_weights(weights, self.points)
        self.engine = (Auto() if engine is None else engine).on(space)

    @property
    def tokens(self) -> "Particles":
        """The particles themselves."""
        return self

    @staticmethod
    def iid(space: AbstractSpace, n: int, *, key: RandomKey) -> "Particles":
        """Independent equally weighted tokens from the reference law of the space.

        Uniform on a sphere, standard normal on Euclidean space. `key` is a JAX key or an integer seed.
        """
        if n < 1:
            raise ValueError(f"`n` must be at least 1; got {n}.")
        return Particles(space, _drawn(space, as_key(key), n))


@eqx.filter_jit
def _drawn(space: AbstractSpace, key: PRNGKeyArray, n: int) -> Float[Array, "n d"]:
    return jax.vmap(space.sample)(jax.random.split(key, n))
