"""Certificates of training: is a measure of heads at rest, is it optimal, and how far from optimal can it be?

The risk is convex in the measure, so `∫ Psi dmu - min Psi >= R(mu) - inf R >= 0`: a head with the least `Psi`, the best
response, bounds the excess risk, and no such head means global optimality. The search over query-key matrices is not
convex; responses are found from many starts and bounds that rest on them are labelled heuristic.
"""

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from measureflow import checks
from measureflow.energies import AbstractEnergy, GradientFlow
from measureflow.measures import AbstractMeasure, Particles
from measureflow.measures.particles import as_key
from measureflow.spaces import AbstractSpace, Ball, Product
from measureflow.training.heads import Theta
from measureflow.training.risk import HeadRisk

STATIONARY = 1e-8
"""The dissipation below which a measure counts as at rest, relative to the risk."""


@eqx.filter_jit
def descent(energy: AbstractEnergy, mu: AbstractMeasure) -> Float[Array, "n d"]:
    """The steepest descent of the heads, `-grad Psi` made tangent: on the boundary of a ball without its outward part."""
    rate = mu.transport(lambda xs: GradientFlow(energy)(0.0, xs, mu))
    assert isinstance(rate, Particles)
    return rate.points


@eqx.filter_jit
def dissipation(energy: AbstractEnergy, mu: AbstractMeasure) -> Float[Array, ""]:
    """How fast the energy falls: `D(mu) = ∫ |grad Psi|^2 dmu`. Zero exactly when the measure is stationary."""
    return mu.integrate(lambda _: jnp.sum(descent(energy, mu) ** 2, -1))


@eqx.filter_jit
def _on_support(risk: HeadRisk, mu: Particles) -> tuple[Float[Array, ""], Float[Array, " n"]]:
    return risk(mu), risk.variation(mu, mu.points)


class Response(NamedTuple):
    """The head with the least `Psi` that a search found."""

    head: Theta
    value: float
    rivals: np.ndarray
    proof: Literal["heuristic-LMO", "proved-LMO"] = "heuristic-LMO"


class Certificate(NamedTuple):
    """What is known of a measure of heads.

    `gap` bounds `risk - inf risk`, as far as the search for the offending head is exhaustive; `spread` is the difference
    of the largest and least `Psi` on the support.
    """

    risk: float
    dissipation: float
    spread: float
    gap: float
    lower_bound: float
    offender: Theta
    proof: str
    optimal: bool


def duality_gap(risk: HeadRisk, mu: Particles, space: AbstractSpace, **search) -> Certificate:
    """The bound on the excess risk of any measure of heads in a compact set: `∫ Psi dmu - min Psi`.

    `search` goes to `best_response`. The bound is as good as the response.
    """
    value, on_support = (np.asarray(part) for part in _on_support(risk, mu))
    response = best_response(risk, mu, space, **search)
    gap = float(mu.weights @ on_support - min(response.value, on_support.min()))
    return Certificate(
        risk=float(value),
        dissipation=float(dissipation(risk, mu)),
        spread=float(np.ptp(on_support)),
        gap=gap,
        lower_bound=float(value) - gap,
        offender=response.head,
        proof=response.proof,
        optimal=gap <= 1e-5 * (1 + abs(float(value))),
    )


def certify(risk: HeadRisk, mu: Particles, space: AbstractSpace | None = None, **search) -> Certificate:
    """Whether a stationary measure is globally optimal among heads of a compact set, the measure's own unless given.

    A measure that is not at rest is refused with its dissipation; `duality_gap` holds for every measure.
    """
    space = mu.space if space is None else space
    lost = float(dissipation(risk, eqx.tree_at(lambda m: m.space, mu, space)))
    if lost > STATIONARY * (1 + abs(float(_on_support(risk, mu)[0]))):
        raise ValueError(
            f"`mu` is not stationary: its dissipation is {lost:.4g}. Train on, or ask `duality_gap`, which bounds the "
            "excess risk of every measure."
        )
    return duality_gap(risk, mu, space, **search)


def best_response(
    risk: HeadRisk,
    mu: Particles,
    space: AbstractSpace,
    *,
    starts: int = 192,
    steps: int = 300,
    key: PRNGKeyArray | int = 0,
) -> Response:
    """The head of least `Psi(.; mu)` in a compact set, by projected descent from many starts.

    For heads with a trained output the best output is known: `-rho^2 u v^T` with the top singular pair of `G`, so only
    the query-key part is searched.
    """
    return respond(risk, eqx.filter_jit(risk.cotangents)(mu), space, starts=starts, steps=steps, key=key)


def respond(
    risk: HeadRisk,
    cotangents: Float[Array, "S T d"],
    space: AbstractSpace,
    *,
    starts: int = 192,
    steps: int = 300,
    key: PRNGKeyArray | int = 0,
) -> Response:
    """The best response to given cotangents."""
    if not compact(space):
        raise ValueError(
            f"`space` must be compact for a best response to exist; got {type(space).__name__}. Use "
            "`heads.balls(query=..., ...)`, or `ridge_criterion` for weight decay."
        )
    if space.dim != risk.heads.size:
        raise ValueError(f"`space` has {space.dim} coordinates; the heads have {risk.heads.size} parameters.")
    keys = jax.random.split(as_key(key), starts)
    heads, values = _search(risk, cotangents, space, jax.vmap(space.sample)(keys).astype(cotangents.dtype), steps)
    order = np.argsort(np.asarray(values))
    return Response(heads[order[0]], float(values[order[0]]), np.asarray(values)[order[:5]])


@eqx.filter_jit
def _search(risk: HeadRisk, cotangents, space: AbstractSpace, starts: Float[Array, "m D"], steps: int):
    def value(theta):
        return risk.against(cotangents, theta[None])[0]

    def settle(theta):
        return _best_output(risk, cotangents, space, space.project(theta))

    def improve(state, _):
        theta, best, rate = state
        trial = settle(theta - rate * jax.grad(value)(theta))
        new = value(trial)
        better = new < best
        kept = jnp.where(better, trial, theta), jnp.where(better, new, best), jnp.where(better, 1.6, 0.4) * rate
        return kept, None

    def search(theta):
        theta = settle(theta)
        # By the envelope theorem the gradient at the best output is that of the reduced problem.
        state = (theta, value(theta), jnp.ones((), theta.dtype))
        (theta, best, _), _ = jax.lax.scan(improve, state, None, length=steps)
        return theta, best

    return jax.vmap(search)(starts)


def _best_output(risk: HeadRisk, cotangents, space: AbstractSpace, theta: Theta) -> Theta:
    """The head with the output matrices that make `Psi` least for its scores; heads with frozen output stay."""
    heads = risk.heads
    if "output" not in heads.shapes or not isinstance(space, Product):
        return theta
    radii = {n: s.radius for n, s in zip(heads.shapes, space.spaces, strict=True) if isinstance(s, Ball)}
    u, _, vt = jnp.linalg.svd(risk.outer_against(cotangents, theta))
    blocks = heads.unfold(theta)
    value = jnp.zeros_like(blocks["value"]).at[:, 0].set(radii["value"].astype(theta.dtype) * u[:, 0])
    output = jnp.zeros_like(blocks["output"]).at[0].set(-radii["output"].astype(theta.dtype) * vt[0])
    return heads.fold({**blocks, "value": value, "output": output})


def compact(space: AbstractSpace) -> bool:
    """Whether a set of heads is bounded: balls and products of them."""
    return all(map(compact, space.spaces)) if isinstance(space, Product) else isinstance(space, Ball)


class Optimum(NamedTuple):
    """What Frank-Wolfe found: a measure, its risk, a lower bound of the least risk, and the bounds along the way."""

    measure: Particles
    risk: float
    lower_bound: float
    history: np.ndarray
    proof: str

    @property
    def gap(self) -> float:
        """How far the risk may be from the least one."""
        return self.risk - self.lower_bound


def frank_wolfe(
    risk: HeadRisk,
    space: AbstractSpace,
    *,
    iterations: int = 40,
    tolerance: float = 1e-6,
    starts: int = 192,
    steps: int = 300,
    key: PRNGKeyArray | int = 0,
) -> Optimum:
    """The least risk over all measures on a compact set, by fully corrective Frank-Wolfe from the zero head.

    Each round adds the best response as an atom, finds the best weights of all atoms, lets the atoms slide downhill, and
    weighs them again. The bound `R - gap <= inf R` is kept from the best round.
    """
    if iterations < 1:
        raise ValueError(f"`iterations` must be at least 1; got {iterations}.")
    atoms, weights = np.zeros((1, risk.heads.size)), np.ones(1)
    features = _features(risk, atoms)
    lower, history, keys = -np.inf, [], jax.random.split(as_key(key), iterations)
    while True:
        z = jnp.asarray(np.tensordot(weights, features, 1))
        value, residuals = float(risk.loss(z)), risk.residuals_of(z)
        response = respond(
            risk, residuals @ risk.unembedding.T, space, starts=starts, steps=steps, key=keys[len(history)]
        )
        lower = max(lower, value - (float(jnp.vdot(residuals, z)) - response.value))
        history.append((value, lower))
        if value - lower <= tolerance or len(history) == iterations:
            measure = Particles(space, jnp.asarray(atoms), weights)
            return Optimum(measure, value, lower, np.array(history), response.proof)
        atoms = np.concatenate([atoms, response.head[None]])
        atoms, weights = _weighed(risk, atoms, np.append(weights, 0.0))
        atoms, weights = _weighed(risk, _slid(risk, space, atoms, weights, steps), weights)
        features = _features(risk, atoms)


def _weighed(risk: HeadRisk, atoms: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The atoms that matter, with their best weights."""
    weights = corrected(risk, _features(risk, atoms), weights)
    keep = weights > 1e-9
    return atoms[keep], weights[keep] / weights[keep].sum()


PADDED = 16
"""Numbers of atoms are rounded up to multiples of this, so that a growing set does not compile again each round."""


def _padded(rows: np.ndarray) -> Array:
    return jnp.asarray(np.pad(rows, [(0, -len(rows) % PADDED)] + [(0, 0)] * (rows.ndim - 1)))


def _features(risk: HeadRisk, atoms: np.ndarray) -> np.ndarray:
    return np.asarray(_all_features(risk, _padded(atoms)))[: len(atoms)]


def _slid(risk: HeadRisk, space: AbstractSpace, atoms: np.ndarray, weights: np.ndarray, steps: int) -> np.ndarray:
    return np.asarray(slide(risk, space, _padded(atoms), _padded(weights), steps))[: len(atoms)]


@eqx.filter_jit
def _all_features(risk: HeadRisk, atoms: Float[Array, "n D"]) -> Float[Array, "n S T V"]:
    return jax.vmap(risk.features)(atoms)


@eqx.filter_jit
def slide(risk: HeadRisk, space: AbstractSpace, atoms: Float[Array, "n D"], weights: Float[Array, " n"], steps: int):
    """Atoms moved by projected descent of the risk with their weights kept."""

    def value(atoms):
        return risk.loss(jnp.tensordot(weights, jax.vmap(risk.features)(atoms), 1))

    def improve(state, _):
        atoms, best, slope, rate = state
        trial = jax.vmap(space.project)(atoms - rate * slope / jnp.maximum(weights, 1e-3)[:, None])
        new, new_slope = jax.value_and_grad(value)(trial)
        better = new < best
        pick = lambda a, b: jnp.where(better, a, b)  # noqa: E731
        return (pick(trial, atoms), pick(new, best), pick(new_slope, slope), pick(1.6, 0.4) * rate), None

    start = (atoms, *jax.value_and_grad(value)(atoms), jnp.ones((), atoms.dtype))
    return jax.lax.scan(improve, start, None, length=steps)[0][0]


def corrected(risk: HeadRisk, features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weights of given atoms that make the risk least: a convex problem on the simplex."""
    shares, targets = np.asarray(risk.shares), np.asarray(risk.targets)

    def loss(w):
        z = np.tensordot(w, features, 1)
        residual = shares[..., None] * (softmax(z, -1) - targets)
        value = np.sum(shares * (logsumexp(z, -1) - np.sum(targets * z, -1)))
        return value, np.tensordot(features, residual, 3)

    simplex = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}
    found = minimize(
        loss, weights, jac=True, method="SLSQP", bounds=[(0, 1)] * len(weights), constraints=simplex,
        options={"ftol": 1e-15, "maxiter": 500},
    )  # fmt: skip
    return np.clip(found.x, 0.0, None)


def ridge_criterion(
    risk: HeadRisk, mu: Particles, query_key_radius: float, *, starts: int = 192, key: PRNGKeyArray | int = 0
) -> Response:
    """The largest singular value of `G(M)` over a ball of query-key matrices, as minus the value of a response.

    With weight decay `lambda` on values and outputs, a measure is optimal exactly when this is at most `lambda`, with
    equality on the heads that are active.
    """
    heads = risk.heads
    radii = {name: 1.0 if name in ("value", "output") else query_key_radius for name in heads.shapes}
    return best_response(risk, mu, heads.balls(**radii), starts=starts, key=key)


def violations(risk: HeadRisk, mu: Particles, head: Theta) -> Float[Array, " n"]:
    """How much less `Psi` is at a head than at each active one; a negative entry proves that `mu` is not optimal."""
    checks.shaped("head", head, (risk.heads.size,))
    return risk.variation(mu, head[None])[0] - risk.variation(mu, mu.points)
