"""Laws that pictures of sweeps are held against: a name in a sweep file, and the curve of theory for its settings and axes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from measureflow.plotting import TheoryCurve
from measureflow.theory import equiangular
from measureflow.theory.context import critical_sharpness
from measureflow.words.settings import InputError
from measureflow.words.table import nearest

if TYPE_CHECKING:
    from measureflow.sweeps.reader import Sweep

MET = 0.999
"""The overlap from which tokens have met, as in the series `met`."""
POINTS = 200


def law_of(name: str, sweep: "Sweep", dims: list[str]) -> TheoryCurve | None:
    """The curve of a law over the axes of a picture; None where it says nothing of them."""
    check(name)
    return LAWS[name](sweep.cells[0].settings, {dim: np.asarray(sweep.to_xarray()[dim].values) for dim in dims})


def check(name: str) -> None:
    """Refuse a law that is not known."""
    if name not in LAWS:
        raise InputError(f"`sweep.theory` must be one of {', '.join(LAWS)}; got {name!r}{nearest(name, list(LAWS))}.")


def meeting(settings: dict[str, Any], axes: dict[str, np.ndarray]) -> TheoryCurve | None:
    """When orthogonal tokens have met: the time over beta, or the beta up to which they have by the end (geshkovski:25)."""
    if "beta" not in axes:
        return None
    model = equiangular.unnormalised if settings["attention"] == "unnormalised" else equiangular.softmax
    betas = np.linspace(axes["beta"].min(), axes["beta"].max(), POINTS)
    times = np.asarray(equiangular.time_to(MET, settings["n"], betas, model=model))
    label = "equiangular law: orthogonal tokens reach ⟨x, y⟩ = 0.999"
    if "time" in axes:
        return TheoryCurve(label, times, betas)
    other = next((dim for dim in axes if dim != "beta"), None)
    if other is None or not (times <= settings["time"]).any():
        return None
    last = float(np.interp(settings["time"], times, betas))
    ends = np.array([axes[other].min() / 2, 2 * axes[other].max()], float)
    line = np.full(2, last)
    return TheoryCurve(label, line, ends) if next(iter(axes)) == "beta" else TheoryCurve(label, ends, line)


def critical(settings: dict[str, Any], axes: dict[str, np.ndarray]) -> TheoryCurve | None:
    """The exponent `1 / (1 - rho)` of `beta = gamma log n` above which a layer leaves tokens alone (context:25)."""
    from measureflow.words.initial_laws import OVERLAP

    if set(axes) != {"gamma", "n"} or settings["init"] != "equiangular":
        return None
    ends, line = np.array([axes["n"].min() / 2, 2.0 * axes["n"].max()]), np.full(2, float(critical_sharpness(OVERLAP)))
    return TheoryCurve(
        "critical exponent γ = 1/(1 − ρ)", *((line, ends) if next(iter(axes)) == "gamma" else (ends, line))
    )


LAWS: dict[str, Callable[[dict[str, Any], dict[str, np.ndarray]], TheoryCurve | None]] = {
    "meeting": meeting,
    "critical": critical,
}
"""The laws by the names that sweep files give them."""
