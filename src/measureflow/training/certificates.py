"""Certificates of training: is a measure of particles at rest, is it optimal, and how far from optimal can it be?

A risk is convex in the measure, with weight decay too, so `∫ Psi dmu - min Psi >= R(mu) - inf R >= 0`: a particle with the least
`Psi`, the best response, bounds the excess risk, and no such particle means global optimality. Bounds are as good as the
response they rest on and carry its label: a search is a heuristic, branch and bound (`prove`) and closed forms are proofs.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks, wording
from measureflow.annotations import RandomKey
from measureflow.energies import AbstractEnergy, GradientFlow
from measureflow.measures import AbstractMeasure, Particles
from measureflow.precision import keep_all
from measureflow.spaces import AbstractSpace
from measureflow.training.families import AbstractFamily, Theta
from measureflow.training.glossary import notes
from measureflow.training.responses import Response, best_response
from measureflow.training.risk import AbstractRisk, parts

STATIONARY = 1e-8
"""The dissipation below which a measure counts as at rest, relative to the risk."""

OPTIMAL = 1e-5
"""The gap below which a measure counts as optimal, relative to the risk."""


@eqx.filter_jit
def descent(energy: AbstractEnergy, mu: AbstractMeasure) -> Float[Array, "n d"]:
    """The steepest descent of the particles, `-grad Psi` made tangent: on the boundary of a ball without its outward part."""
    rate = mu.transport(lambda xs: GradientFlow(energy)(0.0, xs, mu))
    assert isinstance(rate, Particles)
    return rate.points


@eqx.filter_jit
def dissipation(energy: AbstractEnergy, mu: AbstractMeasure) -> Float[Array, ""]:
    """How fast the energy falls: `D(mu) = ∫ |grad Psi|^2 dmu`. Zero exactly when the measure is stationary."""
    return mu.integrate(lambda _: jnp.sum(descent(energy, mu) ** 2, -1))


@eqx.filter_jit
def _on_support(risk: AbstractEnergy, mu: Particles) -> tuple[Float[Array, ""], Float[Array, " n"]]:
    return risk(mu), risk.variation(mu, mu.points)


class Certificate(NamedTuple):
    """What is known of a measure of particles.

    `gap` bounds `risk - inf risk`, proved or as far as the search for the offender is exhaustive; `spread` is the
    difference of the largest and least `Psi` on the support. `optimal` allows for what `prove` leaves open. `average` is
    `∫ Psi dmu`, `least` is `Psi` at the offender, `floor` that of the loss, which no risk goes below. `radii` are
    those of the set, if it has a ball for each block, and numbers below `rounding` are shown as zero.
    """

    risk: float
    dissipation: float
    spread: float
    gap: float
    lower_bound: float
    offender: Theta
    proof: str
    optimal: bool
    average: float
    least: float
    floor: float
    radii: dict[str, float]
    rounding: float
    noun: str = "particles"

    @property
    def useful(self) -> bool:
        """Whether the lower bound says more than the floor of the loss does."""
        return self.lower_bound > self.floor + self.rounding

    @property
    def report(self) -> wording.Report:
        """The certificate in rows, with its words explained."""
        return wording.Report(
            (
                ("risk", wording.number(self.risk, self.rounding, ".8g")),
                # The gradient is rounded like the risk, and its square is dissipated.
                ("dissipation", wording.number(self.dissipation, self.rounding**2)),
                *self.rows(),
            ),
            notes("risk", "dissipation", "Ψ", "gap", "offender", self.proof),
        )

    def rows(self) -> tuple[tuple[str, str], ...]:
        """What is known of optimality, each with its name."""
        least, average = (wording.number(value, self.rounding) for value in (self.least, self.average))
        none = "" if self.least < self.average - self.rounding else "none, the best one is no better: "
        radii = ", ".join(f"{radius:.4g} ({name})" for name, radius in self.radii.items())
        return (
            (f"spread of Ψ on the {self.noun}", wording.number(self.spread, self.rounding)),
            *gap_rows(self.risk, self.gap, self.floor, self.rounding, self.proof, f"{self.noun} of the set"),
            *(((f"set of {self.noun}", f"norms up to {radii}"),) if radii else ()),
            ("offender", f"{none}Ψ is {least} there ({self.proof}), {average} on average over the {self.noun}"),
            ("optimal", self.verdict),
        )

    @property
    def verdict(self) -> str:
        """Whether the measure is optimal, as far as is known."""
        if self.optimal:
            return "yes"
        if self.least - self.average < -OPTIMAL * (1 + abs(self.risk)):
            return "no: the offender lowers the risk"
        return "undecided: none better is known"

    def __repr__(self) -> str:
        found = {"yes": "optimal", "no": "not optimal"}.get(self.verdict.split(":")[0], "undecided")
        if not self.useful:
            return f"{found}: no useful lower bound was found for the risk {self.risk:.4g}"
        return f"{found}: gap {wording.number(self.gap, self.rounding)} of risk {self.risk:.4g} ({self.proof})"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def gap_rows(
    risk: float, gap: float, floor: float, rounding: float, proof: str, among: str
) -> tuple[tuple[str, str], ...]:
    """The gap and the lower bound that it gives; where that is only the floor of the loss, what would give a better one."""
    if risk - gap <= floor + rounding:
        below = f"{wording.number(floor, rounding, '.8g')}, the floor of the loss, which no risk goes below"
        return ("gap", f"no useful lower bound was found; {REMEDY}"), ("lower bound of the risk", below)
    return (
        ("gap", f"at most {wording.number(gap, rounding, '.6g')}, among {among} ({proof})"),
        ("lower bound of the risk", f"{risk - gap:.8g}"),
    )


REMEDY = (
    "to get one, train on, keep parameters small by weight decay, or let Frank-Wolfe look for the optimum (`train certify "
    "--rounds 20`, `frank_wolfe`)"
)
"""How a lower bound becomes useful: by a measure nearer to the optimum, or by smaller balls."""


def duality_gap(
    risk: AbstractEnergy, mu: Particles, space: AbstractSpace, *, prove: float | None = None, **search
) -> Certificate:
    """The bound on the excess risk of any measure of particles in a compact set: `∫ Psi dmu - min Psi`.

    Weight decay may be added to the risk and counts in both. `prove` and `search` go to `best_response`. The bound is as good
    as the response. Where the floor of the loss, such as the entropy of the targets, is a better lower bound of the risk, that
    is taken. Particles outside the set are refused: the bound does not hold for them.
    """
    convex, _ = parts(risk)
    check_held(convex.family, mu, space)
    value, on_support = (np.asarray(part) for part in _on_support(risk, mu))
    response = best_response(risk, mu, space, prove=prove, **search)
    gap = float(mu.weights @ on_support - min(response.bound, on_support.min()))
    floor = float(convex.floor()) + 0.0
    gap = max(0.0, min(gap, float(value) - floor))
    return Certificate(
        risk=float(value),
        dissipation=float(dissipation(risk, mu)),
        spread=float(np.ptp(on_support)),
        gap=gap,
        lower_bound=float(value) - gap,
        offender=response.particle,
        proof=response.proof,
        optimal=gap <= OPTIMAL * (1 + abs(float(value))) + min(response.value - response.bound, prove or 0.0),
        average=float(mu.weights @ on_support),
        least=response.value,
        floor=floor,
        radii={name: float(radius) for name, radius in convex.family.radii(space).items()},
        rounding=wording.rounding(value.dtype, float(value), float(np.abs(on_support).max()), response.value),
        noun=convex.family.noun,
    )


def raised(found: Certificate, lower_bound: float) -> Certificate:
    """A certificate with a lower bound of the risk from elsewhere, if that is better."""
    gap = max(0.0, min(found.gap, found.risk - lower_bound))
    optimal = found.optimal or gap <= OPTIMAL * (1 + abs(found.risk))
    return found._replace(gap=gap, lower_bound=found.risk - gap, optimal=optimal)


def check_held(family: AbstractFamily, mu: Particles, space: AbstractSpace) -> None:
    """Refuse particles outside a set, with what sticks out."""
    try:
        space.check(mu.points)
    except ValueError as error:
        norms, radii = family.radii(family.hull(mu.points)), family.radii(space)
        far = [
            f"`{name}` has norm {norms[name]:.4g} > {radius:.4g}"
            for name, radius in radii.items()
            if norms[name] > radius
        ]
        raise ValueError(
            f"`mu` has {family.noun} outside `space`, for which no bound holds: {', '.join(far) or str(error).rstrip('.')}. Take "
            f"larger balls, such as `{family.noun}.hull(mu.points)`, which just hold them, or project the {family.noun}."
        ) from None


def certify(risk: AbstractEnergy, mu: Particles, space: AbstractSpace | None = None, **search) -> Certificate:
    """Whether a stationary measure is globally optimal among particles of a compact set, the measure's own unless given.

    A measure that is not at rest is refused with its dissipation; `duality_gap` holds for every measure.
    """
    space = mu.space if space is None else space
    check_held(parts(risk)[0].family, mu, space)
    lost = float(dissipation(risk, eqx.tree_at(lambda m: m.space, mu, space)))
    if lost > STATIONARY * (1 + abs(float(_on_support(risk, mu)[0]))):
        raise ValueError(
            f"`mu` is not stationary: its dissipation is {lost:.4g}. Train on, or ask `duality_gap`, which bounds the "
            "excess risk of every measure."
        )
    return duality_gap(risk, mu, space, **search)


def ridge_criterion(
    risk: AbstractRisk,
    mu: Particles,
    radius: float = 1.0,
    *,
    prove: float | None = None,
    starts: int = 192,
    key: RandomKey = 0,
) -> Response:
    """The largest `-Psi` of particles whose factors are unit vectors, as minus the value of a response.

    With weight decay `lambda` on both factors, values and outputs of heads, outputs and inputs of ReLU neurons, a measure is
    optimal exactly when this is at most `lambda`, with equality on the particles that are active. For heads it is the largest
    singular value of `G` over query and key matrices in balls of a `radius`. `prove` bounds it from above by minus the bound.
    """
    return best_response(risk, mu, risk.family.unit(radius), prove=prove, starts=starts, key=key)


def violations(risk: AbstractEnergy, mu: Particles, particle: Theta) -> Float[Array, " n"]:
    """How much less `Psi` is at a particle than at each active one; a negative entry proves that `mu` is not optimal."""
    checks.shaped("particle", particle, (mu.points.shape[1],))
    return risk.variation(mu, particle[None])[0] - risk.variation(mu, mu.points)


keep_all(globals())
