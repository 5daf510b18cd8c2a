"""The assumptions of the mean-field theory of training, checked on a run: each with a number and yes, no or not decidable.

A run is finite, so it can refute what should hold for ever, and confirm it only where it has been; what neither can be is said
to be not decidable. Numbers of theorems are those of the paper on attention heads under cross-entropy; for other risks the
statements read the same.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import wording
from measureflow.annotations import Numbers
from measureflow.measures import Particles
from measureflow.precision import keep_all
from measureflow.training.bounds import KERNEL, Basin, basin, domination, feature_bounds
from measureflow.training.certificates import OPTIMAL
from measureflow.training.dynamics import AbstractProfile, Descent
from measureflow.training.examining import Examination
from measureflow.training.perturbation import monotonicity
from measureflow.training.risk import AbstractRisk, parts

MET = 48
"""Particles of a run at which features are differentiated twice."""

LEVEL = 0.01
"""The share by which norms may still grow in the last quarter of a run for them to count as settled."""

TOGETHER = 1e-3
"""Particles nearer to each other than this, relative to their size, count as one."""


class Assumption(NamedTuple):
    """What a theorem supposes: where it stands, whether a run meets it (nothing if that cannot be decided), and the numbers."""

    name: str
    where: str
    holds: bool | None
    numbers: str

    @property
    def row(self) -> tuple[str, str]:
        """Its line in a table."""
        word = {True: "yes", False: "no", None: "not decidable"}[self.holds]
        return self.name, f"{word}: {self.numbers} ({self.where})"


class Assumptions(NamedTuple):
    """All of them, with what each is for."""

    each: tuple[Assumption, ...]

    @property
    def report(self) -> wording.Report:
        """A line for each."""
        return wording.Report(tuple(one.row for one in self.each))

    def __repr__(self) -> str:
        return str(self.report)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def assumptions(field: Descent, points: Numbers, found: Examination, *, samples: int = 32) -> Assumptions:
    """Check a training run, from the particles `(k, n, D)` of all its frames and the examination of the last ones."""
    risk, _ = parts(field.energy)
    points = jnp.asarray(points)
    last = points[-1]
    each = (
        _profile(field.profile),
        _bounded(risk, points),
        _confined(points),
        _dominated(risk, last, bool(field.energy is not risk)),
        _monotone(field, risk, last, samples),
        *_settled(field, risk, last, found),
        _isolated(risk, last, found),
        _supported(found),
    )
    return Assumptions(each)


def _profile(profile: AbstractProfile) -> Assumption:
    holds = profile.diverges and np.isfinite(profile.largest) and np.isfinite(profile.lipschitz)
    least = (
        f"at least {profile.least:g}"
        if profile.least
        else "without a positive lower bound, so no rate in physical time"
    )
    text = f"rate at most {profile.largest:g}, changing by at most {profile.lipschitz:g} a unit of time, {least}, integral "
    return Assumption("learning rate", "Assumption 3.1", holds, text + ("infinite" if profile.diverges else "finite"))


def _met(points: Float[Array, "k n D"], count: int) -> Float[Array, "m D"]:
    """Some of the particles of all frames, evenly through the run."""
    flat = points.reshape(-1, points.shape[-1])
    return flat[np.unique(np.linspace(0, len(flat) - 1, count).astype(int))]


def _bounded(risk: AbstractRisk, points: Float[Array, "k n D"]) -> Assumption:
    if not risk.family.smooth:
        text = "the activation has a kink, so features have no second derivative there"
        return Assumption("features bounded", "Assumption 3.2, Proposition 3.4", False, text)
    found = feature_bounds(risk, _met(points, MET))
    norms = f"|φ| {found.value:.3g}, |J| {found.slope:.3g}, |∇²φ| {found.curvature:.3g}"
    text = f"C_0 = {found.total:.4g} where the run has been: {norms}"
    return Assumption("features bounded", "Assumption 3.2, Proposition 3.4", bool(np.isfinite(found.total)), text)


def _confined(points: Float[Array, "k n D"]) -> Assumption:
    norms = np.linalg.norm(np.asarray(points), axis=-1).max(-1)
    late = norms[3 * len(norms) // 4 :]
    settled = late.max() <= (1 + LEVEL) * late[0]
    text = f"largest norm {norms[0]:.4g} at the start, {norms[-1]:.4g} at the end, " + (
        "level in the last quarter" if settled else "still growing, so the run does not tell"
    )
    return Assumption("confinement", "Proposition 6.9, Remark 6.7", True if settled else None, text)


def _dominated(risk: AbstractRisk, last: Float[Array, "n D"], decayed: bool) -> Assumption:
    name, where = "gradient domination", "Theorem 6.10, Remark 6.11"
    if decayed or risk.targets.size > KERNEL:
        why = (
            "weight decay is not a loss of features"
            if decayed
            else f"{risk.targets.size} predictions are too many to compare"
        )
        return Assumption(name, where, None, why)
    found = domination(risk, Particles(risk.family.space, last))
    if found.kernel <= wording.rounding(last.dtype, found.kernel, 1.0):
        return Assumption(name, where, None, "the tangent kernel is singular: this test gives no constant")
    text = f"D is at least {found.constant:.4g} times the excess over the floor: least eigenvalue {found.kernel:.3g} of the "
    return Assumption(name, where, True, text + f"tangent kernel, {found.loss:.3g} from the loss")


def _monotone(field: Descent, risk: AbstractRisk, last: Float[Array, "n D"], samples: int) -> Assumption:
    centre = last.mean(0)
    radius = max(float(jnp.linalg.norm(last - centre[None], axis=-1).max()), 1e-3)
    found = monotonicity(field.energy, risk, centre, radius, samples=samples)
    text = f"m_0 = {found.m0:.4g} against L_0 = {found.L0:.4g} in the ball of radius {radius:.3g} that holds the end"
    return Assumption("strong monotonicity", "Theorem 7.1, Remark 7.2", found.m > 0, text)


def _settled(field: Descent, risk: AbstractRisk, last: Float[Array, "n D"], found: Examination) -> Iterator[Assumption]:
    """What is asked of a point of rest."""
    yield Assumption(
        "stationary", "Theorem 6.3", found.stability is not None, f"dissipation {max(found.dissipation, 0.0):.3g}"
    )
    apart, together = found.spectra
    small = wording.rounding(apart.dtype, float(np.abs(apart).max()), float(np.abs(together).max()))
    gauge = f" outside {found.stability.gauge} directions of gauge" if found.stability is not None else ""
    at_rest = found.stability is not None
    for name, values, where in (
        ("H positive", apart, "Theorem 7.5"),
        ("H_tr positive", together, "Remark 7.7, Theorem 7.8"),
    ):
        text = f"least eigenvalue {wording.number(float(values[0]), small)}{gauge}" + (
            "" if at_rest else ", not at rest"
        )
        yield Assumption(name, where, bool(values[0] > small), text)
    yield _basin(field, risk, last, at_rest and bool(apart[0] > small))


def _isolated(risk: AbstractRisk, last: Float[Array, "n D"], found: Examination) -> Assumption:
    """Whether rest points lie apart, which convergence to one of them asks for."""
    name, where = "isolated rest points", "Theorem 6.6"
    count = found.stability.gauge if found.stability is not None else len(risk.family.gauge(last[0])) * len(last)
    if count:
        return Assumption(
            name, where, False, f"{count} directions of gauge change nothing, so that rest points are continua"
        )
    return Assumption(name, where, None, "no gauge is known, and a run does not tell of other rest points")


def _basin(field: Descent, risk: AbstractRisk, last: Float[Array, "n D"], stable: bool) -> Assumption:
    name, where = "basin", "Theorem 7.5"
    size = 1 + float(jnp.abs(last).max())
    if not stable or float(jnp.ptp(last, axis=0).max()) > TOGETHER * size or not risk.family.smooth:
        return Assumption(name, where, None, "only a stable point at which all lie together has one that is known")
    try:
        found: Basin = basin(field.energy, last.mean(0), samples=64)
    except ValueError as error:
        return Assumption(name, where, None, str(error).rstrip("."))
    text = f"all starts within {found.radius:.3g} return, W_2 at least at the rate {found.rate:.3g}"
    return Assumption(name, where, True, text)


def _supported(found: Examination) -> Assumption:
    certificate = found.certificate
    holds = True if certificate.optimal else False if certificate.verdict.startswith("no") else None
    least, average = (wording.number(value, certificate.rounding) for value in (certificate.least, certificate.average))
    text = (
        f"least Ψ {least} against {average} on the support, {certificate.proof}; optimal within {OPTIMAL:g} of the risk"
    )
    return Assumption("support condition", "Theorem 4.3", holds, text)


keep_all(globals())
