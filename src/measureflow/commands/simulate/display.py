"""How the measures of a simulation are looked at: which energy tells something of it, and in which frame tokens are seen.

An energy is watched where it says something. On spheres it is divided by its largest value, so that 1 is consensus. In flat
space it grows like the exponential of a square, and is watched only where tokens descend it. Where theory does not let it
rise, as under a mask, its label says so.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from measureflow import checks
from measureflow.commands.simulate.settings import Simulation
from measureflow.diagnostics import extent
from measureflow.energies import AbstractEnergy, BilinearEnergy, InteractionEnergy
from measureflow.measures import AbstractCloud, AbstractMeasure
from measureflow.words.fields import Head, heads_of
from measureflow.words.measures.base import ENERGY, Look
from measureflow.words.measures.tokens import seen
from measureflow.words.vocabulary import ATTENTIONS, ENERGIES

MOST_COORDINATES = 64
"""Coordinates up to which different rates of growth are kept with a run; equal ones are one number."""
SKEW = 1e8
"""Eigenvectors of a value matrix with a larger condition number do not tell its growing part."""


def look_of(config: Simulation, start: AbstractMeasure) -> Look:
    """The look that suits what moves: its energy, its frame, and the size of the cloud at the start."""
    energy, label = _energy(config, start)
    cloud = isinstance(start, AbstractCloud)
    growth = _growth(config, start) if cloud else None
    size = extent(seen(start, Look(directions=config.seen_by_directions), 0.0)) if cloud else 0.0
    rescaled = growth is not None or config.frame == "rescaled"
    return Look(energy, label, config.tolerance, config.seen_by_directions, growth, rescaled, size)


def _energy(config: Simulation, start: AbstractMeasure) -> tuple[AbstractEnergy | None, str]:
    on_sphere = config.seen_by_directions or start.space.spherical
    if config.energy != "none":
        return _scaled(ENERGIES.choose(config).build(config), on_sphere)
    heads = heads_of(config, start.space.dim)
    if len(heads) > 1 or config.has("drawn") or not (on_sphere or start.space.compact):
        return None, ""  # no energy is known that belongs to several heads, or to weights drawn apart
    energy, label = _scaled(
        InteractionEnergy(config.beta) if config.matrices is None else BilinearEnergy(heads[0].A), on_sphere
    )
    return energy, label if _rises(config, heads[0]) else f"{label} (not a gradient flow of it)"


def _scaled(energy: AbstractEnergy, on_sphere: bool) -> tuple[AbstractEnergy, str]:
    """The energy over its largest value where that is known, positive and finite, and its label."""
    if not on_sphere or not isinstance(energy, InteractionEnergy | BilinearEnergy):
        return energy, ENERGY
    peak = energy.peak
    known = (peak > 0) & (peak < np.inf)
    if checks.concrete(known) and not known:
        return energy, ENERGY
    exact = isinstance(energy, InteractionEnergy)
    return jnp.where(known, 1 / peak, 1.0) * energy, f"energy E / {'max E' if exact else 'bound'}"


def _rises(config: Simulation, head: Head) -> bool:
    """Whether theory lets the energy of a head rise: exponential scores, values along the scores, and nothing beside.

    Normalising, by softmax or by a norm, changes how fast a token climbs and not whether. geshkovski:25
    """
    along = config.matrices is None or _along(np.asarray(head.A), np.asarray(head.V))
    alone = config.mask == "none" and not config.mlp and config.schedule == "constant" and config.noise is None
    return "climbs" in ATTENTIONS.choose(config).traits and along and alone


def _along(A: np.ndarray, V: np.ndarray) -> bool:
    return np.allclose(A, A.T) and _is_multiple(V, A)


def _is_multiple(one: np.ndarray, other: np.ndarray) -> bool:
    factor = (one * other).sum() / max((other * other).sum(), np.finfo(float).tiny)
    return bool(factor > 0) and np.allclose(one, factor * other)


def _growth(config: Simulation, start: AbstractMeasure) -> Any:
    """The growing part of the value matrix, without which tokens stay bounded; None where nothing grows like that."""
    plain = not config.mlp and config.norm == "none" and config.schedule == "constant" and not config.layers
    chosen = config.energy != "none" or "frame" in config.model_fields_set or "averages" not in _traits(config)
    if chosen or not plain or not start.space.linear:
        return None
    first, *others = heads_of(config, start.space.dim)
    return None if others else growing(np.asarray(first.V))


def growing(V: np.ndarray) -> Any:
    """The part of a matrix on the eigenspaces of growth: a number if all grow alike, else rows; None where it is not told.

    The identity gives 1, and the diagonal matrix of 2 and -1 the rows `[[2, 0], [0, 0]]`.
    """
    if np.array_equal(V, V[0, 0] * np.eye(len(V))):
        return float(V[0, 0]) if V[0, 0] > 0 else None
    rates, directions = np.linalg.eig(V)
    grow = np.real(rates) > 0
    if len(V) > MOST_COORDINATES or not grow.any() or np.linalg.cond(directions) > SKEW:
        return None
    return ((directions * np.where(grow, rates, 0)) @ np.linalg.inv(directions)).real.tolist()


def _traits(config: Simulation) -> tuple[str, ...]:
    return ATTENTIONS.choose(config).traits
