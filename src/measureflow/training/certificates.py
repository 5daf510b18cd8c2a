"""Certificates of training: is a measure of heads at rest, is it optimal, and how far from optimal can it be?

The risk is convex in the measure, so `∫ Psi dmu - min Psi >= R(mu) - inf R >= 0`: a head with the least `Psi`, the best
response, bounds the excess risk, and no such head means global optimality. Bounds are as good as the response they rest
on and carry its label: a search is a heuristic, branch and bound (`prove`) and closed forms are proofs.
"""

from typing import NamedTuple

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
from measureflow.measures.cloud import as_key
from measureflow.spaces import AbstractSpace
from measureflow.training.heads import Theta
from measureflow.training.responses import Response, best_response, respond
from measureflow.training.risk import HeadRisk

STATIONARY = 1e-8
"""The dissipation below which a measure counts as at rest, relative to the risk."""

OPTIMAL = 1e-5
"""The gap below which a measure counts as optimal, relative to the risk."""


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


class Certificate(NamedTuple):
    """What is known of a measure of heads.

    `gap` bounds `risk - inf risk`, proved or as far as the search for the offending head is exhaustive; `spread` is the
    difference of the largest and least `Psi` on the support. `optimal` allows for what `prove` leaves open.
    """

    risk: float
    dissipation: float
    spread: float
    gap: float
    lower_bound: float
    offender: Theta
    proof: str
    optimal: bool


def duality_gap(
    risk: HeadRisk, mu: Particles, space: AbstractSpace, *, prove: float | None = None, **search
) -> Certificate:
    """The bound on the excess risk of any measure of heads in a compact set: `∫ Psi dmu - min Psi`.

    `prove` and `search` go to `best_response`. The bound is as good as the response. Where the entropy of the targets is a
    better lower bound of the risk, that is taken.
    """
    value, on_support = (np.asarray(part) for part in _on_support(risk, mu))
    response = best_response(risk, mu, space, prove=prove, **search)
    gap = float(mu.weights @ on_support - min(response.bound, on_support.min()))
    gap = min(gap, float(value - risk.floor()))
    return Certificate(
        risk=float(value),
        dissipation=float(dissipation(risk, mu)),
        spread=float(np.ptp(on_support)),
        gap=gap,
        lower_bound=float(value) - gap,
        offender=response.head,
        proof=response.proof,
        optimal=gap <= OPTIMAL * (1 + abs(float(value))) + min(response.value - response.bound, prove or 0.0),
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
    prove: float | None = None,
    starts: int = 192,
    steps: int = 300,
    boxes: int = 2_000_000,
    key: PRNGKeyArray | int = 0,
) -> Optimum:
    """The least risk over all measures on a compact set, by fully corrective Frank-Wolfe from the zero head.

    Each round adds the best response as an atom, finds the best weights of all atoms, lets the atoms slide downhill, and
    weighs them again. The bound `R - gap <= inf R` is kept from the best round. With `prove` (see `best_response`) the last
    response is proved, and the bound is its alone.
    """
    if iterations < 1:
        raise ValueError(f"`iterations` must be at least 1; got {iterations}.")
    atoms, weights = np.zeros((1, risk.heads.size)), np.ones(1)
    features = _features(risk, atoms)
    floor = float(risk.floor())
    lower, history, keys = floor, [], jax.random.split(as_key(key), iterations)
    while True:
        z = jnp.asarray(np.tensordot(weights, features, 1))
        value, residuals = float(risk.loss(z)), risk.residuals_of(z)
        base, cotangents = value - float(jnp.vdot(residuals, z)), residuals @ risk.unembedding.T
        search = {"starts": starts, "steps": steps, "key": keys[len(history)]}
        response = respond(risk, cotangents, space, **search)
        lower = max(lower, base + response.bound)
        history.append((value, lower))
        if value - lower <= tolerance or len(history) == iterations:
            if prove is not None and response.proof == "heuristic-LMO":
                response = respond(risk, cotangents, space, prove=prove, boxes=boxes, **search)
                lower = max(floor, base + response.bound)
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
    risk: HeadRisk,
    mu: Particles,
    query_key_radius: float,
    *,
    prove: float | None = None,
    starts: int = 192,
    key: PRNGKeyArray | int = 0,
) -> Response:
    """The largest singular value of `G(M)` over a ball of query-key matrices, as minus the value of a response.

    With weight decay `lambda` on values and outputs, a measure is optimal exactly when this is at most `lambda`, with
    equality on the heads that are active. `prove` bounds it from above by minus the bound.
    """
    heads = risk.heads
    radii = {name: 1.0 if name in ("value", "output") else query_key_radius for name in heads.shapes}
    return best_response(risk, mu, heads.balls(**radii), prove=prove, starts=starts, key=key)


def violations(risk: HeadRisk, mu: Particles, head: Theta) -> Float[Array, " n"]:
    """How much less `Psi` is at a head than at each active one; a negative entry proves that `mu` is not optimal."""
    checks.shaped("head", head, (risk.heads.size,))
    return risk.variation(mu, head[None])[0] - risk.variation(mu, mu.points)
