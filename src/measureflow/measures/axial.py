"""Densities on the sphere of any dimension that depend on one coordinate: the PDE becomes one-dimensional.

With `z` the first coordinate, a density that is symmetric about the first axis is a function `g(z)` times the uniform law, and
is kept as its moments `c_k = ∫ p_k(z) dμ` with the orthonormal (Gegenbauer) polynomials of the law of `z`. They move at the
rates `∫ p_k'(z) z' dμ`, and the heat equation multiplies them by `e^{-k(k + d - 2) t}`. A covector `a` sees such a measure as if
it lay in a half plane, through `a_1` and the length of the rest: the scores are `a_1 z + |a_rest| s u` with `s² = 1 - z²` and
`u` the first coordinate of a uniform point of the sphere of one dimension less.
"""

import functools
from collections.abc import Callable
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Number, Numbers, RandomKey
from measureflow.measures.cloud import AbstractSampled, as_key
from measureflow.measures.density import AbstractGrid, AbstractSpectral, check_density, exponential_sums, lost
from measureflow.measures.particles import Particles
from measureflow.spaces import Sphere
from measureflow.sums import Attended, Blockwise

ACROSS = 32
"""Nodes for the angle about the axis: exact to rounding for scores up to about 40."""


class HalfPlane(AbstractGrid):
    """The nodes `(z, s u)` on which covectors see a measure that is symmetric about an axis."""

    def __init__(self, z: np.ndarray, z_weights: np.ndarray, dim: int):
        u, u_weights = gegenbauer_rule(dim - 1, ACROSS)
        s = np.sqrt(1 - z**2)
        self.nodes = np.stack([np.repeat(z, len(u)), np.outer(s, u).ravel()], axis=1)
        self.weights = np.outer(z_weights, u_weights).ravel()
        self.across, self.shares = u, u_weights


class Meridian(AbstractGrid):
    """Gauss nodes along half a great circle from pole to pole, for products of two densities of a degree.

    `polynomials[k, i]` are the `p_k` at the nodes and `slopes` their derivatives.
    """

    def __init__(self, dim: int, degree: int):
        self.z, self.weights = gegenbauer_rule(dim, 3 * degree // 2 + 2)
        self.nodes = np.zeros((len(self.z), dim))
        self.nodes[:, 0], self.nodes[:, 1] = self.z, np.sqrt(1 - self.z**2)
        self.polynomials, self.slopes = gegenbauer(dim, degree, self.z)
        self.half_plane = HalfPlane(self.z, self.weights, dim)

    @functools.cached_property
    def everywhere(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights all around the axis: exact for polynomials of degree three in the other coordinates."""
        dim = self.nodes.shape[1]
        across = np.concatenate([np.eye(dim)[1:], -np.eye(dim)[1:]])
        points = self.z[:, None, None] * np.eye(dim)[0] + np.sqrt(1 - self.z**2)[:, None, None] * across
        return points.reshape(-1, dim), np.repeat(self.weights / len(across), len(across))


@functools.cache
def meridian(dim: int, degree: int) -> Meridian:
    """The grid for a dimension and a degree, one object for each so that nothing compiles twice."""
    if dim < 2:
        raise ValueError(f"`dim` counts ambient coordinates, so it needs at least 2; got {dim}.")
    if degree < 1:
        raise ValueError(f"`degree` must be at least 1; got {degree}.")
    return Meridian(dim, degree)


@final
class AxialDensity(AbstractSpectral, AbstractSampled):
    """A density on the unit sphere of `R^dim` that is symmetric about the first axis.

    `values` are densities with respect to the uniform law, at the nodes of `meridian(dim, degree)`. Only fields that keep the
    symmetry can move it. `integrate` is exact for functions of degree up to three in the other coordinates.

    >>> mu = mf.AxialDensity.from_function(lambda z: 1 + z, dim=4, degree=4)
    >>> mu
    AxialDensity(A density about an axis of S³)
    >>> round(float(mu.expect(lambda x: x[0])), 3)
    0.25
    """

    tilt: Float[Array, "*frames n"] | None
    moments: Float[Array, "*frames k"]
    finest: ClassVar[int] = 512
    dim: int = eqx.field(static=True)

    def __init__(self, values: Numbers, dim: int, degree: int):
        values, grid = checks.floating(values), meridian(dim, degree)
        checks.shaped(
            "values", values, (len(grid.z),), f"They are the density at the nodes of `meridian({dim}, {degree})`."
        )
        check_density(values, grid.weights)
        self.tilt, self.dim = None, dim
        self.moments = jnp.asarray(grid.polynomials * grid.weights, values.dtype) @ values
        off = lost(self.values, values)
        if off > 1e-6:
            raise ValueError(
                f"`degree` {degree} resolves the density only to {off:.2g} of its maximum; take a higher one."
            )

    @property
    def described(self) -> str:
        """What, and where."""
        return f"A density about an axis of {self.space.symbol}"

    @staticmethod
    def uniform(dim: int, degree: int) -> "AxialDensity":
        """The uniform density."""
        return AxialDensity(np.ones(len(meridian(dim, degree).z)), dim, degree)

    @staticmethod
    def from_function(
        density: Callable[[Float[Array, " n"]], Float[Array, " n"]], dim: int, degree: int
    ) -> "AxialDensity":
        """The density given as a function of the first coordinate, with respect to the uniform law.

        For example `AxialDensity.from_function(lambda z: 1 + 0.5 * z, dim=5, degree=16)`.
        """
        return AxialDensity(density(jnp.asarray(meridian(dim, degree).z, float)), dim, degree)

    @property
    def space(self) -> Sphere:
        """The sphere."""
        return Sphere(self.dim)

    @property
    def grid(self) -> Meridian:
        """The nodes along half a great circle."""
        return meridian(self.dim, self.degree)

    @property
    def values(self) -> Float[Array, "*frames n"]:
        """The density at the nodes, with respect to the uniform law."""
        return self.moments @ jnp.asarray(self.grid.polynomials, self.moments.dtype)

    @property
    def engine_name(self) -> str:
        """Sums are a quadrature over height and angle."""
        return "quadrature"

    def attend(self, covectors: Float[Array, "m d"]) -> Attended:
        """The sums in the half plane, turned back to the direction of each covector."""
        (masses, height), (a, across) = self._tilted(), folded(covectors)
        plane = self.grid.half_plane
        nodes = jnp.asarray(plane.nodes, a.dtype)
        W = self._spread(masses)[:, None] * jnp.concatenate([jnp.ones_like(nodes[:, :1]), nodes], axis=1)
        shift = jax.lax.stop_gradient(jnp.linalg.norm(covectors, axis=-1))
        T = exponential_sums(plane, a, shift, W)
        return Attended(shift + height + jnp.log(T[:, 0]), unfolded(T[:, 1:] / T[:, :1], across))

    def ridge(
        self, kernel: Callable[[Float[Array, "*s"]], Float[Array, "*s"]], covectors: Float[Array, "m d"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
        """The sums in the half plane for a kernel of the score."""
        (masses, height), (a, across) = self._tilted(), folded(covectors)
        nodes = jnp.asarray(self.grid.half_plane.nodes, a.dtype)
        masses = jnp.exp(height) * self._spread(masses)

        def row(a):
            share = masses * kernel(nodes @ a)
            return share.sum(), share @ nodes

        mass, moment = Blockwise().rows(row, len(nodes), a)
        return mass, unfolded(moment, across)

    def integrate(self, integrand: Callable[[Float[Array, "m d"]], Float[Array, "m *shape"]]) -> Float[Array, "*shape"]:
        """The quadrature over nodes all around the axis."""
        masses, height = self._tilted()
        points, weights = (jnp.asarray(part, masses.dtype) for part in self.grid.everywhere)
        count = len(weights) // len(masses)
        share = jnp.repeat(jnp.exp(height) * masses, count) / count
        return jnp.tensordot(share, integrand(points), axes=1)

    def transport(self, velocity: Callable[[Float[Array, "m d"]], Float[Array, "m d"]]) -> "AbstractSpectral":
        """The rate of the moments, `∫ p_k'(z) z' dμ`."""
        return self._with(
            jnp.asarray(self.grid.slopes, self.moments.dtype) @ (self.masses * _rise(self.nodes, velocity))
        )

    def admit(self, field: Callable[..., Array], t: Number) -> None:
        """Refuse a field that moves two meridians differently."""
        other = np.cos(np.arange(1.0, self.dim)) if self.dim > 2 else -np.ones(1)
        turned = np.outer(np.sqrt(1 - self.grid.z**2), other / np.linalg.norm(other))
        meridians = self.nodes, jnp.asarray(np.concatenate([self.grid.z[:, None], turned], 1), self.moments.dtype)
        here, there = (_rise(nodes, lambda xs: field(t, xs, self)) for nodes in meridians)
        scale = 1e3 * jnp.finfo(here.dtype).eps * (1 + jnp.abs(here).max())
        if checks.concrete(here) and bool(jnp.abs(here - there).max() > scale):
            raise ValueError(
                "`field` is not symmetric about the first axis, so the density would not stay so. Use `mf.SphereDensity` in "
                "three dimensions, `mf.CircleDensity` in two, or `mf.Particles`."
            )

    def sample(self, n: int, *, key: RandomKey) -> Particles:
        """Independent tokens: a height by mass, uniform between the nodes, and a uniform direction about the axis."""
        height_key, turn_key = jax.random.split(as_key(key))
        angles = jnp.arccos(self.nodes[:, 0])[::-1]
        edges = jnp.concatenate([jnp.zeros(1), (angles[1:] + angles[:-1]) / 2, jnp.full(1, jnp.pi)]).astype(
            angles.dtype
        )
        below = jnp.concatenate([jnp.zeros(1, angles.dtype), jnp.cumsum(self.masses[::-1])])
        angle = jnp.interp(jax.random.uniform(height_key, (n,), angles.dtype) * below[-1], below, edges)
        turn = jax.random.normal(turn_key, (n, self.dim - 1), angles.dtype)
        turn = turn / jnp.linalg.norm(turn, axis=-1, keepdims=True)
        points = jnp.concatenate([jnp.cos(angle)[:, None], jnp.sin(angle)[:, None] * turn], axis=1)
        return Particles(self.space, points)

    def _spread(self, masses: Float[Array, " n"]) -> Float[Array, " N"]:
        return jnp.outer(masses, jnp.asarray(self.grid.half_plane.shares, masses.dtype)).ravel()

    @property
    def eigenvalues(self) -> Float[Array, " k"]:
        """Those of the polynomials of the height, `k(k + d - 2)`."""
        k = jnp.arange(self.moments.shape[-1], dtype=self.moments.dtype)
        return k * (k + self.dim - 2)


def _rise(nodes: Float[Array, "n d"], velocity: Callable) -> Float[Array, " n"]:
    """The speed of the first coordinate, `<v, e_1 - z x>`."""
    v = velocity(nodes)
    checks.shaped("velocity", v, nodes.shape, "A field on the sphere has as many coordinates as its points.")
    return v[:, 0] - nodes[:, 0] * (nodes * v).sum(-1)


def folded(a: Float[Array, "m d"]) -> tuple[Float[Array, "m 2"], Float[Array, "m e"]]:
    """Covectors as `(a_1, |rest|)`, and the directions of the rest, zero where there is none."""
    square = (a[:, 1:] ** 2).sum(-1)
    some = square > 0
    length = jnp.sqrt(jnp.where(some, square, 1.0))
    return jnp.stack([a[:, 0], jnp.where(some, length, 0.0)], axis=1), a[:, 1:] / length[:, None]


def unfolded(pairs: Float[Array, "m 2"], across: Float[Array, "m e"]) -> Float[Array, "m d"]:
    """Vectors of the half plane turned back to directions across the axis."""
    return jnp.concatenate([pairs[:, :1], pairs[:, 1:] * across], axis=1)


def _recurrence(dim: int, count: int) -> np.ndarray:
    """The `b_k` of `z p_k = b_{k+1} p_{k+1} + b_k p_{k-1}`, from `b_1 = dim^{-1/2}` on."""
    k, half = np.arange(2.0, count + 1), dim / 2 - 1
    return np.sqrt(np.concatenate([[1 / dim], k * (k + 2 * half - 1) / (4 * (k + half) * (k + half - 1))]))


def gegenbauer_rule(dim: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes and weights for the first coordinate of a uniform point on the unit sphere of `R^dim`."""
    if dim == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    b = _recurrence(dim, count - 1)
    nodes, vectors = np.linalg.eigh(np.diag(b, 1) + np.diag(b, -1))
    return nodes, vectors[0] ** 2


def gegenbauer(dim: int, degree: int, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The polynomials `p_k` of mean square one for the first coordinate of a uniform point, and their derivatives, `[k, i]`."""
    b = _recurrence(dim, max(degree, 1))
    p, q = np.zeros((2, degree + 1, len(z)))
    p[0] = 1.0
    for k in range(degree):
        before = (b[k - 1] * p[k - 1], b[k - 1] * q[k - 1]) if k else (0.0, 0.0)
        p[k + 1], q[k + 1] = (z * p[k] - before[0]) / b[k], (p[k] + z * q[k] - before[1]) / b[k]
    return p, q


def gegenbauer_at(dim: int, degree: int, z: Float[Array, " n"]) -> Float[Array, "k n"]:
    """The polynomials `p_k` at heights that may be traced."""
    b = jnp.asarray(_recurrence(dim, max(degree, 1)), z.dtype)

    def up(carry, row):
        (last, now), (below, above) = carry, row
        return (now, (z * now - below * last) / above), now

    below = jnp.concatenate([jnp.zeros(1, b.dtype), b])
    rows = below[: degree + 1], jnp.append(b, b[-1:])[: degree + 1]  # what comes after the last is not used
    return jax.lax.scan(up, (jnp.zeros_like(z), jnp.ones_like(z)), rows)[1]
