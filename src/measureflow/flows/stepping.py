"""One step of a flow: methods that carry a measure from one time to the next.

A method is given the rate of the measure, a function of time and measure, and its value `k` at the start of the step; it
returns the measure after the step, and what it knows besides: an estimate of the error, the rate at the end. Steps may leave
the space: the rate is evaluated at the settled measure, and the loop in `leg` settles the result, so that a Runge-Kutta method
keeps its order on a curved space.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from measureflow.measures import AbstractMeasure

Rate = Callable[[Float[Array, ""], AbstractMeasure], AbstractMeasure]
"""The rate of change of a measure at a time: a tangent in the shape of the measure."""


class Step(NamedTuple):
    """Where a step leads; `error` and `rate`, the one at the end, are None where the method has none."""

    mu: Any
    error: Any = None
    rate: Any = None
    good: Bool[Array, ""] | bool = True


class AbstractMethod(eqx.Module):
    """A way to step."""

    @property
    def ends_in_rate(self) -> bool:
        """Whether a step knows the rate at its end, which is the first of the next."""
        return False

    def driven(self, rate: Rate) -> Rate:
        """The rate that the steps follow, given that of the field; most follow the field alone."""
        return rate

    @abc.abstractmethod
    def step(self, rate: Rate, t0: Float[Array, ""], t1: Float[Array, ""], mu: Any, k: Any) -> Step:
        """From a time to another, where `k` is the rate at the first."""


class Tableau(NamedTuple):
    """The coefficients of an explicit Runge-Kutta method, and those of its error estimate if it has one."""

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]
    b_error: tuple[float, ...] | None = None

    @property
    def matrix(self) -> np.ndarray:
        """The coefficients `a` with their zeros."""
        return np.array([[*row, *[0.0] * (len(self.b) - len(row))] for row in self.a])


EULER = Tableau(a=((),), b=(1.0,), c=(0.0,))
HEUN = Tableau(a=((), (1.0,)), b=(0.5, 0.5), c=(0.0, 1.0))
CLASSIC = Tableau(a=((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), b=(1 / 6, 1 / 3, 1 / 3, 1 / 6), c=(0.0, 0.5, 0.5, 1.0))
_FIFTH = (0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774)
TSITOURAS = Tableau(
    a=(
        (),
        (0.161,),
        (-0.008480655492356989, 0.335480655492357),
        (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
        (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
        (5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383),
        _FIFTH,
    ),
    b=(*_FIFTH, 0.0),
    c=(0.0, 0.161, 0.327, 0.9, 0.9800255409045097, 1.0, 1.0),
    b_error=(
        0.0017800110522257783,
        0.0008164344596567453,
        -0.0078808780102619939,
        0.14471100717326298,
        -0.58235716545255505,
        0.45808210592918665,
        -1 / 66,
    ),
)
"""The pair of orders 5 and 4 of Tsitouras (2011)."""


@final
class RungeKutta(AbstractMethod):
    """An explicit Runge-Kutta method: `k_i` the rate at `mu + h sum_j a_ij k_j`, and the step to `mu + h sum_i b_i k_i`."""

    tableau: Tableau = eqx.field(static=True)

    @property
    def ends_in_rate(self) -> bool:
        """Whether the last stage is at the end of the step."""
        return (*self.tableau.a[-1], 0.0) == self.tableau.b

    def step(self, rate: Rate, t0: Float[Array, ""], t1: Float[Array, ""], mu: Any, k: Any) -> Step:
        """One step; its stages are one loop, so that the field is compiled once for all of them."""
        h, table = t1 - t0, self.tableau
        a, b, c = (jnp.asarray(part, h.dtype) for part in (table.matrix, table.b, table.c))
        start, still = eqx.partition(mu, mu.moving())
        first, resting = eqx.partition(k, mu.moving())

        def at(weights, rates):
            return eqx.combine(plus(start, weights, rates), still)

        def stage(rates, row):
            i, weights, time = row
            new = rate(t0 + time * h, at(h * weights, rates))
            return put(rates, i, moving(new)), None

        rates = jax.tree.map(lambda leaf: leaf[None], first)
        if len(b) > 1:
            rates = put(none(start, len(b)), 0, first)
            rates, _ = jax.lax.scan(stage, rates, (jnp.arange(1, len(b)), a[1:], c[1:]))
        error, last = self._error(h, start, rates), None
        if self.ends_in_rate:
            last = eqx.combine(jax.tree.map(lambda leaf: leaf[-1], rates), resting)
        return Step(at(h * b, rates), None if error is None else eqx.combine(error, resting), last)

    def _error(self, h: Float[Array, ""], mu: Any, rates: Any) -> Any:
        if self.tableau.b_error is None:
            return None
        weights = h * jnp.asarray(self.tableau.b_error, h.dtype)
        return plus(jax.tree.map(jnp.zeros_like, mu), weights, rates)


@final
class Implicit(AbstractMethod):
    """A stiff method of diffrax, whose steps solve equations in all numbers of the measure."""

    method: Any
    """A `diffrax.AbstractImplicitSolver`."""

    def step(self, rate: Rate, t0: Float[Array, ""], t1: Float[Array, ""], mu: Any, k: Any) -> Step:
        """One step, which is not good when its equations were not solved."""
        import diffrax as dfx

        term = dfx.ODETerm(lambda t, mu, args: rate(t, mu))  # pyright: ignore[reportArgumentType]
        state = self.method.init(term, t0, t1, mu, None)
        mu, error, _, _, result = self.method.step(term, t0, t1, mu, None, state, jnp.array(False))
        return Step(mu, error, good=result == dfx.RESULTS.successful)


@final
class NoisyEuler(AbstractMethod):
    """Euler steps along geodesics with Brownian kicks: weak order 1 on any space, and never off it.

    The kicks are increments of one Brownian path over the whole run, so legs and step sizes share it.
    """

    path: Any
    """A `diffrax.AbstractBrownianPath`."""
    size: Float[Array, ""]

    def step(self, rate: Rate, t0: Float[Array, ""], t1: Float[Array, ""], mu: Any, k: Any) -> Step:
        """Drift and kick together along the geodesic."""
        return Step(mu.advance((t1 - t0) * k.points + self.size * self.path.evaluate(t0, t1)))


def none(mu: Any, count: int) -> Any:
    """Room for some tangents to a measure."""
    return jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), mu)


def put(rates: Any, i: Any, k: Any) -> Any:
    """Tangents with one of them replaced."""
    return jax.tree.map(lambda all_, new: all_.at[i].set(new), rates, k)


def plus(mu: Any, weights: Float[Array, " s"], rates: Any) -> Any:
    """A measure moved along a combination of tangents."""
    if len(weights) == 1:  # in a batch a product of matrices costs as much as the field
        return jax.tree.map(lambda leaf, k: leaf + weights[0] * k[0], mu, rates)
    return jax.tree.map(lambda leaf, k: leaf + jnp.tensordot(weights, k, axes=1), mu, rates)


def moving(mu: Any) -> Any:
    """The numbers of a measure, or of a tangent to it, that move."""
    return eqx.filter(mu, mu.moving())


def largest(tree: Any) -> Float[Array, ""]:
    """The largest absolute value of all numbers of a tree, in their own precision; NaN if one of them is."""
    return jnp.max(jnp.stack([jnp.abs(leaf).max() for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))]))
