"""The table and the figure of an inspected model, from its run folder alone: numbers with intervals, beside those by chance.

Quantities that declare a label have a row each; rows that put several together are functions here.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from measureflow.commands.inspect.analysis import CROWDED, Inspected, interval
from measureflow.commands.inspect.findings import findings
from measureflow.models.quantities import KINDS
from measureflow.models.synthetic_clouds import SYNTHETIC_CLOUDS
from measureflow.runs.reader import Run
from measureflow.wording import Note

PUBLISHED_RANGE = 1e2, 1e3
"""The range in which `R^2 gamma` of trained heads was published to lie (castin:24)."""


def figure(run: Run, figure: Any = None) -> Any:
    """The picture of an inspected model."""
    from measureflow.plotting.inspection import inspection_figure

    return inspection_figure(Inspected(run), run.title, figure=figure)


def rows(run: Run) -> Iterator[tuple[str, str]]:
    """The table: each figure with its interval and what it would be by chance."""
    found = Inspected(run)
    yield from _model(found)
    yield from _labelled(found)
    yield from _across(found)
    if len(found.layers):
        yield from _attention(found)
    if len(found.chosen):
        yield from _slopes(found)
        yield from _continued(found)
    yield from _heads(found)
    for finding in findings(found) if run.frames > 1 else []:
        yield finding.name, str(finding)


def _labelled(found: Inspected) -> Iterator[tuple[str, str]]:
    """The quantities with a label: what each is for the text, and beside it for the null models, where it has them."""
    for name, (label, form) in found.labels.items():
        text, *chance = found.by_kind(name).items()
        beside = ", ".join(f"{kind} {one.value:{form}}" for kind, one in chance)
        yield f"{label}, last layer", f"{text[1]:{form}}; {beside}" if beside else f"{text[1]:{form}}"


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
    inside = ((found.tempted >= PUBLISHED_RANGE[0]) & (found.tempted <= PUBLISHED_RANGE[1])).mean()
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
    yield "  of imitations", ", ".join(f"{name} n^{growth[name].value:.2f}" for name in SYNTHETIC_CLOUDS)


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
