"""Sinkhorn attention: a kernel scaled until every token gives and receives one unit of attention.

`k(x, y) = e^{<Ax, y> + f(x) + g(y)}` with `∫ k(x, .) dmu = ∫ k(., y) dmu = 1`. The potentials are the fixed point of two
log masses; a first half sweep alone is softmax attention. sander:22
"""

from typing import Any, ClassVar, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from measureflow import checks
from measureflow.annotations import Number, Numbers
from measureflow.fields.attention import AbstractAttention
from measureflow.measures import AbstractMeasure
from measureflow.measures.matrices import Map, Matrix, Multiple, matrix


class Potentials(NamedTuple):
    """The scaling of a kernel: potentials of queries and keys, the marginal error left, and the sweeps it took."""

    query: Any
    key: Any
    error: Float[Array, ""]
    sweeps: Int[Array, ""]


@final
class SinkhornAttention(AbstractAttention):
    """Attention with a doubly stochastic kernel: `v(x) = ∫ V y e^{<Ax, y> + f(x) + g(y)} dmu(y)`.

    Sweeps go on until every marginal is one within `tolerance`, or for `sweeps` sweeps; `potentials(mu)` reports the
    error left. With symmetric `A` both potentials are equal and one damped sweep does for two; say `symmetric=True` where
    `A` is traced and cannot be looked at. Derivatives are those of the fixed point, whatever sweeps led to it.

    >>> mu = mf.Particles(mf.Euclidean(2), [[0.0, 0.0], [1.0, 0.0], [2.0, 3.0]])
    >>> mf.SinkhornAttention(np.eye(2), np.eye(2))(0.0, mu.points, mu).mean(0).round(3).tolist()  # the mean of the tokens
    [1.0, 1.0]
    """

    exponential: ClassVar[bool] = False  # the potentials of each past are a fixed point of their own
    interaction: Matrix
    value: Map
    tolerance: float = eqx.field(static=True)
    sweeps: int = eqx.field(static=True)
    symmetric: bool = eqx.field(static=True)

    def __init__(
        self,
        interaction: Numbers | Multiple,
        value: Numbers | Multiple,
        tolerance: float = 1e-12,
        sweeps: int = 2000,
        symmetric: bool | None = None,
    ):
        self.interaction, self.value = matrix(interaction), matrix(value)
        self.tolerance, self.sweeps = tolerance, sweeps
        A = self.interaction
        if symmetric is None:
            symmetric = A.shape == A.T.shape and checks.concrete(A) and bool(jnp.all(A == A.T))
        self.symmetric = symmetric

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m k"]:
        """Softmax attention on the measure that the key potential reweights."""
        return mu.weigh(self.potentials(mu).key).attend(xs @ self.interaction.T).mean @ self.value.T

    def potentials(self, mu: AbstractMeasure) -> Potentials:
        """The potentials on a measure, in the log domain.

        One sweep takes the key potential `g` to the query potential `f(x) = -log ∫ e^{<Ax, y> + g(y)} dmu(y)` and back.
        Adding a constant to one and subtracting it from the other changes nothing; `g` is kept orthogonal to constants.
        """
        A = self.interaction

        def query_potential(g):
            return mu.potential(lambda x: -mu.weigh(g).attend(x @ A.T).log_mass)

        def key_potential(f):
            return mu.potential(lambda y: -mu.weigh(f).attend(y @ A).log_mass)

        def sweep(g):
            if self.symmetric:
                return (g + query_potential(g)) / 2
            new = key_potential(query_potential(g))
            return new - level(mu, new) * constant

        constant = unit(mu)
        g, count = fixed_point(sweep, jnp.zeros_like(constant), self.tolerance, self.sweeps)
        f = query_potential(g)
        # Rows sum to one by the choice of f; what is left is how far columns do not.
        error = jnp.abs(jnp.expm1(g - key_potential(f))).max()
        return Potentials(f, g, jax.lax.stop_gradient(error), count)


def unit(mu: AbstractMeasure) -> Any:
    """The constant function one, as the measure writes potentials."""
    return mu.potential(lambda x: jnp.ones(len(x), x.dtype))


def level(mu: AbstractMeasure, potential: Any) -> Float[Array, ""]:
    """The constant nearest to a potential: the plain average of values, or the constant coefficient."""
    one = unit(mu)
    return jnp.vdot(potential, one) / jnp.vdot(one, one)


def fixed_point(sweep, start: Array, tolerance: float, limit: int) -> tuple[Array, Int[Array, ""]]:
    """The fixed point of a contraction and the number of sweeps, with the derivative of the fixed point.

    The derivative solves `z = y + J z` by the same kind of sweeps, forwards and backwards, so that neither mode of
    differentiation goes through the loop.
    """

    def solve(residual, g):
        def step(state):
            g, _, k = state
            change = -residual(g)
            return g + change, jnp.abs(change).max(), k + 1

        g, _, k = jax.lax.while_loop(_unsettled, step, (g, jnp.array(jnp.inf, g.dtype), jnp.array(0)))
        return g, k.astype(g.dtype)  # a float, since derivatives have no place for an integer

    def linear_sweeps(linear, y):
        def step(state):
            z, _, k = state
            change = y - linear(z)
            return z + change, jnp.abs(change).max() / (1 + jnp.abs(z).max()), k + 1

        return jax.lax.while_loop(_unsettled, step, (y, jnp.array(jnp.inf, y.dtype), jnp.array(0)))[0]

    def tangent_solve(linear, y):
        return jax.lax.custom_linear_solve(linear, y, linear_sweeps, linear_sweeps)

    def _unsettled(state):
        _, change, k = state
        return (change > tolerance) & (k < limit)

    g, k = jax.lax.custom_root(lambda g: g - sweep(g), start, solve, tangent_solve, has_aux=True)
    return g, jax.lax.stop_gradient(k).astype(int)
