"""Theorems held against an inspected model: whether their assumptions hold for it, and whether their conclusions are seen.

Theorems are about simpler objects than a trained model: one head, values that are the identity, tokens on a sphere. So each
finding names the assumption and answers yes, no or not decidable, with numbers. Beside it stands whether the conclusion is seen
on the text, which it may be although the assumption does not hold.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from measureflow.commands.inspect.analysis import Inspected

YES = "yes"
NO = "no"
OPEN = "not decidable"

NEARLY = 0.95
"""A cosine or share from which on a matrix counts as symmetric, as the identity, or as aligned with another."""

STILL = 0.01
"""The part of the pairs of tokens that may join or part at a layer while groups count as unchanged."""

CONSENSUS = 0.99
"""The mean overlap from which on all tokens count as one."""


@dataclass(frozen=True)
class Finding:
    """One theorem and one model: the assumption and whether it holds, the conclusion and whether it is seen."""

    name: str
    theorem: str
    supposes: str
    holds: str
    numbers: str
    foretells: str
    seen: str

    def __str__(self) -> str:
        return f"{self.supposes}: {self.holds} ({self.numbers}); {self.foretells}: {self.seen}"


def findings(found: "Inspected") -> list[Finding]:
    """The findings on a model, as far as its layers were inspected."""
    makers: tuple[Callable[[Inspected], Iterator[Finding]], ...] = (
        _triples, _consensus, _energy, _context, _groups, _bound, _worst, _root, _collapse,
    )  # fmt: skip
    return [finding for make in makers for finding in make(found)] if len(found.layers) else []


def _triples(found: "Inspected") -> Iterator[Finding]:
    lead, score = found["lead"][found.layers], found["lead_score"][found.layers]
    good = np.nan_to_num(score) > 0
    yield Finding(
        "good triples",
        "geshkovski:23",
        "V has a real, simple, positive leading eigenvalue, whose vector scores itself positively",
        _all(good),
        f"{good.sum()} of {good.size} heads; the eigenvalue leads in {np.isfinite(lead).sum()}",
        "tokens gather in at most three parallel hyperplanes",
        f"{OPEN} for single heads of a layer with several" if good.shape[1] > 1 else OPEN,
    )


def _consensus(found: "Inspected") -> Iterator[Finding]:
    alike, margin = found["like_identity"][found.layers], found["hemisphere"]
    inside = (margin > 0).mean(1)
    overlap = float(found["overlap"][-1, 0].mean())
    yield Finding(
        "consensus",
        "geshkovski:25",
        "V = I and an open hemisphere holds the tokens",
        _all(np.append(alike.ravel() > NEARLY, inside[0] == 1)),
        f"cosine of V and I at most {alike.max():.2f}; hemisphere in {inside[0]:.0%} of windows, {inside[-1]:.0%} at the end",
        "all tokens become one",
        f"{YES if overlap > CONSENSUS else NO}, overlap {overlap:.2f} at the last layer",
    )


def _energy(found: "Inspected") -> Iterator[Finding]:
    symmetric, aligned = found["symmetric"][found.layers], found["aligned"][found.layers]
    rises = found.energy_rises
    yield Finding(
        "energy",
        "geshkovski:25",
        "A is symmetric and V = A up to a factor",
        _all((symmetric > NEARLY) & (aligned > NEARLY)),
        f"symmetric part {np.median(symmetric):.2f} in the median, at most {symmetric.max():.2f}; cosine of V and A at most "
        f"{aligned.max():.2f}",
        "the energy rises at every layer",
        f"{_all(rises)}, at {rises.mean():.0%} of layers and windows" if rises.size else OPEN,
    )


def _context(found: "Inspected") -> Iterator[Finding]:
    gamma, critical = found.sharpness
    sharp = gamma > critical[:, None]
    entropy = found["entropy"][found.layers, 0].mean(1)
    above, below = (float(entropy[part].mean()) if part.any() else float("nan") for part in (sharp, ~sharp))
    told = (
        f"{YES if above < below else NO}, entropy {above:.2f} above and {below:.2f} below"
        if sharp.any() and (~sharp).any()
        else OPEN
    )
    yield Finding(
        "long context",
        "context:25",
        "β = γ log n with γ above 1 / (1 - ρ)",
        _all(sharp),
        f"{sharp.mean():.0%} of heads; γ {np.median(gamma):.2g} against {np.median(critical):.2g} in the median",
        "attention keeps to few tokens",
        told,
    )


def _groups(found: "Inspected") -> Iterator[Finding]:
    joined, parted = found.regrouped
    if not joined.size:
        return
    n, layers = found.run.data.sizes["place"], slice(len(found.layers))
    beta = np.median(found["beta"][layers, 0], axis=(1, 2))
    held = beta * (1 - found["between"][layers].max(1)) > np.log(n)
    change = (joined + parted)[layers].mean(1)
    yield Finding(
        "metastability",
        "geshkovski:24",
        "groups are separated: β (1 - α) > log n, with α the largest overlap between them",
        _all(held),
        f"at {held.sum()} of {len(held)} layers, for the median head; α up to {found['between'].max():.2f}",
        "groups stay as they are",
        f"{YES if change.max() < STILL else NO}, {change.max():.1%} of pairs change at most, from one layer to the next",
    )


def _bound(found: "Inspected") -> Iterator[Finding]:
    if not len(found.chosen):
        return
    slope, bound = found["slope_growing"][found.chosen].max(1), found["bound"][found.chosen]
    published = found["bound_published"][found.chosen]
    known = bool(np.isfinite(bound).all())
    shares = f"at most {(slope / bound).max():.2g} of it, {(slope / published).max():.2g} of the published one"
    yield Finding(
        "upper bound of slopes",
        "castin:24",
        "scores are bilinear in tokens (x, 1)",
        YES if known else NO,
        "with biases and places" if known else "heads normalise their queries and keys",
        "slopes stay below √3 Σ |V| (|A|² R⁴ (n+1) + n)^½",
        f"{_all(slope <= bound)}, {shares}" if known else OPEN,
    )


def _worst(found: "Inspected") -> Iterator[Finding]:
    if not len(found.chosen):
        return
    worst, sure = found["slope_worst"][found.chosen], found["slope_sure"][found.chosen]
    reached = (worst >= (1 - 1e-3) * sure).all()  # Lanczos steps end at 1e-3, from below
    power = found.growth["adversarial"]
    yield Finding(
        "lower bound of slopes",
        "castin:24",
        "A has a real eigenvalue other than zero",
        YES if (sure > 0).all() else NO,
        f"R²γ up to {found.tempted.max():.3g}",
        "a cloud makes slopes grow like √n",
        f"{YES if reached else NO}, growth n^{power.value:.2f} on it, {(worst / sure).min():.3g} of the bound at least",
    )


def _root(found: "Inspected") -> Iterator[Finding]:
    if not len(found.chosen):
        return
    power = found.growth["as the text grows"]
    yield Finding(
        "fourth root",
        "castin:24",
        "nothing: an observation on trained models, without a proof",
        OPEN,
        f"{found.run.data.sizes['steep']} windows, {len(found.chosen)} layers",
        "slopes grow like n^¼",
        f"{YES if power.low <= 0.25 <= power.high else NO}, n^{power.value:.2f} [{power.low:.2f}, {power.high:.2f}]",
    )


def _collapse(found: "Inspected") -> Iterator[Finding]:
    if not len(found.chosen):
        return
    times = found.collapses
    together = np.isfinite(times)
    before = together & (times > found.depth)
    yield Finding(
        "collapse",
        "geshkovski:23",
        "weights do not change with depth",
        YES if found.depth == 1 else NO,
        f"{found.depth} different layers; each of {len(times)} repeated by itself",
        "tokens come together",
        f"{_all(together)}, {together.sum()} of {len(times)} layers, {before.sum()} of them only beyond the depth of the model",
    )


def _all(parts: np.ndarray) -> str:
    return YES if parts.all() else NO
