"""The least risk over all measures on a compact set of particles, by fully corrective Frank-Wolfe.

Each round adds the best response to the measure so far; the bound that it gives closes in on the risk from below.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from measureflow import wording
from measureflow.annotations import RandomKey
from measureflow.energies import AbstractEnergy
from measureflow.measures import Particles
from measureflow.measures.cloud import as_key
from measureflow.precision import keep_all
from measureflow.spaces import AbstractSpace
from measureflow.training.certificates import gap_rows
from measureflow.training.glossary import notes
from measureflow.training.responses import Slope, respond
from measureflow.training.risk import AbstractRisk, Ridge, parts


class Optimum(NamedTuple):
    """What Frank-Wolfe found: a measure, its risk, a lower bound of the least risk, and the bounds along the way.

    `floor` is that of the loss, where bounds start.
    """

    measure: Particles
    risk: float
    lower_bound: float
    history: np.ndarray
    proof: str
    floor: float
    noun: str = "particles"

    @property
    def gap(self) -> float:
        """How far the risk may be from the least one."""
        return self.risk - self.lower_bound

    @property
    def rounding(self) -> float:
        """The size below which numbers are shown as zero."""
        return wording.rounding(self.measure.points.dtype, self.risk)

    @property
    def report(self) -> wording.Report:
        """What was found in rows, with its words explained."""
        rows = (
            ("least risk found", f"{self.risk:.8g}"),
            *gap_rows(self.risk, self.gap, self.floor, self.rounding, self.proof, f"{self.noun} of the set"),
            (self.noun, str(len(self.measure.points))),
            ("rounds", str(len(self.history))),
        )
        return wording.Report(rows, notes("risk", "gap", self.proof))

    def __repr__(self) -> str:
        found = f"risk {self.risk:.8g} with {len(self.measure.points)} {self.noun} after {len(self.history)} rounds"
        if self.lower_bound <= self.floor + self.rounding:
            return f"{found}: no useful lower bound was found"
        return f"{found}, at most {wording.number(self.gap, self.rounding)} above the least ({self.proof})"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def frank_wolfe(
    risk: AbstractEnergy,
    space: AbstractSpace,
    *,
    iterations: int = 40,
    tolerance: float = 1e-6,
    prove: float | None = None,
    starts: int = 192,
    steps: int = 300,
    boxes: int = 2_000_000,
    key: RandomKey = 0,
) -> Optimum:
    """The least risk over all measures on a compact set, by fully corrective Frank-Wolfe from the zero particle.

    Each round adds the best response as an atom, finds the best weights of all atoms, lets the atoms slide downhill, and
    weighs them again. The bound `R - gap <= inf R` is kept from the best round. With `prove` (see `best_response`) the last
    response is proved, and the bound is its alone. Weight decay may be added to the risk and is then part of what is least.
    """
    if iterations < 1:
        raise ValueError(f"`iterations` must be at least 1; got {iterations}.")
    convex, ridge = parts(risk)
    atoms, weights = np.zeros((1, convex.family.size)), np.ones(1)
    features, costs = _seen(convex, ridge, atoms)
    floor = float(convex.floor()) + 0.0
    lower, history, keys = floor, [], jax.random.split(as_key(key), iterations)
    while True:
        z = jnp.asarray(np.tensordot(weights, features, 1))
        loss, residuals = float(convex.loss(z)), convex.residuals_of(z)
        value, base = loss + float(weights @ costs), loss - float(jnp.vdot(residuals, z))
        slope = Slope.of(convex, convex.pulled(residuals), space, ridge)
        search = {"starts": starts, "steps": steps, "key": keys[len(history)]}
        response = respond(slope, **search)
        lower = max(lower, base + response.bound)
        history.append((value, lower))
        if value - lower <= tolerance or len(history) == iterations:
            if prove is not None and response.proof == "heuristic-LMO":
                response = respond(slope, prove=prove, boxes=boxes, **search)
                lower = max(floor, base + response.bound)
            measure = Particles(space, jnp.asarray(atoms), weights)
            return Optimum(measure, value, lower, np.array(history), response.proof, floor, convex.family.noun)
        atoms = np.concatenate([atoms, response.particle[None]])
        atoms, weights = _weighed(convex, ridge, atoms, np.append(weights, 0.0))
        atoms, weights = _weighed(convex, ridge, _slid(convex, ridge, space, atoms, weights, steps), weights)
        features, costs = _seen(convex, ridge, atoms)


def _weighed(
    risk: AbstractRisk, ridge: Ridge | None, atoms: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The atoms that matter, with their best weights."""
    features, costs = _seen(risk, ridge, atoms)
    weights = corrected(risk, features, weights, costs)
    keep = weights > 1e-9
    return atoms[keep], weights[keep] / weights[keep].sum()


PADDED = 16
"""Numbers of atoms are rounded up to multiples of this, so that a growing set does not compile again each round."""


def _padded(rows: np.ndarray) -> Array:
    return jnp.asarray(np.pad(rows, [(0, -len(rows) % PADDED)] + [(0, 0)] * (rows.ndim - 1)))


def _seen(risk: AbstractRisk, ridge: Ridge | None, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The features of atoms, and what weight decay costs them."""
    costs = np.zeros(len(atoms)) if ridge is None else np.asarray(ridge.penalty(jnp.asarray(atoms)))
    return np.asarray(_all_features(risk, _padded(atoms)))[: len(atoms)], costs


def _slid(
    risk: AbstractRisk, ridge: Ridge | None, space: AbstractSpace, atoms: np.ndarray, weights: np.ndarray, steps: int
) -> np.ndarray:
    return np.asarray(slide(risk, space, _padded(atoms), _padded(weights), steps, ridge))[: len(atoms)]


@eqx.filter_jit
def _all_features(risk: AbstractRisk, atoms: Float[Array, "n D"]) -> Float[Array, "n *s V"]:
    return jax.vmap(risk.features)(atoms)


@eqx.filter_jit
def slide(
    risk: AbstractRisk,
    space: AbstractSpace,
    atoms: Float[Array, "n D"],
    weights: Float[Array, " n"],
    steps: int,
    ridge: Ridge | None = None,
):
    """Atoms moved by projected descent of the risk with their weights kept."""

    def value(atoms):
        loss = risk.loss(jnp.tensordot(weights, jax.vmap(risk.features)(atoms), 1))
        return loss if ridge is None else loss + weights @ ridge.penalty(atoms)

    def improve(state, _):
        atoms, best, slope, rate = state
        trial = jax.vmap(space.project)(atoms - rate * slope / jnp.maximum(weights, 1e-3)[:, None])
        new, new_slope = jax.value_and_grad(value)(trial)
        better = new < best
        pick = lambda a, b: jnp.where(better, a, b)  # noqa: E731
        return (pick(trial, atoms), pick(new, best), pick(new_slope, slope), pick(1.6, 0.4) * rate), None

    start = (atoms, *jax.value_and_grad(value)(atoms), jnp.ones((), atoms.dtype))
    return jax.lax.scan(improve, start, None, length=steps)[0][0]


@eqx.filter_jit
def _judged(risk: AbstractRisk, z: Array) -> tuple[Array, Array]:
    return risk.loss(z), risk.residuals_of(z)


def corrected(
    risk: AbstractRisk, features: np.ndarray, weights: np.ndarray, costs: np.ndarray | None = None
) -> np.ndarray:
    """The weights of given atoms that make the risk with their costs least: a convex problem on the simplex."""
    costs = np.zeros(len(weights)) if costs is None else costs

    def loss(w):
        value, residuals = _judged(risk, jnp.asarray(np.tensordot(w, features, 1), features.dtype))
        return float(value) + w @ costs, np.tensordot(features, np.asarray(residuals), features.ndim - 1) + costs

    simplex = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}
    found = minimize(
        loss, weights, jac=True, method="SLSQP", bounds=[(0, 1)] * len(weights), constraints=simplex,
        options={"ftol": 1e-15, "maxiter": 500},
    )  # fmt: skip
    return np.clip(found.x, 0.0, None)


keep_all(globals())
