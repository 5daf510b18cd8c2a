"""Tokens on the circle with any odd interaction: when all of them meet, and which polygons hold them apart.

Tokens turn at the rate `θ_i' = (1/n) sum_j f(θ_j - θ_i)` with `f` odd, of period 2π, and attracting, `f'(0) > 0`. The
criterion of polyanskiy:25 looks at the third derivative: if `f' < 0` outside `[-τ, τ]` and `τ ∫(f''')_+ <= 4 (1 + τ/2π) f'(0)`,
almost every start ends in one point. Regular polygons are at rest for every such `f`; where one of them attracts, tokens do
not always meet. Unnormalised attention on the circle is `f(x) = e^{β cos x} sin x`. Derivatives are automatic, so `f` is a JAX
function of one angle, three times differentiable.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, Float
from typing_extensions import TypeAliasType

from measureflow.annotations import Numbers, Values

Scalar = Float[Array, ""]
Interaction = TypeAliasType("Interaction", Callable[[Scalar], Scalar])

CELLS = 2048
"""Of half a circle. Attention up to beta = 1e3 has twenty of them in the width of its kernel."""

_HALVINGS = 60
"""Halvings of an interval that reach rounding."""
_FEW_HALVINGS = 16
"""Halvings for the ends of an interval on which f'' rises: f'' is flat there, so a place known to 1e-8 is as good."""
_TRIED = 64


def attention(x: Numbers, beta: Numbers) -> Values:
    """The interaction of unnormalised attention on the circle: e^{beta cos x} sin x, the sine at beta = 0."""
    x, beta = jnp.asarray(x, float), jnp.asarray(beta, float)
    return jnp.exp(beta * jnp.cos(x)) * jnp.sin(x)


def kernel(f: Interaction) -> Callable[[Values], Values]:
    """The kernel of the inner product that turns tokens as an interaction does: k(cos x) = f(x) / sin x.

    `KernelAttention(kernel(f))` on `Sphere(2)` moves tokens by `f`. At the ends, where the sine vanishes, k(1) = f'(0) and
    k(-1) = -f'(π): e^{beta} and e^{-beta} for `attention`.
    """
    check(f)

    def of(score):
        score = jnp.clip(score, -1.0, 1.0)
        angle = jnp.arccos(score)
        sine = jnp.sin(angle)  # not the root of 1 - score^2: near -1 it is the rounded angle that f sees
        ends = jnp.where(score > 0, jax.grad(f)(0.0), -jax.grad(f)(jnp.pi))
        inside = sine > 1e-6  # nearer to an end the kernel differs from its limit by the square
        return jnp.where(inside, jnp.vectorize(f)(angle) / jnp.where(inside, sine, 1.0), ends)

    return of


class Criterion(NamedTuple):
    """What the third derivative says of an interaction; `margin` is NaN where there is no `tau`."""

    tau: Scalar
    """Half the arc outside of which the interaction falls, the least there is."""
    slope: Scalar
    """f'(0)."""
    rise: Scalar
    """∫(f''')_+ over the circle, half the L1 norm of f'''."""
    margin: Scalar
    """4 (1 + tau/2π) - tau rise / slope; almost all starts synchronise if it is not negative."""

    @property
    def holds(self) -> bool:
        """Whether the criterion shows synchronization."""
        return bool(self.margin >= 0)

    def __str__(self) -> str:
        if not bool(jnp.isfinite(self.tau)):
            return "There is no arc outside of which f' is negative, so the criterion does not apply."
        word = "holds" if self.holds else "does not hold"
        return f"The criterion {word}, with the margin {float(self.margin):.4g} at tau = {float(self.tau):.4g}."


def criterion(f: Interaction) -> Criterion:
    """The third-derivative criterion for global synchronization.

    Kuramoto's sine has tau = π/2, rise 2 and slope 1, so the margin 5 - π. The margin falls with tau, because
    rise >= (4/π) slope; so the least tau is the best. It is found on a grid and refined, and f' < 0 beyond it is checked between
    grid points by f''' there; if it fails, tau is NaN. The rise is a sum of rises of f'' between zeros of f''', so
    it is exact to rounding once the grid separates these. Holds for odd periodic f with f'(0) > 0 (polyanskiy:25).
    """
    check(f)

    @jax.jit
    def judged():
        first, second, third = _derivatives(f)
        tau, slope, rise = _last_zero(first, second, third), first(jnp.zeros(())), _rise(second, third)
        return Criterion(tau, slope, rise, 4 * (1 + tau / (2 * jnp.pi)) - tau * rise / slope)

    return judged()


def attention_tau(beta: Numbers) -> Values:
    """The angle at which attention pulls most: cos tau = (sqrt(4 beta^2 + 1) - 1) / (2 beta), so π/2 at beta = 0."""
    beta = jnp.asarray(beta, float)
    return jnp.arccos(2 * beta / (jnp.sqrt(4 * beta**2 + 1) + 1))


class Polygon(NamedTuple):
    """The eigenvalues of equal clusters at the corners of a regular polygon; a turn of all tokens is left out."""

    within: Scalar
    """Of tokens that leave their cluster."""
    between: Float[Array, " k"]
    """Of clusters that move as wholes, for the waves around the polygon."""

    @property
    def top(self) -> Scalar:
        """The largest eigenvalue: negative where the polygon attracts."""
        return jnp.maximum(self.within, self.between.max())


def polygon(f: Interaction, corners: int) -> Polygon:
    """The rates at which disturbances of a regular polygon of equal clusters grow.

    -(1/q) sum_m f'(2πm/q) within a cluster and (1/q) sum_m f'(2πm/q) (cos(2πkm/q) - 1) for the wave k = 1, ..., q-1 of clusters.
    Two clusters under the sine: within 0, between 1. One cluster has no `between`, and -f'(0) within.
    """
    check(f)
    _check_corners(corners)
    return jax.jit(lambda: _polygon(jax.vmap(jax.grad(f))(_corners(corners))))()


def polygon_threshold(corners: int) -> Scalar:
    """The beta below which a regular polygon attracts under `attention`; NaN for an even number of corners, which never does.

    -2/3 for the triangle, where f'(2π/3) = e^{-beta/2} (-1/2 - 3 beta/4) changes its sign; -2.13 for the pentagon. Derived for
    odd numbers from three on; the top eigenvalue changes its sign once.
    """
    _check_corners(corners, least=3)
    return _threshold(corners) if corners % 2 else jnp.asarray(jnp.nan)


def check(f: Interaction) -> None:
    """Refuse an interaction that is not odd, not periodic, or does not attract near tokens; traced ones are trusted."""

    @jax.jit
    def tried():
        x = jnp.linspace(0.0, 0.99 * jnp.pi, _TRIED)
        return *(jax.vmap(f)(angles) for angles in (x, -x, x + 2 * jnp.pi)), jax.grad(f)(0.0)

    here, behind, around, slope = tried()
    if isinstance(here, Tracer):
        return
    size = float(jnp.abs(here).max())
    near = 1e-9 * size if here.dtype == jnp.float64 else 1e-4 * size
    if not bool(jnp.isfinite(here).all()):
        raise ValueError("`f` is not finite on the circle; scale it, since only its shape matters.")
    if (off := float(jnp.abs(here + behind).max())) > near:
        raise ValueError(f"`f` must be odd, f(-x) = -f(x), as forces between two tokens are; it is off by {off:.3g}.")
    if (off := float(jnp.abs(here - around).max())) > near:
        raise ValueError(f"`f` must have the period 2π of the angle between two tokens; it is off by {off:.3g}.")
    if not float(slope) > 0:
        raise ValueError(
            f"`f` must attract near tokens, f'(0) > 0; got f'(0) = {float(slope):.3g}. Tokens cannot meet."
        )


def _derivatives(f: Interaction) -> tuple[Interaction, Interaction, Interaction]:
    first = jax.grad(f)
    second = jax.grad(first)
    return first, second, jax.grad(second)


def _last_zero(first: Interaction, second: Interaction, third: Interaction) -> Scalar:
    """The last sign change of f' on the half circle; NaN unless f' is negative from there to the antipode."""
    x = jnp.linspace(0.0, jnp.pi, CELLS + 1)
    negative = jax.vmap(first)(x) < 0
    last = CELLS - jnp.argmax(~negative[::-1])  # the last grid point where it is not
    tau = _bisect(lambda x: first(x) >= 0, x[last], x[jnp.minimum(last + 1, CELLS)])
    beyond = jnp.linspace(tau, jnp.pi, CELLS + 1)
    value, bend = jax.vmap(first)(beyond), jnp.abs(jax.vmap(third)(beyond))
    cell = (jnp.pi - tau) / CELLS
    between = jnp.maximum(value[1:], value[:-1]) + cell**2 / 8 * jnp.maximum(bend[1:], bend[:-1])
    falls = (second(tau) < 0) & (second(beyond[1]) < 0)  # in the first cell, where f' begins at zero
    return jnp.where(falls & (between[1:] < 0).all() & (last < CELLS), tau, jnp.nan)


def _rise(second: Interaction, third: Interaction) -> Scalar:
    """How much f'' rises around the circle: twice the sum over the half circle, cut at the zeros of f'''."""
    x = jnp.linspace(0.0, jnp.pi, CELLS + 1)
    rising = jax.vmap(third)(x) > 0
    left, right, cell = x[:-1], x[1:], jnp.pi / CELLS
    turns = rising[:-1] != rising[1:]
    zeros = jax.vmap(lambda a, up: _bisect(lambda x: (third(x) > 0) == up, a, a + cell, _FEW_HALVINGS))(
        left, rising[:-1]
    )
    middle = jnp.where(turns, zeros, left)
    bend = jax.vmap(second)
    steps = jnp.stack([bend(middle) - bend(left), bend(right) - bend(middle)])
    return 2 * jnp.maximum(steps, 0.0).sum()


@partial(jax.jit, static_argnames="corners")
def _threshold(corners: int) -> Scalar:
    angles = _corners(corners)
    # Where -beta sin^2 exceeds cos at the corner nearest to the antipode, it alone holds the polygon together.
    x = angles[(corners - 1) // 2]
    low = 2 * jnp.cos(x) / jnp.sin(x) ** 2

    def attracts(beta):
        cos = jnp.cos(angles)  # without the factor e^{-beta}, which would overflow
        return _polygon(jnp.exp(beta * (cos + 1)) * (cos - beta * jnp.sin(angles) ** 2)).top < 0

    return _bisect(attracts, low, jnp.zeros(()))


def _polygon(slopes: Float[Array, " q"]) -> Polygon:
    q = len(slopes)
    waves = jnp.cos(2 * jnp.pi * jnp.outer(jnp.arange(1.0, q), jnp.arange(float(q))) / q) - 1
    return Polygon(-slopes.mean(), waves @ slopes / q)


def _corners(corners: int) -> Float[Array, " q"]:
    return 2 * jnp.pi * jnp.arange(float(corners)) / corners


def _check_corners(corners: int, least: int = 1) -> None:
    if not isinstance(corners, int) or isinstance(corners, bool) or corners < least:
        raise ValueError(f"`corners` must be a whole number, at least {least}; got {corners!r}.")


def _bisect(early: Callable[[Scalar], Array], low: Scalar, high: Scalar, halvings: int = _HALVINGS) -> Scalar:
    """The point up to which a condition holds, by halving a bracket."""

    def halve(_, bracket):
        low, high = bracket
        middle = (low + high) / 2
        before = early(middle)
        return jnp.where(before, middle, low), jnp.where(before, high, middle)

    low, high = lax.fori_loop(0, halvings, halve, (low, high))
    return (low + high) / 2
