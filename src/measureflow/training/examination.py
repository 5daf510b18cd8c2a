"""Particles on the examination table: rest, stability and optimality together, as a table whose words are explained."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from measureflow import wording
from measureflow.energies import AbstractEnergy
from measureflow.measures import Particles
from measureflow.precision import keep_all
from measureflow.spaces import AbstractSpace
from measureflow.training.certificates import STATIONARY, Certificate, dissipation, duality_gap, raised, ridge_criterion
from measureflow.training.families import AbstractFamily
from measureflow.training.glossary import notes
from measureflow.training.optimum import Optimum, frank_wolfe
from measureflow.training.perturbation import (
    Stability,
    ritz_values,
    rounding_of,
    spectra_row,
    splitting,
    stability,
    translation,
)
from measureflow.training.risk import AbstractRisk, Ridge, parts


class Examination(NamedTuple):
    """All that is known of a measure of particles.

    `dissipation` is that of what is descended, the risk and perhaps weight decay. Particles at rest have a `stability`;
    of others there are only `spectra`, of `H` and of `H_tr`. `optimum` is what Frank-Wolfe found, if it was asked; `balance` is
    the largest `-Psi` of unit particles, for heads the largest singular value of `G`, and the weight decay that balances it.
    """

    certificate: Certificate
    dissipation: float
    stability: Stability | None
    spectra: tuple[np.ndarray, np.ndarray]
    optimum: Optimum | None = None
    balance: tuple[float, float] | None = None

    @property
    def report(self) -> wording.Report:
        """What is known in rows, with its words explained."""
        found = self.certificate
        gauge, G = ("gauge",) if self.stability else (), ("G",) if self.balance else ()
        words = ("risk", "dissipation", "H", "H_tr", *gauge, "Ψ", "gap", "offender", found.proof, *G)
        risk = ("risk", wording.number(found.risk, found.rounding, ".8g"))
        return wording.Report((risk, *self._rest(), *found.rows(), *self._search()), notes(*words))

    def _rest(self) -> tuple[tuple[str, str], ...]:
        # The gradient is rounded like the risk, and its square is dissipated.
        lost = wording.number(self.dissipation, self.certificate.rounding**2)
        if self.stability is None:
            return ("at rest", f"no, dissipation {lost}"), spectra_row(*self.spectra)
        return ("at rest", f"yes, dissipation {lost}"), *self.stability.report.rows

    def _search(self) -> Iterator[tuple[str, str]]:
        if self.optimum is not None:
            yield "Frank-Wolfe", repr(self.optimum)
        if self.balance is not None:
            largest, decay = self.balance
            yield "largest -Ψ of unit factors", f"{largest:.6g}, optimal for the decay {decay:g} if equal"

    def __repr__(self) -> str:
        if self.stability is not None:
            return f"{self.stability}; {self.certificate}"
        apart, together = self.spectra
        value, name = min((together[0], "H_tr"), (apart[0], "H"))
        least = wording.number(value, rounding_of(apart, together))
        return f"not at rest: smallest eigenvalue {least} of {name}; {self.certificate}"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def examine(
    risk: AbstractEnergy,
    mu: Particles,
    space: AbstractSpace | None = None,
    *,
    decay: float = 0.0,
    prove: float | None = None,
    rounds: int = 0,
    starts: int = 64,
    steps: int = 150,
) -> Examination:
    """Whether particles are at rest, what happens when they are moved a little, and how far from optimal they can be.

    - `risk`: a risk, or one `+ Ridge(...)`: then gap and lower bound are those of the sum, which is convex in the measure too.
    - `space`: the compact set in which particles are compared; the balls that just hold them unless given.
    - `decay`: weight decay on all blocks, under which particles of a risk may be at rest; the gap is that of the risk alone.
    - `rounds`: of Frank-Wolfe, which often finds a better lower bound of the risk; none unless given.
    - `prove`, `starts` and `steps` go to `best_response`.
    """
    convex, ridge = parts(risk)
    if decay and ridge is not None:
        raise ValueError(
            f"`decay` {decay:g} is for a risk alone, and `risk` has a `Ridge(...)` already; give one of the two."
        )
    family = convex.family
    space = family.hull(mu.points) if space is None else space
    energy = risk + Ridge(decay) if decay else risk
    search = {"prove": prove, "starts": starts, "steps": steps}
    found = duality_gap(risk, mu, space, **search)
    optimum = frank_wolfe(risk, space, iterations=rounds, **search) if rounds else None
    if optimum is not None:
        found = raised(found, optimum.lower_bound)
    lost, still = float(dissipation(energy, mu)), _stability(energy, family, mu, found.risk)
    spectra = _spectra(energy, mu) if still is None else (still.splitting, still.translation)
    strength = decay if ridge is None else _strength(ridge, family)
    balance = (_largest(convex, mu, space), strength) if strength and family.factors else None
    return Examination(found, lost, still, spectra, optimum, balance)


def _stability(energy: AbstractEnergy, family: AbstractFamily, mu: Particles, risk: float) -> Stability | None:
    """The verdict on particles that are at rest."""
    least = STATIONARY * (1 + abs(risk))
    if float(dissipation(energy, mu)) > least:
        return None
    # No particle has a larger gradient at that dissipation.
    return stability(energy, family, mu, stationary=(least / float(mu.weights.min())) ** 0.5)


def _spectra(energy: AbstractEnergy, mu: Particles) -> tuple[np.ndarray, np.ndarray]:
    apart, together = (np.asarray(ritz_values(make, energy, mu)) for make in (splitting, translation))
    return apart, together


def _strength(ridge: Ridge, family: AbstractFamily) -> float:
    """The decay that the factors share; zero where they do not."""
    blocks = ridge.by_block(family) or {}
    strengths = {float(blocks[name]) for group in family.factors for name in group if name in blocks}
    return strengths.pop() if len(strengths) == 1 else 0.0


def _largest(risk: AbstractRisk, mu: Particles, space: AbstractSpace) -> float:
    """The largest `-Psi` of unit particles, whose other blocks are in the largest of their balls."""
    scaled = sum(risk.family.factors, start=())
    others = [float(radius) for name, radius in risk.family.radii(space).items() if name not in scaled]
    return -ridge_criterion(risk, mu, max(others, default=1.0), starts=64).value


keep_all(globals())
