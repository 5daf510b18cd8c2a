"""Certificates of training: is a measure of heads at rest, is it optimal, and how far from optimal can it be?

The risk is convex in the measure, so `∫ Psi dmu - min Psi >= R(mu) - inf R >= 0`: a head with the least `Psi`, the best
response, bounds the excess risk, and no such head means global optimality. Bounds are as good as the response they rest
on and carry its label: a search is a heuristic, branch and bound (`prove`) and closed forms are proofs.
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
from measureflow.spaces import AbstractSpace
from measureflow.training.families import Theta
from measureflow.training.glossary import notes
from measureflow.training.heads import AbstractHeads
from measureflow.training.landscape import block_radii
from measureflow.training.responses import Response, best_response
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
    difference of the largest and least `Psi` on the support. `optimal` allows for what `prove` leaves open. `average` is
    `∫ Psi dmu`, `least` is `Psi` at the offender, `floor` the entropy of the targets, which no risk goes below. `radii` are
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

    @property
    def useful(self) -> bool:
        """Whether the lower bound says more than the entropy of the targets does."""
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
            notes("risk", "dissipation", "Ψ", "gap", "offending head", self.proof),
        )

    def rows(self) -> tuple[tuple[str, str], ...]:
        """What is known of optimality, each with its name."""
        least, average = (wording.number(value, self.rounding) for value in (self.least, self.average))
        none = "" if self.least < self.average - self.rounding else "none, the best one is no better: "
        radii = ", ".join(f"{radius:.4g} ({name})" for name, radius in self.radii.items())
        return (
            ("spread of Ψ on the heads", wording.number(self.spread, self.rounding)),
            *gap_rows(self.risk, self.gap, self.floor, self.rounding, self.proof),
            *((("set of heads", f"norms up to {radii}"),) if radii else ()),
            ("offending head", f"{none}Ψ is {least} there ({self.proof}), {average} on average over the heads"),
            ("optimal", self.verdict),
        )

    @property
    def verdict(self) -> str:
        """Whether the measure is optimal, as far as is known."""
        if self.optimal:
            return "yes"
        if self.least - self.average < -OPTIMAL * (1 + abs(self.risk)):
            return "no: the offending head lowers the risk"
        return "undecided: no better head is known"

    def __repr__(self) -> str:
        found = {"yes": "optimal", "no": "not optimal"}.get(self.verdict.split(":")[0], "undecided")
        if not self.useful:
            return f"{found}: no useful lower bound was found for the risk {self.risk:.4g}"
        return f"{found}: gap {wording.number(self.gap, self.rounding)} of risk {self.risk:.4g} ({self.proof})"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def gap_rows(
    risk: float, gap: float, floor: float, rounding: float, proof: str, among: str = "heads of the set"
) -> tuple[tuple[str, str], ...]:
    """The gap and the lower bound that it gives; where that is only the entropy of the targets, what would give a better one."""
    if risk - gap <= floor + rounding:
        below = f"{wording.number(floor, rounding, '.8g')}, the entropy of the targets, which no risk goes below"
        return ("gap", f"no useful lower bound was found; {REMEDY}"), ("lower bound of the risk", below)
    return (
        ("gap", f"at most {wording.number(gap, rounding, '.6g')}, among {among} ({proof})"),
        ("lower bound of the risk", f"{risk - gap:.8g}"),
    )


REMEDY = (
    "to get one, train on, keep heads small by weight decay, or let Frank-Wolfe look for the optimum (`train certify "
    "--rounds 20`, `frank_wolfe`)"
)
"""How a lower bound becomes useful: by a measure nearer to the optimum, or by smaller balls."""


def duality_gap(
    risk: HeadRisk, mu: Particles, space: AbstractSpace, *, prove: float | None = None, **search
) -> Certificate:
    """The bound on the excess risk of any measure of heads in a compact set: `∫ Psi dmu - min Psi`.

    `prove` and `search` go to `best_response`. The bound is as good as the response. Where the entropy of the targets is a
    better lower bound of the risk, that is taken. Heads outside the set are refused: the bound does not hold for them.
    """
    check_held(risk.heads, mu, space)
    value, on_support = (np.asarray(part) for part in _on_support(risk, mu))
    response = best_response(risk, mu, space, prove=prove, **search)
    gap = float(mu.weights @ on_support - min(response.bound, on_support.min()))
    floor = float(risk.floor()) + 0.0
    gap = max(0.0, min(gap, float(value) - floor))
    return Certificate(
        risk=float(value),
        dissipation=float(dissipation(risk, mu)),
        spread=float(np.ptp(on_support)),
        gap=gap,
        lower_bound=float(value) - gap,
        offender=response.head,
        proof=response.proof,
        optimal=gap <= OPTIMAL * (1 + abs(float(value))) + min(response.value - response.bound, prove or 0.0),
        average=float(mu.weights @ on_support),
        least=response.value,
        floor=floor,
        radii={name: float(radius) for name, radius in block_radii(risk.heads, space).items()},
        rounding=wording.rounding(value.dtype, float(value), float(np.abs(on_support).max()), response.value),
    )


def raised(found: Certificate, lower_bound: float) -> Certificate:
    """A certificate with a lower bound of the risk from elsewhere, if that is better."""
    gap = max(0.0, min(found.gap, found.risk - lower_bound))
    optimal = found.optimal or gap <= OPTIMAL * (1 + abs(found.risk))
    return found._replace(gap=gap, lower_bound=found.risk - gap, optimal=optimal)


def check_held(heads: AbstractHeads, mu: Particles, space: AbstractSpace) -> None:
    """Refuse heads outside a set, with what sticks out."""
    try:
        space.check(mu.points)
    except ValueError as error:
        norms, radii = block_radii(heads, heads.hull(mu.points)), block_radii(heads, space)
        far = [
            f"`{name}` has norm {norms[name]:.4g} > {radius:.4g}"
            for name, radius in radii.items()
            if norms[name] > radius
        ]
        raise ValueError(
            f"`mu` has heads outside `space`, for which no bound holds: {', '.join(far) or str(error).rstrip('.')}. Take larger "
            "balls, such as `heads.hull(mu.points)`, which just hold them, or project the heads."
        ) from None


def certify(risk: HeadRisk, mu: Particles, space: AbstractSpace | None = None, **search) -> Certificate:
    """Whether a stationary measure is globally optimal among heads of a compact set, the measure's own unless given.

    A measure that is not at rest is refused with its dissipation; `duality_gap` holds for every measure.
    """
    space = mu.space if space is None else space
    check_held(risk.heads, mu, space)
    lost = float(dissipation(risk, eqx.tree_at(lambda m: m.space, mu, space)))
    if lost > STATIONARY * (1 + abs(float(_on_support(risk, mu)[0]))):
        raise ValueError(
            f"`mu` is not stationary: its dissipation is {lost:.4g}. Train on, or ask `duality_gap`, which bounds the "
            "excess risk of every measure."
        )
    return duality_gap(risk, mu, space, **search)


def ridge_criterion(
    risk: HeadRisk,
    mu: Particles,
    query_key_radius: float,
    *,
    prove: float | None = None,
    starts: int = 192,
    key: RandomKey = 0,
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
