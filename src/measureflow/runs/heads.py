"""The configuration of the training of heads, and the command for it; needs no JAX."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, FiniteFloat, NonNegativeInt, PositiveInt, field_validator

from measureflow.runs.commands import AbstractCommand
from measureflow.runs.settings import Seed, Settings, file_there
from measureflow.runs.vocabulary import RISKS, Positive
from measureflow.runs.words import load
from measureflow.wording import rounding

if TYPE_CHECKING:
    from measureflow.runs.job import Job
    from measureflow.runs.reading import Run
    from measureflow.wording import Note


MOST_STEPS = 1e9
"""Steps of a training run that is not refused; there are days in so many."""


class HeadTraining(Settings):
    """Train attention heads by cross-entropy and keep the result: data, table and picture."""

    shown: ClassVar[tuple[str, ...]] = ("data", "heads", "optimiser", "time", "seed")

    data: str = Field("f1", description=f"{', '.join(RISKS)}, or a text file read by characters")
    heads: PositiveInt = Field(64, description="number of heads")
    optimiser: Literal["flow", "descent", "sgd", "momentum", "adam", "langevin"] = Field(
        "sgd", description="gradient flow, full descent, descent on samples, heavy ball, Adam, or descent with noise"
    )
    step: Positive = Field(0.01, description="step of descent in physical time; the flow chooses its own")
    time: Positive = Field(1.0, description="final time: the number of steps times their length")
    batch: PositiveInt = Field(1, description="sequences drawn at each step, shared by all heads")
    decay: FiniteFloat = Field(0.0, ge=0, description="weight decay on all blocks")
    profile: Literal["constant", "inverse"] = Field("constant", description="learning rate: 1, or 1 / (1 + t/2)")
    friction: Positive = Field(1.0, description="friction of momentum")
    memory: Positive = Field(0.1, description="time over which Adam averages gradients; ten times it for squares")
    beta: Positive = Field(100.0, description="inverse temperature of langevin")
    scale: Positive = Field(0.5, le=1e6, description="standard deviation of the initial parameters")
    dim: PositiveInt = Field(16, description="coordinates of a character, for text")
    head_dim: PositiveInt = Field(4, description="size of queries, keys and values, for text")
    length: PositiveInt = Field(32, description="characters in a window, for text")
    windows: PositiveInt = Field(32, description="windows of the text on which the risk is measured")
    held_out: FiniteFloat = Field(0.1, ge=0, lt=1, description="share of the text, at its end, that is not trained on")
    limit: NonNegativeInt = Field(0, description="also draw the mean-field limit, the gradient flow of so many heads")
    seed: Seed = Field(0, description="seed of initial heads and samples")
    frames: int = Field(40, ge=2, description="number of frames to keep")
    frames_per_leg: PositiveInt = Field(8, description="frames computed and saved at once; part of what is computed")
    explain: bool = Field(False, description="say in a paragraph what each word of the table means, with its formula")

    @field_validator("data")
    @classmethod
    def _known(cls, data: str, info: Any) -> str:
        if data not in RISKS and not file_there(data, info):
            raise ValueError(f"must be one of {', '.join(RISKS)} or a text file; there is no file {data!r}")
        return data

    def numbers(self) -> float:
        """Heads in all stages of a step, and what the windows of a text hold."""
        text = self.data not in RISKS
        each, windows = 4 * self.dim * self.head_dim if text else 24, self.windows * self.length if text else 16
        return 100.0 * max(self.heads, self.limit) * each + 60.0 * windows * (self.dim + 256) + 10.0 * self.frames

    def sizes(self) -> tuple[str, ...]:
        """Heads, and the sizes of a text."""
        return ("heads", "limit") if self.data in RISKS else ("heads", "limit", "dim", "head_dim", "windows", "length")

    def to_toml(self) -> str:
        """The configuration as a TOML text, with the step where there is one."""
        step = set() if self.optimiser == "flow" else {"step"}
        return self.toml_of((self.model_fields_set | set(self.shown) | step) - {"out", "force", "explain"})

    def inputs(self) -> tuple[str, ...]:
        """The text, if there is one."""
        return tuple(file for file in (None if self.data in RISKS else self.data, self.use) if file is not None)

    def rules(self) -> list[tuple[bool, str]]:
        """What must not be, each with the sentence that says so."""
        given, text = self.model_fields_set, {"dim", "head_dim", "length", "windows", "held_out"}
        foreign = sorted(text & given) if self.data in RISKS else []
        kinds = {"friction": ["momentum"], "memory": ["adam"], "beta": ["langevin"], "batch": ["sgd"]}
        kinds["step"] = ["descent", "sgd", "momentum", "adam", "langevin"]
        return [
            (
                self.optimiser == "langevin" and self.profile != "constant",
                "`profile` must be constant for langevin, whose noise does not change in time",
            ),
            (
                self.optimiser != "flow" and self.time / self.step > MOST_STEPS,
                f"`step` {self.step:g} would take {self.time / self.step:.2g} steps to `time` {self.time:g}: take a longer one",
            ),
            (bool(foreign), f"`{''.join(foreign[:1])}` is for text; {self.data!r} has its own sizes"),
            *(
                (name in given and self.optimiser not in users, f"`{name}` is for `optimiser` {' and '.join(users)}")
                for name, users in kinds.items()
            ),
        ]


class TrainHeads(AbstractCommand):
    """`measureflow train heads`."""

    name = "train heads"

    def schema(self, words: dict[str, Any]) -> type[Settings]:
        """The settings of the training of heads."""
        return HeadTraining

    def job(self, settings: HeadTraining) -> "Job":
        """A training run."""
        return load("measureflow.runs.training:job_of")(settings)

    def rows(self, run: "Run") -> Iterator[tuple[str, str]]:
        """What the risk is worth, gap and spectra, and the risk of the mean-field limit if it was asked for."""
        yield from worth_rows(run.stats)
        if "proof" in run.stats:
            risk, gap, floor, proof = (run.stats[name] for name in ("risk", "gap", "floor", "proof"))
            zero, among = rounding(run.info["precision"], risk), "heads no larger than these"
            yield from load("measureflow.training.certificates:gap_rows")(risk, gap, floor, zero, proof, among)
        if {"splitting", "translation"} <= set(run.data):
            spectra = (run.data[name].values for name in ("splitting", "translation"))
            yield load("measureflow.training.perturbation:spectra_row")(*spectra)
        if "limit" in run.data:
            risk, error = (
                float(run.data[name][-1]) if name in run.data else float("nan") for name in ("limit", "limit_error")
            )
            yield "mean-field limit", f"risk {risk:.6g}, known within {error:.2g} by {run.config.limit} heads"
        if "on_samples" in run.data:
            noisy = float(run.data["on_samples"][-1])
            yield "noise that stays", f"risk {noisy:.6g} of as many heads on the samples of this run"

    def notes(self, run: "Run") -> "tuple[Note, ...]":
        """The words of the table; of a run that was killed, those that it has."""
        found = ("baselines", "gap", run.stats["proof"]) if "proof" in run.stats else ()
        spectra = ("H", "H_tr", "Ψ") if "splitting" in run.data else ()
        return load("measureflow.training.glossary:notes")("risk", "dissipation", *found, *spectra)

    def figure(self, run: "Run") -> Any:
        """Risk, dissipation, the cloud of heads and the spectra that decide its stability."""
        return load("measureflow.runs.training:figure")(run)


def worth_rows(stats: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What to hold against the risk: baselines, hits, unseen text, and what the heads write."""
    if "uniform" in stats:
        bigram = f", {stats['bigram']:.4g} bigram" if "bigram" in stats else ""
        yield "baselines", f"{stats['uniform']:.4g} by chance (log V), {stats['unigram']:.4g} unigram{bigram} entropy"
    if "accuracy" in stats:
        yield "accuracy", f"{stats['accuracy']:.1%} of next tokens"
    if "held_out_risk" in stats:
        text = f"risk {stats['held_out_risk']:.6g}, accuracy {stats['held_out_accuracy']:.1%} on text not trained on"
        yield "held out", text
    if "continuation" in stats:
        yield "prompt", repr(stats["prompt"])
        yield "continuation", repr(stats["continuation"])
