"""What a run keeps of each kind of measure, in one table: the arrays of a frame, what stays, and what is watched.

    particles    points(token, coordinate), weights(token)             energy, clusters
    gaussian     mean(coordinate), cov(coordinate, other)              spread, rank
    mixture      means(component, coordinate), covs(...), weights      spread, rank
    circle       density(angle)                                        energy, order, negative_mass, peaks
    sphere       density(height, angle)                                energy, order, negative_mass

`restored` is the way back, from the arrays of one frame to a measure.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.signal import find_peaks

from measureflow.diagnostics import linked, order_parameter
from measureflow.energies import AbstractEnergy
from measureflow.measures import CircleDensity, Gaussian, GaussianMixture, Particles, SphereDensity
from measureflow.measures.sphere import globe
from measureflow.runs.build import Problem
from measureflow.runs.folder import Fixed, Layout
from measureflow.runs.laws import SPACES

Arrays = dict[str, np.ndarray]


class Kind(NamedTuple):
    """What a run keeps of one kind of measure; frames have a leading axis where measures have it."""

    dimensions: dict[str, tuple[str, ...]]
    frames: Callable[[Any], dict[str, Array]]
    fixed: Callable[[Any], Fixed]
    watched: Callable[[Problem, Any], Arrays]
    restored: Callable[[Any, Arrays], Any]

    def layout(self, problem: Problem) -> Layout:
        """The arrays of a frame with their sizes, and the series."""
        start = self.frames(problem.start)
        sizes = {name: dict(zip(names, start[name].shape, strict=True)) for name, names in self.dimensions.items()}
        one = jax.tree.map(lambda leaf: leaf[None], problem.start)
        return sizes | {name: {} for name in self.watched(problem, one)}


def _tokens_watched(problem: Problem, measures: Particles) -> Arrays:
    seen = jax.vmap(problem.seen)(measures)
    counts = [linked(frame, seen.space, problem.config.tolerance).max() + 1 for frame in np.asarray(seen.points)]
    return {"energy": _energies(problem.energy, seen), "clusters": np.array(counts, int)}


def _spread(problem: Problem, measures: Gaussian | GaussianMixture) -> Arrays:
    """The root of the trace of the covariance, and its participation ratio `(tr Σ)² / tr Σ²`, a rank without a threshold."""
    values = np.maximum(np.linalg.eigvalsh(np.asarray(measures.cov)), 0.0)
    shares = values / np.maximum(values.sum(-1, keepdims=True), np.finfo(float).tiny)  # squares of large ones overflow
    return {"spread": np.sqrt(values.sum(-1)), "rank": 1 / np.maximum((shares**2).sum(-1), np.finfo(float).tiny)}


def _density_watched(problem: Problem, measures: CircleDensity | SphereDensity) -> Arrays:
    """The energy, the length of the mean, and the mass below zero, which tells whether the modes suffice."""
    return {
        "energy": _energies(problem.energy, measures),
        "order": np.asarray(jax.vmap(order_parameter)(measures)),
        "negative_mass": np.asarray(measures.negative_mass),
    }


def _circle_watched(problem: Problem, measures: CircleDensity) -> Arrays:
    return _density_watched(problem, measures) | {"peaks": peaks(np.asarray(measures.values))}


def peaks(values: Float[np.ndarray, "k n"]) -> np.ndarray:
    """How many maxima each density on a circle has above the uniform one, and above their surroundings by a twentieth."""

    def count(frame: np.ndarray) -> int:
        turned = np.roll(frame, -int(frame.argmin()))  # from the lowest angle, so that no peak lies across the ends
        return len(find_peaks(np.append(turned, turned[0]), height=1 / (2 * np.pi), prominence=frame.max() / 20)[0])

    return np.array([count(frame) for frame in values])


@eqx.filter_jit
def _mapped(energy: AbstractEnergy, measures: Any) -> Array:
    # One frame after the other: under `vmap` the choice between fast and plain sums would compute both.
    return jax.lax.map(energy, measures)


def _energies(energy: AbstractEnergy, measures: Any) -> np.ndarray:
    return np.asarray(_mapped(energy, measures))


def _globe(mu: SphereDensity) -> dict[str, Array]:
    grid, values = mu.grid, mu.values
    return {"density": values.reshape(*values.shape[:-1], grid.latitudes, grid.longitudes)}


def _circle_of(config: Any, arrays: Arrays) -> CircleDensity:
    values = np.ravel(arrays["density"])
    even = CircleDensity.uniform((len(values) - 1) // 3 if config.modes is None else config.modes)
    m = np.fft.rfft(values)[: even.modes + 1] * (2 * np.pi / len(values))
    return eqx.tree_at(lambda mu: mu.moments, even, jnp.asarray(np.stack([m.real, -m.imag])))


def _sphere_of(config: Any, arrays: Arrays) -> SphereDensity:
    even = SphereDensity.uniform(config.modes)
    grid, size = even.grid, config.modes + 1
    masses = jnp.asarray(np.ravel(arrays["density"]) * grid.weights)
    moments = grid.analyse(masses[:, None], grid.harmonics[:size, :size])[..., 0]
    return eqx.tree_at(lambda mu: mu.moments, even, moments)


def finer(density: np.ndarray, degree: int, times: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Densities on the sphere, `(..., i, j)` as stored, on a grid some times as fine for a picture, and its heights."""
    coarse, grid, size = globe(degree), globe(times * degree), degree + 1
    flat = density.reshape(-1, len(coarse.weights)).T * coarse.weights[:, None]
    moments = coarse.analyse(jnp.asarray(flat), coarse.harmonics[:size, :size])
    values = np.asarray(grid.synthesise(moments)).T / (4 * np.pi)
    return values.reshape(*density.shape[:-2], grid.latitudes, grid.longitudes), grid.z


KINDS = {
    "particles": Kind(
        {"points": ("token", "coordinate")},
        lambda mu: {"points": mu.points},
        lambda mu: {"weights": ("token", np.asarray(mu.weights))},
        _tokens_watched,
        lambda config, arrays: Particles(
            SPACES[config.space](arrays["points"].shape[-1]), arrays["points"], arrays["weights"]
        ),
    ),
    "gaussian": Kind(
        {"mean": ("coordinate",), "cov": ("coordinate", "other")},
        lambda mu: {"mean": mu.mean, "cov": mu.cov},
        lambda mu: {},
        _spread,
        lambda config, arrays: Gaussian(arrays["mean"], arrays["cov"]),
    ),
    "mixture": Kind(
        {"means": ("component", "coordinate"), "covs": ("component", "coordinate", "other")},
        lambda mu: {"means": mu.means, "covs": mu.covs},
        lambda mu: {"weights": ("component", np.asarray(mu.weights))},
        _spread,
        lambda config, arrays: GaussianMixture(arrays["weights"], arrays["means"], arrays["covs"]),
    ),
    "circle": Kind(
        {"density": ("angle",)},
        lambda mu: {"density": mu.values},
        lambda mu: {"angle": ("angle", mu.grid.angles)},
        _circle_watched,
        _circle_of,
    ),
    "sphere": Kind(
        {"density": ("height", "angle")},
        _globe,
        lambda mu: {"height": ("height", mu.grid.z), "angle": ("angle", mu.grid.angles)},
        _density_watched,
        _sphere_of,
    ),
}
