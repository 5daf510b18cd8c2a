"""Weights of a linear network by their law, and how fast residual layers `y <- y (I + s W)` grow under them.

The growth of a row is the top Lyapunov exponent of `I + s W`. It is a formula for weights that stay the same, for Gaussian
ones, whose isotropy makes the growths of layers independent, and for weights that commute. Of weights with a bounded norm alone
there are bounds.
"""

import abc
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Inexact, PRNGKeyArray
from scipy.special import gammaln, psi

from measureflow import checks
from measureflow.fields.graphs import square
from measureflow.precision import keep_all


class Growth(NamedTuple):
    """Bounds of the exponents of growth per layer; where they are known, both are the same."""

    low: np.ndarray
    high: np.ndarray


class AbstractWeights(eqx.Module):
    """The law of the weights of a layer."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The number of features."""

    @property
    @abc.abstractmethod
    def at_ends(self) -> bool:
        """Whether on an interval of `s` the growth is largest at one of its ends."""

    @abc.abstractmethod
    def draw(self, key: PRNGKeyArray) -> Inexact[Array, "d d"]:
        """The weights of one layer."""

    @abc.abstractmethod
    def growth(self, s: np.ndarray) -> Growth:
        """The exponents of `I + s W`, for each `s`."""


@final
class FixedWeights(AbstractWeights):
    """One matrix for all layers: with eigenvalues `w_j` the growth is `log max_j |1 + s w_j|`, convex inside the logarithm.

    >>> mf.networks.FixedWeights(np.diag([1.0, -3.0])).growth(np.array([0.1, -0.1])).low.round(4).tolist()
    [0.0953, 0.2624]
    """

    W: Float[Array, "d d"] = eqx.field(converter=checks.floating)

    def __check_init__(self):
        square("W", self.W)
        checks.finite("W", self.W)

    @property
    def dim(self) -> int:
        """The number of features."""
        return len(self.W)

    @property
    def at_ends(self) -> bool:
        """Yes: each `|1 + s w_j|` is convex."""
        return True

    def draw(self, key: PRNGKeyArray) -> Inexact[Array, "d d"]:
        """The matrix."""
        return self.W

    def growth(self, s: np.ndarray) -> Growth:
        """The largest eigenvalue in size."""
        w = np.linalg.eigvals(np.asarray(self.W))
        return _exact(_log(np.abs(1 + s[:, None] * w).max(-1)))


@final
class GaussianWeights(AbstractWeights):
    """Independent entries `N(0, sigma^2)`, real or complex (Ginibre): `log|s sigma| + E log chi'^2_d(1/(s sigma)^2) / 2`.

    Each layer turns a row into `|y| (e + s sigma z)` with a normal `z`, whatever came before. The growth is zero up to
    exponentially small terms for two features, and negative for one if `s` is small: then nothing is smoothed.

    >>> mf.networks.GaussianWeights(4, 0.5).growth(np.array([1.0])).low.round(4).tolist()
    [0.2406]
    """

    features: int = eqx.field(static=True)
    sigma: Float[Array, ""] = eqx.field(converter=checks.floating, default=1.0)
    unitary: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        checks.count("features", self.features, 1)
        checks.positive("sigma", self.sigma)

    @property
    def dim(self) -> int:
        """The number of features."""
        return self.features

    @property
    def at_ends(self) -> bool:
        """Yes where the logarithm of the length is subharmonic, from two real features on."""
        return self.dim > 1 or self.unitary

    def draw(self, key: PRNGKeyArray) -> Inexact[Array, "d d"]:
        """Normal entries; `unitary` ones are complex, with half of the variance in each part."""
        kind = np.result_type(self.sigma.dtype, np.complex64) if self.unitary else self.sigma.dtype
        return self.sigma.astype(kind) * jax.random.normal(key, (self.dim, self.dim), kind)

    def growth(self, s: np.ndarray) -> Growth:
        """The mean of the logarithm of a noncentral chi."""
        scale, k = np.abs(s) * float(self.sigma), self.dim
        return _exact(log_length(scale / np.sqrt(2), 2 * k) if self.unitary else log_length(scale, k))


@final
class CommutingWeights(AbstractWeights):
    """Weights `Q diag(w) Q^T` with `w_j ~ N(mean_j, sigma^2)` drawn anew in each layer: `max_j E log|1 + s w_j|`.

    They are diagonal in one basis `Q`, the identity unless given.

    >>> mf.networks.CommutingWeights([1.0, -3.0], 1e-9).growth(np.array([0.1, -0.1])).low.round(4).tolist()
    [0.0953, 0.2624]
    """

    means: Float[Array, " d"] = eqx.field(converter=checks.floating)
    sigma: Float[Array, ""] = eqx.field(converter=checks.floating, default=1.0)
    Q: Float[Array, "d d"] | None = eqx.field(
        converter=lambda Q: None if Q is None else checks.floating(Q), default=None
    )

    def __check_init__(self):
        checks.shaped("means", self.means, ("d",), "There is one mean for each eigenvalue.")
        checks.positive("sigma", self.sigma)

    @property
    def dim(self) -> int:
        """The number of features."""
        return len(self.means)

    @property
    def at_ends(self) -> bool:
        """No: a mean of logarithms may be largest in between."""
        return False

    def draw(self, key: PRNGKeyArray) -> Inexact[Array, "d d"]:
        """One draw of the eigenvalues, in the basis."""
        w = self.means + self.sigma * jax.random.normal(key, self.means.shape, self.means.dtype)
        return jnp.diag(w) if self.Q is None else (self.Q * w[None]) @ self.Q.T

    def growth(self, s: np.ndarray) -> Growth:
        """The largest of the means of logarithms, `E log|a + b z| = log|a| + E log|1 + (b/a) z|`."""
        s = s[:, None]
        a, b = 1 + s * np.asarray(self.means), np.broadcast_to(np.abs(s) * float(self.sigma), s.shape)
        a = np.where(a == 0, np.finfo(float).tiny, np.abs(a))
        return _exact((np.log(a) + log_length(b / a, 1)).max(-1))


@final
class BoundedWeights(AbstractWeights):
    """Random weights with an operator norm of `norm`: the growth lies between `log(1 - |s| norm)` and `log(1 + |s| norm)`.

    Draws are Gaussian matrices divided by their norms. The bounds hold for any weights of at most this norm.

    >>> mf.networks.BoundedWeights(4, 0.5).growth(np.array([1.0])).high.round(4).tolist()
    [0.4055]
    """

    features: int = eqx.field(static=True)
    norm: Float[Array, ""] = eqx.field(converter=checks.floating, default=1.0)

    def __check_init__(self):
        checks.count("features", self.features, 1)
        checks.positive("norm", self.norm)

    @property
    def dim(self) -> int:
        """The number of features."""
        return self.features

    @property
    def at_ends(self) -> bool:
        """No: the lower bound is largest at zero."""
        return False

    def draw(self, key: PRNGKeyArray) -> Inexact[Array, "d d"]:
        """A normal matrix with the given norm."""
        G = jax.random.normal(key, (self.dim, self.dim), self.norm.dtype)
        return self.norm * G / jnp.linalg.norm(G, 2)

    def growth(self, s: np.ndarray) -> Growth:
        """The bounds."""
        reach = np.abs(s) * float(self.norm)
        return Growth(_log(np.maximum(1 - reach, 0.0)), np.log1p(reach))


def log_length(s: np.ndarray, k: int) -> np.ndarray:
    """The mean of `log|e + s z|` for a unit vector `e` and a standard normal `z` of `k` coordinates.

    It is `log s + E log chi'^2_k(1/s^2) / 2`, with `E log chi'^2_k(m) = sum_p Poisson(p; m/2) (psi(k/2 + p) + log 2)`. For two
    coordinates it is `E_1(1/(2 s^2)) / 2`. Where `s` is small the sum is long, and a series in `s^2` is exact to 1e-13.
    """
    different, where = np.unique(s, return_inverse=True)
    values = [
        _series(one, k) if one**2 * (k + 8) < 1e-3 else np.log(one) + _log_chi_square(1 / one**2, k) / 2
        for one in different
    ]
    return np.array(values)[where].reshape(s.shape)


def _series(s: float, k: int) -> float:
    """Powers of half the Laplacian, of which `log|x|` gives `(k - 2) / |x|^2` and so on."""
    return s**2 * (k - 2) * (1 / 2 - s**2 * (k - 4) * (1 / 4 - s**2 * (k - 6) / 6))


def _log_chi_square(m: float, k: int) -> float:
    """The sum over all terms within twelve deviations of the Poisson law."""
    reach = 12 * np.sqrt(m / 2) + 60
    p = np.arange(max(0.0, np.floor(m / 2 - reach)), np.ceil(m / 2 + reach) + 1)
    law = np.exp(p * np.log(m / 2) - m / 2 - gammaln(p + 1))
    return float(law @ (psi(k / 2 + p) + np.log(2)) / law.sum())


def _exact(growth: np.ndarray) -> Growth:
    return Growth(growth, growth)


def _log(x: np.ndarray) -> np.ndarray:
    """The logarithm, minus infinity at zero."""
    return np.log(x, out=np.full(np.shape(x), -np.inf), where=np.asarray(x) > 0)


keep_all(globals())
