"""Activations with their averages over normal laws: what a neuron with Gaussian parameters makes of an input.

The score of such a neuron is normal, so its mean output needs only `A(m, v) = E s(Z)` and `A_1(m, v) = E s'(Z) = dA/dm` for
`Z ~ N(m, v)`. Nine activations have both in closed form; any other function has them by Gauss-Hermite quadrature. The second
number is the variance rather than its root, because averages are smooth in it; at zero they are the function and its slope,
and so are their derivatives, so that gradients stay finite where a covariance vanishes.
"""

import abc
from collections.abc import Callable
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, ndtr
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.precision import keep_all

NODES = 64
"""Nodes of the quadrature: tanh and the logistic function are averaged to 1e-9 and 1e-15 at unit variance, and to 1e-5 and 1e-10
at variance four."""
CERTAIN = 1600.0
"""Forty standard deviations, squared: beyond them the normal density is zero in floating point."""

Values = Float[Array, "*s"]


class AbstractActivation(eqx.Module):
    """A function of one number, applied to each entry, that knows its averages over normal laws."""

    @property
    def exact(self) -> bool:
        """Whether the averages are closed forms."""
        return True

    @abc.abstractmethod
    def __call__(self, z: Values) -> Values:
        """The function."""

    @abc.abstractmethod
    def average(self, m: Values, v: Values) -> Values:
        """The mean of the function over the normal law of mean `m` and variance `v`."""

    @abc.abstractmethod
    def slope(self, m: Values, v: Values) -> Values:
        """The mean of its derivative, which is the derivative of the mean in `m`."""


class Gate(NamedTuple):
    """The chance `P(Z > 0)` and the density term `sqrt(v) phi(m / sqrt(v))`, which are a step and zero without variance."""

    chance: Values
    spill: Values


def _gate(m: Values, v: Values) -> Gate:
    # Inside, both ways of `where` are finite: a derivative meets no division by zero.
    wide = (v > 0) & (m**2 < CERTAIN * v)
    s = jnp.sqrt(jnp.where(wide, v, 1.0))
    r = jnp.where(wide, m, 0.0) / s
    certain = jnp.where(m > 0, 1.0, 0.0).astype(m.dtype)
    return Gate(jnp.where(wide, ndtr(r), certain), jnp.where(wide, s * _density(r), 0.0))


def _density(r: Values) -> Values:
    return jnp.exp(-(r**2) / 2) / jnp.sqrt(2 * jnp.pi).astype(r.dtype)


@final
class ReLU(AbstractActivation):
    """The positive part: `A = m Phi(r) + s phi(r)` and `A_1 = Phi(r)` with `r = m/s`.

    >>> relu = mf.training.ReLU()
    >>> round(float(relu.average(jnp.array(0.0), jnp.array(2 * np.pi))), 3)  # half the mean of |Z|
    1.0
    """

    def __call__(self, z: Values) -> Values:
        """What is above zero."""
        return jax.nn.relu(z)

    def average(self, m: Values, v: Values) -> Values:
        """The chance of being positive times the mean, and what the density adds."""
        gate = _gate(m, v)
        return m * gate.chance + gate.spill

    def slope(self, m: Values, v: Values) -> Values:
        """The chance of being positive."""
        return _gate(m, v).chance


@final
class SquaredReLU(AbstractActivation):
    """The square of the positive part: `A = (m^2 + s^2) Phi(r) + m s phi(r)`."""

    def __call__(self, z: Values) -> Values:
        """The square of what is above zero."""
        return jax.nn.relu(z) ** 2

    def average(self, m: Values, v: Values) -> Values:
        """Second moments of the positive part."""
        gate = _gate(m, v)
        return (m**2 + v) * gate.chance + m * gate.spill

    def slope(self, m: Values, v: Values) -> Values:
        """Twice the average of the positive part."""
        return 2 * ReLU().average(m, v)


@final
class LeakyReLU(AbstractActivation):
    """The positive part and a `leak` times the negative one: `A = leak m + (1 - leak) (m Phi(r) + s phi(r))`."""

    leak: float = eqx.field(static=True, default=0.01)

    def __call__(self, z: Values) -> Values:
        """Slope one above zero and the leak below."""
        return jax.nn.leaky_relu(z, self.leak)

    def average(self, m: Values, v: Values) -> Values:
        """Both parts."""
        return self.leak * m + (1 - self.leak) * ReLU().average(m, v)

    def slope(self, m: Values, v: Values) -> Values:
        """Both slopes by their chances."""
        return self.leak + (1 - self.leak) * ReLU().slope(m, v)


@final
class Erf(AbstractActivation):
    """The error function: `A = erf(m / sqrt(1 + 2 s^2))`."""

    def __call__(self, z: Values) -> Values:
        """The error function itself."""
        return erf(z)

    def average(self, m: Values, v: Values) -> Values:
        """The same function, less steep."""
        return erf(m / jnp.sqrt(1 + 2 * v))

    def slope(self, m: Values, v: Values) -> Values:
        """A wider normal density."""
        width = 1 + 2 * v
        return 2 / jnp.sqrt(jnp.pi * width) * jnp.exp(-(m**2) / width)


@final
class Probit(AbstractActivation):
    """The distribution function of the normal law: `A = Phi(q)` with `q = m / sqrt(1 + s^2)`."""

    def __call__(self, z: Values) -> Values:
        """The chance that a standard normal number is smaller."""
        return ndtr(z)

    def average(self, m: Values, v: Values) -> Values:
        """The same function, less steep."""
        return ndtr(m / jnp.sqrt(1 + v))

    def slope(self, m: Values, v: Values) -> Values:
        """A wider normal density."""
        width = jnp.sqrt(1 + v)
        return _density(m / width) / width


@final
class GELU(AbstractActivation):
    """The number times its chance, `z Phi(z)`, not its approximation by tanh: `A = m Phi(q) + s^2 phi(q) / sqrt(1 + s^2)`."""

    def __call__(self, z: Values) -> Values:
        """The exact one."""
        return z * ndtr(z)

    def average(self, m: Values, v: Values) -> Values:
        """With `q = m / sqrt(1 + s^2)`."""
        width = jnp.sqrt(1 + v)
        return m * ndtr(m / width) + v / width * _density(m / width)

    def slope(self, m: Values, v: Values) -> Values:
        """`Phi(q) + m phi(q) / (1 + s^2)^{3/2}`."""
        width = jnp.sqrt(1 + v)
        return ndtr(m / width) + m / width**3 * _density(m / width)


@final
class Sine(AbstractActivation):
    """The sine: `A = e^{-s^2/2} sin m`."""

    def __call__(self, z: Values) -> Values:
        """The sine itself."""
        return jnp.sin(z)

    def average(self, m: Values, v: Values) -> Values:
        """A damped sine."""
        return jnp.exp(-v / 2) * jnp.sin(m)

    def slope(self, m: Values, v: Values) -> Values:
        """A damped cosine."""
        return jnp.exp(-v / 2) * jnp.cos(m)


@final
class Cosine(AbstractActivation):
    """The cosine: `A = e^{-s^2/2} cos m`."""

    def __call__(self, z: Values) -> Values:
        """The cosine itself."""
        return jnp.cos(z)

    def average(self, m: Values, v: Values) -> Values:
        """A damped cosine."""
        return jnp.exp(-v / 2) * jnp.cos(m)

    def slope(self, m: Values, v: Values) -> Values:
        """Minus a damped sine."""
        return -jnp.exp(-v / 2) * jnp.sin(m)


@final
class Exponential(AbstractActivation):
    """The exponential: `A = e^{m + s^2/2}`, its own derivative."""

    def __call__(self, z: Values) -> Values:
        """The exponential itself."""
        return jnp.exp(z)

    def average(self, m: Values, v: Values) -> Values:
        """The mean of a log-normal number."""
        return jnp.exp(m + v / 2)

    def slope(self, m: Values, v: Values) -> Values:
        """The same."""
        return jnp.exp(m + v / 2)


@final
class Quadrature(AbstractActivation):
    """Any function, with averages by a Gauss-Hermite rule of so many `nodes`: good for smooth ones, rough at a kink."""

    function: Callable[[Array], Array] = eqx.field(static=True)
    nodes: int = eqx.field(static=True, default=NODES)

    def __check_init__(self):
        checks.count("nodes", self.nodes, 2)

    @property
    def exact(self) -> bool:
        """Quadrature is not a closed form."""
        return False

    def __call__(self, z: Values) -> Values:
        """The function itself."""
        return self.function(z)

    def average(self, m: Values, v: Values) -> Values:
        """The weighted sum of its values at the nodes."""
        return self._sum(self.function, m, v)

    def slope(self, m: Values, v: Values) -> Values:
        """The weighted sum of its derivatives there."""
        return self._sum(lambda z: jax.jvp(self.function, (z,), (jnp.ones_like(z),))[1], m, v)

    def _sum(self, function: Callable[[Array], Array], m: Values, v: Values) -> Values:
        wide = v > 0
        s = jnp.where(wide, jnp.sqrt(jnp.where(wide, v, 1.0)), 0.0)
        nodes, weights = np.polynomial.hermite_e.hermegauss(self.nodes)
        values = jax.vmap(lambda z: function(m + s * z))(jnp.asarray(nodes, m.dtype))
        return jnp.tensordot(jnp.asarray(weights / weights.sum(), m.dtype), values, 1)


KNOWN: dict[Callable[..., Array], AbstractActivation] = {
    jax.nn.relu: ReLU(),
    jax.nn.leaky_relu: LeakyReLU(),
    jax.scipy.special.erf: Erf(),
    jax.lax.erf: Erf(),
    jax.scipy.special.ndtr: Probit(),
    jnp.sin: Sine(),
    jnp.cos: Cosine(),
    jnp.exp: Exponential(),
}
"""Functions of JAX that have a closed form; its GELU is an approximation by default, which has none."""


def averaged(function: Callable[[Array], Array]) -> AbstractActivation:
    """The activation that a function is: itself, one of the closed forms, or by quadrature."""
    return function if isinstance(function, AbstractActivation) else KNOWN.get(function) or Quadrature(function)


keep_all(globals())
