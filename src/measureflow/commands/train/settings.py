"""The configuration of training, and the command for it, whatever is trained; needs no JAX."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, FiniteFloat, NonNegativeInt, PositiveInt

from measureflow.runs.command import AbstractCommand
from measureflow.wording import rounding
from measureflow.words.settings import Seed, Settings
from measureflow.words.table import load
from measureflow.words.vocabulary import Positive

if TYPE_CHECKING:
    from measureflow.runs.job import Job
    from measureflow.runs.reader import Run
    from measureflow.wording import Note


MOST_STEPS = 1e9
"""Steps of a training run that is not refused; there are days in so many."""


class Training(Settings):
    """What all training has: data, an optimiser with its options, and how long."""

    noun: ClassVar[str]
    """What is trained, and the option that says how many of them."""
    source: ClassVar[str]
    """Where the function is that makes a source of data of these settings."""

    data: str = Field(..., description="what is learned")
    optimiser: Literal["flow", "descent", "sgd", "momentum", "adam", "langevin"] = Field(
        "sgd", description="gradient flow, full descent, descent on samples, heavy ball, Adam, or descent with noise"
    )
    step: Positive = Field(0.01, description="step of descent in physical time; a smooth flow chooses its own")
    time: Positive = Field(1.0, description="final time: the number of steps times their length")
    batch: PositiveInt = Field(1, description="data drawn at each step, shared by all")
    decay: FiniteFloat = Field(0.0, ge=0, description="weight decay on all blocks")
    profile: Literal["constant", "inverse"] = Field("constant", description="learning rate: 1, or 1 / (1 + t/2)")
    friction: Positive = Field(1.0, description="friction of momentum")
    memory: Positive = Field(0.1, description="time over which Adam averages gradients; ten times it for squares")
    beta: Positive = Field(100.0, description="inverse temperature of langevin")
    scale: Positive = Field(0.5, le=1e6, description="standard deviation of the initial parameters")
    limit: NonNegativeInt = Field(0, description="also draw the mean-field limit, the gradient flow of so many")
    seed: Seed = Field(0, description="seed of the start and of samples")
    frames: int = Field(40, ge=2, description="number of frames to keep")
    frames_per_leg: PositiveInt = Field(8, description="frames computed and saved at once; part of what is computed")
    explain: bool = Field(False, description="say in a paragraph what each word of the table means, with its formula")

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return 1

    @property
    def kinked(self) -> bool:
        """Whether what is trained has kinks, at which a solver that chooses its steps would stop again and again."""
        return False

    @property
    def stepped(self) -> bool:
        """Whether steps have the length that was asked for."""
        return self.optimiser != "flow" or self.kinked

    @property
    def count(self) -> int:
        """How many are trained."""
        return getattr(self, self.noun)

    def counting(self, count: int) -> "Training":
        """The same settings with another number of them."""
        return self.model_copy(update={self.noun: count})

    def to_toml(self) -> str:
        """The configuration as a TOML text, with the step where there is one."""
        step = {"step"} if self.stepped else set()
        return self.toml_of((self.model_fields_set | set(self.shown) | step) - {"out", "force", "explain"})

    def rules(self) -> list[tuple[bool, str]]:
        """What must not be, each with the sentence that says so."""
        kinds = {"friction": ["momentum"], "memory": ["adam"], "beta": ["langevin"], "batch": ["sgd"]}
        kinds["step"] = [*(["flow"] if self.kinked else []), "descent", "sgd", "momentum", "adam", "langevin"]
        return [
            (
                self.optimiser == "langevin" and self.profile != "constant",
                "`profile` must be constant for langevin, whose noise does not change in time",
            ),
            (
                self.stepped and self.time / self.step > MOST_STEPS,
                f"`step` {self.step:g} would take {self.time / self.step:.2g} steps to `time` {self.time:g}: take a longer one",
            ),
            *(
                (
                    name in self.model_fields_set and self.optimiser not in users,
                    f"`{name}` is for `optimiser` {' and '.join(users)}",
                )
                for name, users in kinds.items()
            ),
        ]


class AbstractTraining(AbstractCommand):
    """A command that trains: its table and its picture."""

    baselines: ClassVar[dict[str, str]]
    """The names of baselines in pictures, by those of the stats."""

    def job(self, settings: Training) -> "Job":
        """A training run."""
        return load("measureflow.commands.train.job:job_of")(settings)

    def worth(self, stats: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """What to hold against the risk."""
        yield from worth_rows(stats)

    def rows(self, run: "Run") -> Iterator[tuple[str, str]]:
        """What the risk is worth, gap and spectra, and the risk of the mean-field limit if it was asked for."""
        noun = run.config.noun
        yield from self.worth(run.stats)
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

    def notes(self, run: "Run") -> "tuple[Note, ...]":
        """The words of the table; of a run that was killed, those that it has."""
        baselines = ("baselines",) if "uniform" in run.stats else ()
        found = ("gap", run.stats["proof"]) if "proof" in run.stats else ()
        spectra = ("H", "H_tr", "Ψ") if "splitting" in run.data else ()
        return load("measureflow.training.glossary:notes")("risk", "dissipation", *baselines, *found, *spectra)

    def figure(self, run: "Run", figure: Any = None) -> Any:
        """Risk, dissipation, the cloud of particles and the spectra that decide its stability."""
        return load("measureflow.commands.train.job:figure")(run, figure)


QUALITIES = {"accuracy": "of the data", "variance_explained": "of that of the targets"}
"""How good predictions are, by the names of the stats, and what it is a share of."""


def worth_rows(stats: dict[str, Any], of: str | None = None) -> Iterator[tuple[str, str]]:
    """How good predictions are, on data that were trained on and on others."""
    for name, share in QUALITIES.items():
        word = name.replace("_", " ")
        if name in stats:
            yield word, f"{stats[name]:.1%} {of or share}"
        if f"held_out_{name}" in stats:
            found = f"risk {stats['held_out_risk']:.6g}, {word} {stats[f'held_out_{name}']:.1%}"
            yield "held out", f"{found} on data not trained on"
