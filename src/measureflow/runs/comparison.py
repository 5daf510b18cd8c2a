"""Two runs side by side: what was asked differently, what came out differently, and how far apart they are over time.

Runs of one kind with frames of one shape differ by their numbers. Otherwise the distance is one of measures: between
means and covariances (Bures and Wasserstein) where one run is a Gaussian, and else `W_2` between tokens: a density on the
circle gives its quantiles, other limits a sample. Where one run has tokens and the other is a limit, the same distance for
tokens drawn from the limit itself shows what their number alone explains.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.measures import AbstractMeasure, CircleDensity, Gaussian, Particles
from measureflow.runs.config import InputError
from measureflow.runs.kinds import KINDS, Arrays
from measureflow.runs.reading import Run
from measureflow.runs.reading import open as open_run
from measureflow.transport import wasserstein
from measureflow.transport.gaussians import gaussian_cost

MOST = 13
"""Frames at which a distance is computed: enough for a curve, few enough for exact transport."""
DRAWS = 3
"""How often tokens are drawn from a limit to see how far they are from it: one draw may be lucky by a factor of two."""
SAME_TIME = 1e-9
"""Frames are of one time if they differ by less than this part of the last time: rounding of the same numbers."""
TOKENS = 1000
"""Tokens that stand for a limit, and most of a run for which transport is solved by the simplex method."""

Rows = list[tuple[str, str, str]]


@dataclass(frozen=True)
class Comparison:
    """What two runs differ in; `distance` is over `times`, which both have, as is `sampling` where it makes sense."""

    runs: tuple[Run, Run]
    settings: Rows
    results: Rows
    name: str
    times: np.ndarray
    distance: np.ndarray
    sampling: np.ndarray | None

    @property
    def kinds(self) -> tuple[str, str]:
        """The kinds of both measures."""
        return self.runs[0].config.measure, self.runs[1].config.measure


def compare(one: str | Path, other: str | Path) -> Comparison:
    """Compare two run folders written by `simulate`."""
    runs = _opened(one), _opened(other)
    pairs = _common(*(np.asarray(run.data.time) for run in runs))
    if not len(pairs):
        raise InputError("The runs have no frame at a common time: give both the same `time` and `frames`.")
    _on_one_space(*(restored(run, 0) for run in runs))
    kinds = {run.config.measure for run in runs}
    times = runs[0].data.time.values[pairs[:, 0]]
    rows = _settings(*runs), _results(*runs)
    if len(kinds) == 1 and _same_shape(*runs):
        difference = np.max([_difference(*runs, pairs, name) for name in KINDS[min(kinds)].dimensions], axis=0)
        return Comparison(runs, *rows, "largest difference of the frames", times, difference, None)
    some = np.unique(np.linspace(0, len(pairs) - 1, min(MOST, len(pairs))).round().astype(int))
    found = [_apart(*(restored(run, i) for run, i in zip(runs, pairs[k].tolist(), strict=True))) for k in some]
    distance, sampling = np.array(found).T
    name = "Bures distance of moments" if "gaussian" in kinds else "Wasserstein distance W₂"
    return Comparison(runs, *rows, name, times[some], distance, sampling if np.isfinite(sampling).all() else None)


def arrays(run: Run, frame: int) -> Arrays:
    """The stored numbers of one frame and those that do not change."""
    at = run.data.isel(time=frame)
    return {str(name): np.asarray(values) for name, values in at.variables.items()}


def restored(run: Run, frame: int) -> Any:
    """The measure of one frame."""
    return KINDS[run.config.measure].restored(run.config, arrays(run, frame))


def common_frames(comparison: Comparison) -> np.ndarray:
    """Pairs of indices of the frames that both runs have and at which the distance is known."""
    pairs = _common(*(np.asarray(run.data.time) for run in comparison.runs))
    times = comparison.runs[0].data.time.values[pairs[:, 0]]
    return pairs[np.isin(times, comparison.times)]


def _opened(path: str | Path) -> Run:
    run = open_run(path)
    config = run.path / "config.toml"
    if config.is_file() and "optimiser" in tomllib.loads(config.read_text()):
        raise InputError(f"{str(path)!r} is a training run; `compare` is for runs of `measureflow simulate`.")
    if not run.frames:
        raise InputError(f"{str(path)!r} has no saved frames to compare.")
    return run


def _common(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Pairs of indices of equal times."""
    near = np.abs(one[:, None] - other[None, :]) <= SAME_TIME * max(one[-1], other[-1], np.finfo(float).tiny)
    return np.argwhere(near)


def _on_one_space(mu: Any, nu: Any) -> None:
    if mu.space != nu.space:
        names = (f"{type(m.space).__name__}({m.space.dim})" for m in (mu, nu))
        raise InputError(f"The runs live on different spaces, {' and '.join(names)}, so they have no distance.")


def _same_shape(one: Run, other: Run) -> bool:
    names = KINDS[one.config.measure].dimensions
    return all(one.data[name].shape[1:] == other.data[name].shape[1:] for name in names)


def _difference(one: Run, other: Run, pairs: np.ndarray, name: str) -> np.ndarray:
    gap = np.abs(one.data[name].values[pairs[:, 0]] - other.data[name].values[pairs[:, 1]])
    return gap.reshape(len(gap), -1).max(1)


def _apart(mu: Any, nu: Any) -> tuple[float, float]:
    """The distance of two measures; if one is tokens, also that of fresh tokens from the limit, the root mean square of some."""
    if isinstance(nu, Particles) and not isinstance(mu, Particles):
        mu, nu = nu, mu
    if not isinstance(mu, Particles) or isinstance(nu, Particles):
        return float(_distance(mu, nu)), np.nan
    fresh = [float(_distance(nu.sample(len(mu.points), key=key), nu)) for key in range(2, 2 + DRAWS)]
    return float(_distance(mu, nu)), float(np.sqrt(np.mean(np.square(fresh))))


@eqx.filter_jit
def _distance(mu: AbstractMeasure, nu: AbstractMeasure) -> Float[Array, ""]:
    if isinstance(mu, Gaussian) or isinstance(nu, Gaussian):
        return jnp.sqrt(gaussian_cost(*_moments(mu), *_moments(nu)))
    return wasserstein(_tokens(mu), _tokens(nu))


def _moments(mu: Any) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
    if not isinstance(mu, Particles):
        return mu.mean, mu.cov
    mean = mu.weights @ mu.points
    away = mu.points - mean[None]
    return mean, (mu.weights[:, None] * away).T @ away


def _tokens(mu: Any) -> Particles:
    """Tokens that stand for a measure: quantiles on the circle, a sample of other limits, at most a number of tokens."""
    match mu:
        case Particles():
            return _some(mu) if mu.space.dim > 2 else mu
        case CircleDensity():
            return mu.quantiles(TOKENS)
        case _:
            return mu.sample(TOKENS, key=1)


def _some(mu: Particles) -> Particles:
    return mu if len(mu.points) <= TOKENS else Particles(mu.space, mu.points[:TOKENS], mu.weights[:TOKENS])


def _settings(one: Run, other: Run) -> Rows:
    """The options that differ."""
    a, b = (run.config.model_dump(exclude={"out", "force"}) for run in (one, other))
    for words in (a, b):
        words["n"] = words["n"] if words["measure"] == "particles" else None
    return [(name, _text(a[name]), _text(b[name])) for name in a if a[name] != b[name]]


def _results(one: Run, other: Run) -> Rows:
    """Outcomes, costs and the last of every series."""
    a, b = (_summary(run) for run in (one, other))
    return [(name, a.get(name, ""), b.get(name, "")) for name in a | b if a.get(name) != b.get(name)]


def _summary(run: Run) -> dict[str, str]:
    data = run.data
    last = {str(name): _text(float(data[name].values[-1])) for name in data.data_vars if data[name].dims == ("time",)}
    stats = {name.replace("_", " "): _text(value) for name, value in run.info.get("stats", {}).items()}
    head = {"outcome": run.info["outcome"], "frames": str(run.frames), "last frame": _text(float(data.time.values[-1]))}
    return head | stats | last | {"seconds": _text(run.info.get("seconds", ""))}


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
