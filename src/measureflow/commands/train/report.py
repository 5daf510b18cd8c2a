"""What training prints and draws: the rows of its table, the words explained below it, and its picture."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from measureflow.wording import rounding
from measureflow.words.table import load

if TYPE_CHECKING:
    from measureflow.runs.reader import Run
    from measureflow.wording import Note

SHARES = {"accuracy": "of the data", "variance_explained": "of that of the targets"}
"""How good predictions are, by the names of the stats, and what it is a share of."""

DRAWN = ("invariants", "splitting", "translation", "limit", "limit_error", "on_samples")
"""What a picture shows beside the series."""


def rows(run: "Run") -> Iterator[tuple[str, str]]:
    """What the risk is worth, the gap, the spectra, and the risk of the mean-field limit if it was asked for."""
    noun = run.config.noun
    yield from prediction_rows(noun, run.stats)
    if "proof" in run.stats:
        risk, gap, floor, proof = (run.stats[name] for name in ("risk", "gap", "floor", "proof"))
        zero, among = rounding(run.info["precision"], risk), f"{noun} no larger than these"
        yield from load("measureflow.training.certificates:gap_rows")(risk, gap, floor, zero, proof, among)
    if {"splitting", "translation"} <= set(run.data):
        spectra = (run.data[name].values for name in ("splitting", "translation"))
        yield load("measureflow.training.perturbation:spectra_row")(*spectra)
    if "limit" in run.data:
        risk, error = (
            float(run.data[name][-1]) if name in run.data else float("nan") for name in ("limit", "limit_error")
        )
        yield "mean-field limit", f"risk {risk:.6g}, known within {error:.2g} by {run.config.limit} {noun}"
    if "on_samples" in run.data:
        noisy = float(run.data["on_samples"][-1])
        yield "noise that stays", f"risk {noisy:.6g} of as many {noun} on the samples of this run"


def prediction_rows(noun: str, stats: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What to hold against the risk: baselines, and how good predictions are."""
    return KINDS[noun].rows(stats)


def notes(run: "Run") -> "tuple[Note, ...]":
    """The words of the table; of a run that was killed, those that it has."""
    baselines = ("baselines",) if "uniform" in run.stats else ()
    found = ("gap", run.stats["proof"]) if "proof" in run.stats else ()
    spectra = ("H", "H_tr", "Ψ") if "splitting" in run.data else ()
    return load("measureflow.training.glossary:notes")("risk", "dissipation", *baselines, *found, *spectra)


def figure(run: "Run", figure: Any = None) -> Any:
    """Risk, dissipation, the cloud of particles and the spectra; what a killed run has not stored is computed now."""
    from measureflow.plotting.training import training_figure

    stored = {name: run.data[name].values for name in DRAWN if name in run.data}
    if "invariants" not in stored:
        stored = load("measureflow.commands.train.job:finished")(run)
    names = KINDS[run.config.noun].baselines
    lines = {names[name]: run.stats[name] for name in names if name in run.stats and not run.config.decay}
    return training_figure(
        run,
        many=run.config.limit,
        noun=run.config.noun,
        depth=run.config.depth,
        baselines=lines,
        figure=figure,
        **stored,
    )


def head_rows(stats: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Baselines, hits, unseen text, and what the heads write."""
    if "uniform" in stats:
        bigram = f", {stats['bigram']:.4g} bigram" if "bigram" in stats else ""
        yield "baselines", f"{stats['uniform']:.4g} by chance (log V), {stats['unigram']:.4g} unigram{bigram} entropy"
    yield from quality_rows(stats, "of next tokens")
    if "continuation" in stats:
        yield "prompt", repr(stats["prompt"])
        yield "continuation", repr(stats["continuation"])


def neuron_rows(stats: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The data, baselines, and how good predictions are."""
    if "learned" in stats:
        yield "data", stats["learned"]
    if "uniform" in stats:
        zero, constant = stats["uniform"], stats["unigram"]
        yield "baselines", f"{zero:.4g} if all is predicted zero, {constant:.4g} by the best constant"
    yield from quality_rows(stats)


def quality_rows(stats: dict[str, Any], of: str | None = None) -> Iterator[tuple[str, str]]:
    """How good predictions are, on data that were trained on and on others."""
    for name in dict.fromkeys((*SHARES, stats.get("quality", "accuracy"))):
        word = name.replace("_", " ")
        if name in stats:
            yield word, f"{stats[name]:.1%} {of or SHARES.get(name, '')}".rstrip()
        if f"held_out_{name}" in stats:
            found = f"risk {stats['held_out_risk']:.6g}, {word} {stats[f'held_out_{name}']:.1%}"
            yield "held out", f"{found} on data not trained on"


class Kind(NamedTuple):
    """What is said of one kind of particles: the names of baselines in pictures by those of the stats, and rows of the table."""

    baselines: dict[str, str]
    rows: Callable[[dict[str, Any]], Iterator[tuple[str, str]]]


KINDS = {
    "heads": Kind({name: name for name in ("uniform", "unigram", "bigram")}, head_rows),
    "neurons": Kind({"uniform": "zero", "unigram": "best constant"}, neuron_rows),
}
"""By what is trained."""
