"""Entropic transport: blurred couplings, which are smooth, quick to estimate and differentiable.

`OT_eps = min ∫ distance^p / p dpi + eps KL(pi | mu x nu)`, so that at `p = 2` the cost is half the squared distance and
`OT_eps` tends to `W_2^2 / 2`. OTT's sweeps bring the potentials near, and Newton's method brings them to rounding where sweeps
crawl: far tokens exchange next to no mass. Derivatives of every order solve the linearised equation. The entropic map
is softmax attention on the target at inverse temperature `1 / eps`.
"""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Number
from measureflow.measures import AbstractMeasure, Particles
from measureflow.precision import keep_all
from measureflow.transport.pairs import Order, comparable, costs, library

SWEEPS = 2000
"""Sweeps of Sinkhorn after which a regularisation counts as too small."""
STEPS = 100
"""Steps of Newton after which a regularisation counts as too small."""
NEAR = 1e-3
"""The misplaced mass at which Newton's method takes over from the sweeps."""
STRIDE = 3.0
"""The largest step of a potential in one step of Newton, in units of `eps`."""


def sinkhorn_divergence(mu: AbstractMeasure, nu: AbstractMeasure, epsilon: Number, p: Order = 2) -> Float[Array, ""]:
    """The entropic cost without its bias: `OT_eps(mu, nu) - (OT_eps(mu, mu) + OT_eps(nu, nu)) / 2`.

    Zero exactly when the measures agree; for a shift it is half the squared shift at every `epsilon`. It tends to `W_p^p / p`
    as `epsilon` goes to zero (feydy:19).
    """
    own = entropic_cost(mu, mu, epsilon, p) + entropic_cost(nu, nu, epsilon, p)
    return entropic_cost(mu, nu, epsilon, p) - own / 2


def entropic_cost(mu: AbstractMeasure, nu: AbstractMeasure, epsilon: Number, p: Order = 2) -> Float[Array, ""]:
    """The value `OT_eps` of entropic transport; between samples it is off by `n^{-1/2}` in every dimension (chewi:25)."""
    mu, nu = comparable(mu, nu, p)
    eps, C = _regularisation(epsilon, mu), costs(mu.space, mu.points, nu.points, p) / p
    f, g = _potentials(mu, nu, C, eps)
    return mu.weights @ f + nu.weights @ g


@final
class EntropicMap(eqx.Module):
    """The mean target of each point under an entropic coupling; a smooth map, defined everywhere.

    `T(x) = ∫ y e^{(g(y) - |x - y|^2/2) / eps} dnu(y)`, normalised: attention of `x / eps` on the target, reweighted.
    """

    target: Particles
    epsilon: Float[Array, ""]

    def __call__(self, xs: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """Where points go."""
        return self.target.attend(xs / self.epsilon).mean


def entropic_map(mu: AbstractMeasure, nu: AbstractMeasure, epsilon: Number | None = None) -> EntropicMap:
    """An estimate of the optimal map from samples, by default with the regularisation of its best known rate.

    Between `N(0, a)` and `N(0, b)` on the line it is linear with slope `(sqrt(4ab + eps^2) - eps) / 2a`, which tends to
    that of the optimal map (pooladian:21).
    """
    mu, nu = comparable(mu, nu, 2)
    if not mu.space.convex:
        raise TypeError(f"`entropic_map` averages targets, which needs a convex space; got {mu.space}.")
    eps = default_regularisation(mu, nu) if epsilon is None else _regularisation(epsilon, mu)
    _, g = _potentials(mu, nu, costs(mu.space, mu.points, nu.points, 2) / 2, eps)
    return EntropicMap(nu.weigh((g - jnp.sum(nu.points**2, -1) / 2) / eps), eps)


def default_regularisation(mu: AbstractMeasure, nu: AbstractMeasure, smoothness: float | int = 3) -> Float[Array, ""]:
    """The regularisation `s^2 n^{-1/(d' + a + 1)}`, with `d' = 2 ceil(d/2)` and `a` the smoothness of the map up to 3.

    `n` is the smaller sample and `s^2` the mean variance of a coordinate, which gives the law its units. The squared error of
    the map is then of order `n^{-(a + 1) / (2 (d' + a + 1))}` (pooladian:21).
    """
    mu, nu = comparable(mu, nu, 2)
    if smoothness < 1:
        raise ValueError(f"`smoothness` counts derivatives of the map and must be at least 1; got {smoothness:g}.")
    dim, n = mu.space.dim, min(len(mu.points), len(nu.points))
    spread = sum(jnp.sum(m.weights @ (m.points - (m.weights @ m.points)[None]) ** 2) for m in (mu, nu)) / (2 * dim)
    if checks.concrete(spread) and not spread > 0:
        raise ValueError("`mu` and `nu` are single points, which set no scale; give `epsilon`.")
    return spread * n ** (-1 / (2 * math.ceil(dim / 2) + min(smoothness, 3) + 1))


def _regularisation(epsilon: Number, mu: Particles) -> Float[Array, ""]:
    checks.finite("epsilon", epsilon)
    checks.positive("epsilon", epsilon)
    return jnp.asarray(epsilon, mu.points.dtype)


def _potentials(
    mu: Particles, nu: Particles, C: Float[Array, "n m"], eps: Float[Array, ""]
) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
    """The potentials with coupling `e^{(f + g - C) / eps} mu x nu`; not a number if they were not found."""
    # OTT is written for JAX's default promotion, whatever the configuration is.
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        start = _sweeps(*jax.lax.stop_gradient((C, mu.log_weights, nu.log_weights, eps)))
    f, g = _settled(C, mu.log_weights, nu.log_weights, eps, start)
    if checks.concrete(g) and np.isnan(np.asarray(g)).any():
        raise ValueError(
            f"`epsilon` {float(eps):.3g} is too small next to the mean cost {float(C.mean()):.3g}: the potentials were not "
            "found. Take a larger one, or `wasserstein`."
        )
    return f, g


@eqx.filter_jit
def _sweeps(C, log_a, log_b, eps) -> Float[Array, " m"]:
    """The second potential after the sweeps of OTT."""
    geometry = library("ott.geometry.geometry").Geometry(cost_matrix=C, epsilon=eps)
    problem = library("ott.problems.linear.linear_problem").LinearProblem(geometry, jnp.exp(log_a), jnp.exp(log_b))
    solver = library("ott.solvers.linear.sinkhorn").Sinkhorn(threshold=NEAR, max_iterations=SWEEPS, implicit_diff=None)
    return solver(problem).g - eps * log_b


@jax.jit
def _settled(C, log_a, log_b, eps, start) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
    """The root of `g = -eps log ∫ e^{(f - C) / eps} dmu`, where `f` is the same of `g`, with its derivatives."""

    def other(g):
        return -eps * jax.nn.logsumexp((g[None] - C) / eps + log_b[None], axis=1)

    def excess(g):
        return g + eps * jax.nn.logsumexp((other(g)[:, None] - C) / eps + log_a[:, None], axis=0)

    def newton(excess, start):
        def step(state):
            g, count = state
            to_rows, to_columns = _softmaxes(C, log_a, log_b, eps, other(g), g)
            # In the masses and not in their logarithms: there a token that lacks nearly all mass sets a short step.
            lacking = eps * jnp.expm1(-excess(g) / eps)
            move = _solve(jnp.eye(len(g), dtype=g.dtype) - to_columns.T @ to_rows, lacking)
            return g + move * jnp.minimum(1.0, STRIDE * eps / jnp.abs(move).max()), count + 1

        g, _ = jax.lax.while_loop(lambda s: (misplaced(s[0]) > tolerance) & (s[1] < STEPS), step, (start, 0))
        return jnp.where(misplaced(g) <= tolerance, g, jnp.nan)

    def misplaced(g):
        return jnp.exp(log_b) @ jnp.abs(jnp.expm1(excess(g) / eps))

    tolerance = 1e4 * jnp.finfo(C.dtype).eps * (1 + jnp.abs(C).max() / eps)  # rounding of the scores, summed
    g = jax.lax.custom_root(
        excess, start, newton, lambda linear, y: _solve(jax.lax.map(linear, jnp.eye(len(y), dtype=y.dtype)).T, y)
    )
    return other(g), g


def _softmaxes(C, log_a, log_b, eps, f, g) -> tuple[Float[Array, "n m"], Float[Array, "n m"]]:
    """The coupling divided by its row masses and by its column masses."""
    scores = (f[:, None] + g[None] - C) / eps + log_a[:, None] + log_b[None]
    return jax.nn.softmax(scores, axis=1), jax.nn.softmax(scores, axis=0)


def _solve(J: Float[Array, "m m"], y: Float[Array, " m"]) -> Float[Array, " m"]:
    """The solution of `J x = y` with mean zero, since potentials are known up to a constant."""
    ridge = 1e4 * jnp.finfo(J.dtype).eps  # tokens that exchange less mass than this have a constant each
    return jnp.linalg.solve(J + 1 / len(y) + ridge * jnp.eye(len(y), dtype=J.dtype), y)


keep_all(globals())
