"""What runs know of Gaussians and mixtures of them."""

from typing import TYPE_CHECKING, Any

import numpy as np

from measureflow.words.measures.base import AbstractMeasureWord, Look, Rules

if TYPE_CHECKING:
    from measureflow.plotting import Recorded
    from measureflow.words.series import Series
    from measureflow.words.settings import Settings


class AbstractNormal(AbstractMeasureWord):
    """A word for a law with means and covariances in flat space."""

    traits = ("flat",)
    in_file = ("dim",)

    def rules(self, config: "Settings") -> Rules:
        """Flat space, and laws that have moments."""
        kind = f"`measure` {config.measure}"
        return [
            (config.space != "euclidean", f"{kind} lives in euclidean space: drop `space`"),
            (config.init in ("uniform", "ripples"), f"{kind} cannot have the `init` {config.init!r}: take gaussian"),
        ]

    def numbers(self, config: "Settings") -> float:
        """Roots, their rates and frames; for a quadratic potential all pairs of columns, and for a quadrature all its nodes."""
        d = float(config.dim)
        nodes = min(4096.0, d**2) if config.closure or config.measure == "mixture" else 0.0
        return (60 + 4.0 * config.frames_per_leg) * d**2 + 4 * d**3 * config.has("reweighs") + 60 * d * nodes

    def series(self, look: Look) -> "tuple[Series, ...]":
        """The width of the law, and how many directions it has."""
        from measureflow.words.series import Series

        return (
            Series("spread", spread, "spread, √tr Σ", host=True, telling=True),
            Series("rank", rank, "effective rank", host=True),
        )

    def figure(self, run: "Recorded", figure: Any = None) -> Any:
        """Ellipses, the cone of covariances, and the series."""
        from measureflow.plotting.gaussian import gaussian_figure

        return gaussian_figure(run, blow_up_time=run.stats.get("blow_up_time"), figure=figure)

    def draw(self, ax: Any, run: "Recorded", i: int) -> Any:
        """Ellipses of a frame, or its density on the line; in many dimensions in the plane where the last frame is widest."""
        from measureflow.plotting import draw_gaussian
        from measureflow.plotting.gaussian import widest_plane

        last = run.at(-1)
        return draw_gaussian(ax, run.at(i), widest_plane(last) if last.space.dim > 2 else None)


def held(config: "Settings", *names: str) -> dict[str, np.ndarray]:
    """The arrays of the file of the start, of the dimension asked for."""
    from measureflow.words.initial_laws import named
    from measureflow.words.settings import InputError

    found = named(config, *names)
    centre = found["means" if "means" in names else "mean"]
    if "dim" in config.model_fields_set and centre.shape[-1:] != (config.dim,):
        raise InputError(f"`dim` is {config.dim} but {config.init!r} has a mean of shape {centre.shape}.")
    return found


def spread(mu: Any) -> float:
    """The root of the trace of the covariance."""
    return float(np.sqrt(_variances(mu).sum()))


def rank(mu: Any) -> float:
    """The participation ratio `(tr Σ)² / tr Σ²` of the variances: a rank without a threshold."""
    values = _variances(mu)
    shares = values / max(values.sum(), np.finfo(float).tiny)  # squares of large ones overflow
    return float(1 / max((shares**2).sum(), np.finfo(float).tiny))


def _variances(mu: Any) -> np.ndarray:
    return np.maximum(np.linalg.eigvalsh(np.asarray(mu.cov)), 0.0)
