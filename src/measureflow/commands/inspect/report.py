"""What a look at a pretrained transformer came to, from the folder alone: figures with intervals, beside those by chance.

Intervals are of 95 percent, by bootstrap over windows of text: windows are what was drawn, and tokens of one window depend on
each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import bootstrap

from measureflow.commands.inspect.findings import Finding, findings
from measureflow.commands.inspect.job import KINDS, depths_of, lengths_of
from measureflow.models.continuing import arrived
from measureflow.models.imitations import IMITATIONS
from measureflow.models.looking import regrouped
from measureflow.runs.reader import Run
from measureflow.theory.context import critical_sharpness
from measureflow.wording import Note

CROWDED = 0.9
"""A layer that is continued has brought tokens together when their mean overlap stays above this."""

TALK = 1e2, 1e3
"""Where `R^2 gamma` of trained heads is said to lie (castin:24)."""


class Interval(NamedTuple):
    """A mean with the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def interval(values: np.ndarray, seed: int = 0) -> Interval:
    """The mean of numbers, one for each window, with its interval; that of a single one is the number itself."""
    good = np.asarray(values, float)[np.isfinite(values)]
    if len(good) < 2 or np.ptp(good) == 0:
        mean = float(good.mean()) if len(good) else float("nan")
        return Interval(mean, mean, mean)
    rng = np.random.default_rng(seed)
    found = bootstrap((good,), np.mean, n_resamples=1000, method="percentile", rng=rng).confidence_interval
    return Interval(float(good.mean()), float(found.low), float(found.high))


@dataclass(frozen=True)
class Inspected:
    """A run of `inspect` as numbers: arrays `(layer, ...)` by name, of the layers that were reached."""

    run: Run

    def __getitem__(self, name: str) -> np.ndarray:
        return self.run.data[name].values.astype(float)

    @cached_property
    def depth(self) -> int:
        """The number of layers of the model."""
        return self.run.info["frames"] - 1

    @cached_property
    def layers(self) -> np.ndarray:
        """The layers whose attention was looked at."""
        return np.arange(min(self.run.frames, self.depth))

    @cached_property
    def chosen(self) -> np.ndarray:
        """Those whose slopes were measured."""
        return np.flatnonzero(np.isfinite(self["slope"][:, 0, 0]))

    @cached_property
    def lengths(self) -> np.ndarray:
        """Numbers of tokens at which slopes were measured."""
        return lengths_of(self.run.data.sizes["place"])

    @cached_property
    def depths(self) -> np.ndarray:
        """Depths at which a layer that is continued was looked at."""
        return depths_of(self.depth)

    @cached_property
    def tempted(self) -> np.ndarray:
        """`R^2 gamma` of each layer and head, `gamma = max(-l, l/8)` over the real eigenvalues of `A`."""
        gamma = np.maximum(-self["lowest"], self["highest"] / 8)
        return (self["radius"][:, None] ** 2 * gamma)[self.layers]

    def by_kind(self, name: str, layer: int = -1) -> dict[str, Interval]:
        """A number of tokens at a layer, for the text and by chance."""
        return {kind: interval(row) for kind, row in zip(KINDS, self[name][layer], strict=True)}

    def exponents(self, name: str) -> np.ndarray:
        """The powers of the number of tokens with which slopes grow, `(layer, window)`; from 16 tokens on if there are enough."""
        lengths = self.lengths
        some = slice(1 if len(lengths) > 3 else 0, None)
        values = np.log(self[name][self.chosen][..., some])
        x = np.log(lengths[some]) - np.log(lengths[some]).mean()
        return (values * x).sum(-1) / (x**2).sum()

    @cached_property
    def growth(self) -> dict[str, Interval]:
        """The exponents of text, of tokens at fixed places, of imitations and of the worst cloud."""
        text = {"as the text grows": "slope_growing", "at fixed places": "slope_placed"}
        found = {word: interval(self.exponents(name).mean(0)) for word, name in text.items()}
        imitated = self.exponents("slope_imitation").mean(0)
        found |= {name: interval(row) for name, row in zip(IMITATIONS, imitated, strict=True)}
        return found | {"adversarial": interval(self.exponents("slope_worst"))}

    @cached_property
    def energy_rises(self) -> np.ndarray:
        """Whether the energy rises from layer to layer, `(layer, window)`, beyond rounding."""
        energy = self["energy"][:, 0]
        return np.diff(energy, axis=0) > 1e-6 * energy[:-1]

    @cached_property
    def regrouped(self) -> tuple[np.ndarray, np.ndarray]:
        """The parts of the pairs of tokens that joined and that parted, `(layer, window)`."""
        labels = self["labels"].astype(int)
        each = [regrouped(before, after) for before, after in pairwise(labels)]
        return np.array([one.joined for one in each]), np.array([one.parted for one in each])

    @cached_property
    def sharpness(self) -> tuple[np.ndarray, np.ndarray]:
        """`gamma = beta / log n` of each layer and head, and at each layer the one at which attention turns sharp."""
        n = self.run.data.sizes["place"]
        beta = np.median(self["beta"][self.layers, 0], axis=1)
        overlap = self["overlap"][self.layers, 0].mean(1)
        return beta / np.log(n), np.asarray(critical_sharpness(overlap))

    @cached_property
    def collapses(self) -> np.ndarray:
        """The depth at which tokens have come together under each layer that is continued; infinite where they do not."""
        return np.array([arrived(self.depths, row, CROWDED) for row in self["continued"][self.chosen]])

    @cached_property
    def findings(self) -> list[Finding]:
        """What theory says, supposes and foretells, and whether that is so."""
        return findings(self)


def figure(run: Run, figure: Any = None) -> Any:
    """The picture of a look."""
    from measureflow.plotting.inspecting import inspection_figure

    return inspection_figure(Inspected(run), run.title, figure=figure)


def rows(run: Run) -> Iterator[tuple[str, str]]:
    """The table: each figure with its interval and what it would be by chance."""
    found = Inspected(run)
    yield from _model(found)
    for name, label in (
        ("overlap", "overlap"),
        ("effective_rank", "effective rank"),
        ("groups", "groups"),
        ("energy", "energy"),
    ):
        each = found.by_kind(name)
        text = each.pop("text")
        yield f"{label}, last layer", f"{text}; " + ", ".join(f"{kind} {one.value:.3g}" for kind, one in each.items())
    yield from _across(found)
    if len(found.layers):
        yield from _attention(found)
    if len(found.chosen):
        yield from _slopes(found)
        yield from _continued(found)
    yield from _heads(found)
    for finding in found.findings if run.frames > 1 else []:
        yield finding.name, str(finding)


def _model(found: Inspected) -> Iterator[tuple[str, str]]:
    stats = found.run.stats
    if "proof_heads" in stats:
        yield "is itself", f"heads add up within {stats['proof_heads']:.1g}, layers within {stats['proof_stack']:.1g}"
    if "discarded" in stats:
        low, high = min(stats["discarded"]), max(stats["discarded"])
        yield "beyond theory", f"{low:.1%} to {high:.1%} of what attention adds comes from biases and positions"
    if "loss" in stats:
        chance = np.log(stats["vocabulary"])
        yield (
            "next token",
            f"{stats['loss']:.3g} nats, {stats['loss_shuffled']:.3g} when shuffled, {chance:.3g} knowing nothing",
        )


def _across(found: Inspected) -> Iterator[tuple[str, str]]:
    if found.run.frames < 2:
        return
    rises = found.energy_rises
    whole = int(rises.all(0).sum())
    yield "energy rises", f"at {rises.mean():.0%} of the layers; all the way in {whole} of {rises.shape[1]} windows"
    joined, parted = (part.sum(0) for part in found.regrouped)
    yield "pairs of tokens", f"{interval(100 * joined)}% joined, {interval(100 * parted)}% parted, over all layers"
    yield "sinks", _sinks(found)


def _sinks(found: Inspected) -> str:
    sink, received = found["sink"].astype(bool), found["received"]
    if not sink.any():
        return "none"
    layers = np.flatnonzero(sink.any((1, 2)))
    shares = sink[layers].mean((0, 1))
    most = np.argsort(-shares)[:3]
    places = ", ".join(f"{place} ({shares[place]:.0%})" for place in most if shares[place] > 0.01)
    taken = float(np.where(sink[found.layers], received[found.layers], 0.0).max())
    return f"at places {places} of layers {layers[0]} to {layers[-1]}; one takes up to {taken:.0%} of attention"


def _attention(found: Inspected) -> Iterator[tuple[str, str]]:
    entropy = found["entropy"][found.layers]
    low, high = np.quantile(entropy[:, 0].mean(1), [0.1, 0.9])
    yield "attention entropy", f"{_heads_by_kind(entropy)}; from {low:.2f} to {high:.2f} in 80% of heads"
    gamma, critical = found.sharpness
    n = found.run.data.sizes["place"]
    low, middle, high = np.quantile(gamma, [0.1, 0.5, 0.9], method="nearest")  # heads may be sharper than every β
    beta = f"{_heads_by_kind(found['beta'][found.layers])}; from {low * np.log(n):.3g} to {high * np.log(n):.3g} in 80% of heads"
    yield (
        "effective β",
        f"{beta}; γ = β / log n = {middle:.2g}, above its critical value in {(gamma > critical[:, None]).mean():.0%}",
    )
    low, middle, high = np.quantile(found.tempted, [0.1, 0.5, 0.9])
    inside = ((found.tempted >= TALK[0]) & (found.tempted <= TALK[1])).mean()
    chance = np.median(found["temptation_by_chance"][found.layers])
    text = f"{middle:.3g}, random weights {chance:.3g}; from {low:.3g} to {high:.3g} in 80% of heads"
    yield "R²γ", f"{text}, {inside:.0%} of heads within 10² to 10³"


def _heads_by_kind(values: np.ndarray) -> str:
    """The median over heads and layers of numbers `(layer, kind, window, head)`, in the mean over windows."""
    each = np.median(values, axis=(0, 3))
    chance = ", ".join(f"{kind} {row.mean():.3g}" for kind, row in zip(KINDS[1:], each[1:], strict=True))
    return f"{interval(each[0])}; {chance}"


def _slopes(found: Inspected) -> Iterator[tuple[str, str]]:
    slope, chosen = found["slope"][found.chosen], found.chosen
    means = slope.mean(2)
    worst = float((found["slope_residual"][chosen] / slope).max())
    chance = ", ".join(
        f"{kind} {value:.3g}" for kind, value in zip(KINDS[1:], np.median(means[:, 1:], axis=0), strict=True)
    )
    yield (
        "slope of attention",
        (
            f"{means[:, 0].min():.3g} to {means[:, 0].max():.3g} over layers, median {np.median(means[:, 0]):.3g}; {chance}; "
            f"Lanczos residual up to {worst:.1g}"
        ),
    )
    causal = found.run.stats.get("causal")
    if causal is not None:
        other = np.median(found["slope_other_mask"][chosen].mean(1))
        yield f"  {'without' if causal else 'with'} a causal mask", f"median {other:.3g}"
    growth = found.growth
    yield "growth with n", ", ".join(f"n^{growth[word].value:.2f} [{growth[word].low:.2f}, {growth[word].high:.2f}] {word}"
                                     for word in ("as the text grows", "at fixed places", "adversarial"))  # fmt: skip
    yield "  of imitations", ", ".join(f"{name} n^{growth[name].value:.2f}" for name in IMITATIONS)


def _continued(found: Inspected) -> Iterator[tuple[str, str]]:
    times = found.collapses
    together = np.isfinite(times)
    last = found["continued"][found.chosen, -1]
    text = f"{together.sum()} of {len(times)} layers, repeated, bring tokens together (overlap above {CROWDED:g})"
    if together.any():
        early, late = times[together].min(), times[together].max()
        text += f" after {early:.3g} to {late:.3g} layers; the model has {found.depth}"
    yield "one layer for ever", f"{text}; overlap at the end {last.min():.2f} to {last.max():.2f}"


def _heads(found: Inspected) -> Iterator[tuple[str, str]]:
    stats = found.run.stats
    if "atoms" not in stats:
        return
    cosines = found["head_cosines"] - np.eye(len(found["head_cosines"]))
    one, other = sorted(divmod(int(np.argmax(cosines)), len(cosines)))
    H = found.run.data.sizes["head"]
    pair = " and ".join(f"{i % H} of layer {i // H}" for i in (one, other))
    text = f"{stats['atoms']:.1f} of {len(cosines)}, {stats['atoms_by_chance']:.1f} by chance"
    yield "different heads", f"{text}; closest are {pair} (cosine {cosines.max():.2f})"
    score, value = (np.nanmedian(found[f"{name}_defect"]) for name in ("query", "value"))
    yield "balance defects", f"queries and keys {score:.2g}, values and outputs {value:.2g} (0 is balanced)"


NOTES = (
    Note(
        "by chance",
        "what the figure is for shuffled tokens, for random tokens, and for the text under random weights of the same spectrum.",
        "Shuffled tokens are those of all windows in a random order. Random weights: each matrix W becomes W R with a random "
        "rotation R, which keeps all singular values, of K^T Q and O V too.",
    ),
    Note(
        "[a, b]",
        "95% interval by bootstrap over windows.",
        "Means over windows, percentiles of 1000 resamples; of adversarial clouds over layers, of imitations over draws. "
        "Tokens of one window depend on each other. The interval says nothing of other texts.",
    ),
    Note(
        "sinks",
        "tokens on which heads dump attention, or five times as long as the median; overlap, rank and energy leave them out.",
        "A token is a sink of a layer if it gets more than a tenth of the attention of others that see it, averaged over heads.",
    ),
    Note(
        "effective β",
        "the β at which isotropic attention on the same tokens would be as sharp.",
        "The root β of H(softmax(β cos)) = H(head), with H the mean entropy over its largest value; γ = β / log n, and attention "
        "of equiangular tokens of overlap ρ turns sharp at γ = 1 / (1 - ρ).",
    ),
    Note(
        "R²γ",
        "how strongly one token can draw all others: R is the largest norm that attention sees, γ is of the spectrum of A.",
        "γ = max(-λ, λ/8) over the real eigenvalues of A = K^T Q / √k. Slopes can reach "
        "√(n-1) / (1 + (n-1) e^{-2R²γ}) times the value.",
    ),
    Note(
        "slope",
        "the largest factor by which attention enlarges a small change of its input: its local Lipschitz constant.",
        "The spectral norm of the Jacobian of multi-head attention on its own input, by Lanczos steps on products with it.",
    ),
)
"""What the words of the table mean."""
