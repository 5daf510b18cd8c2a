"""The configuration of training: what all training has, and what is asked of heads and of neurons; needs no JAX.

Options that belong to words (the friction of momentum, a constant of a loss) come from the tables of `vocabulary`.
"""

from typing import Any, ClassVar, Literal

from pydantic import Field, FiniteFloat, NonNegativeInt, PositiveInt, field_validator

from measureflow.words.settings import Seed, Settings, file_there
from measureflow.words.table import Table
from measureflow.words.vocabulary import (
    ACTIVATIONS,
    HEAD_FAMILIES,
    LOSSES,
    OPTIMISERS,
    PROFILES,
    RISKS,
    TABLES_OF_DATA,
    Positive,
)

MOST_STEPS = 1e9
"""Steps of a training run that is not refused; it takes days to compute so many."""

FILES = (".csv", ".npz", "-ubyte", "-ubyte.gz")
"""Endings of files with data for neurons."""

OF_TEXT = ("dim", "family", "head_dim", "held_out", "length", "windows")
"""Options of heads that are trained on a text; the fixtures have their own sizes."""


class Training(Settings):
    """What all training has: data, an optimiser, and how long."""

    tables: ClassVar[tuple[Table, ...]] = (OPTIMISERS, PROFILES)
    noun: ClassVar[str]
    """What is trained, and the option that says how many of them."""
    source: ClassVar[str]
    """Where the function is that makes a source of data of these settings."""

    data: str = Field(..., description="what is learned")
    optimiser: str = Field("sgd", description="how they are trained")
    step: Positive = Field(0.01, description="step of descent in physical time; a smooth flow chooses its own")
    time: Positive = Field(1.0, description="final time: the number of steps times their length")
    decay: FiniteFloat = Field(0.0, ge=0, description="weight decay on all blocks")
    profile: str = Field("constant", description="learning rate over time")
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
        return self.has("kinked")

    @property
    def stepped(self) -> bool:
        """Whether steps have the length that was asked for."""
        return OPTIMISERS.choose(self).solver is not None or self.kinked

    @property
    def count(self) -> int:
        """How many are trained."""
        return getattr(self, self.noun)

    @property
    def file(self) -> str | None:
        """The file of data, if they are not known by a name."""
        return None

    def counting(self, count: int) -> "Training":
        """The same settings with another number of them."""
        return self.model_copy(update={self.noun: count})

    def inputs(self) -> tuple[str, ...]:
        """The files of data and of words, if there are any."""
        return tuple(file for file in (self.file, self.use) if file is not None)

    def to_toml(self) -> str:
        """The configuration as a TOML text, with the step where there is one."""
        step = {"step"} if self.stepped else set()
        return self.toml_of((self.model_fields_set | set(self.shown) | step) - {"out", "force", "explain"})

    def rules(self) -> list[tuple[bool, str]]:
        """What must not be, each with the sentence that says so."""
        noisy = OPTIMISERS.choose(self).noise is not None
        steps = [name for name, word in OPTIMISERS.items() if word.solver is not None or self.kinked]
        return [
            (
                noisy and "steady" not in PROFILES.choose(self).traits,
                f"`profile` must be constant for {self.optimiser}, whose noise does not change in time",
            ),
            (
                self.stepped and self.time / self.step > MOST_STEPS,
                f"`step` {self.step:g} would take {self.time / self.step:.2g} steps to `time` {self.time:g}: take a longer one",
            ),
            *self.misplaced(),
            ("step" in self.model_fields_set and not self.stepped, f"`step` is for `optimiser` {' and '.join(steps)}"),
        ]


class HeadTraining(Training):
    """Train attention heads by cross-entropy and keep the result: data, table and picture."""

    tables: ClassVar[tuple[Table, ...]] = (*Training.tables, HEAD_FAMILIES)
    shown: ClassVar[tuple[str, ...]] = ("data", "heads", "optimiser", "time", "seed")
    noun: ClassVar[str] = "heads"
    source: ClassVar[str] = "measureflow.commands.train.data:of_heads"

    data: str = Field("f1", description=f"{', '.join(RISKS)}, or a text file read by characters")
    heads: PositiveInt = Field(64, description="number of heads, in each layer")
    layers: PositiveInt = Field(1, description="residual layers of heads, each with a measure of its own")
    family: str = Field("full", description="what is trained of a head, for text")
    dim: PositiveInt = Field(16, description="coordinates of a character, for text")
    head_dim: PositiveInt = Field(4, description="size of queries, keys and values, for text")
    length: PositiveInt = Field(32, description="characters in a window, for text")
    windows: PositiveInt = Field(32, description="windows of the text on which the risk is measured")
    held_out: FiniteFloat = Field(0.1, ge=0, lt=1, description="share of the text, at its end, that is not trained on")

    @field_validator("data")
    @classmethod
    def _risk_or_text(cls, data: str, info: Any) -> str:
        if data not in RISKS and not file_there(data, info):
            raise ValueError(f"must be one of {', '.join(RISKS)} or a text file; there is no file {data!r}")
        return data

    @property
    def depth(self) -> int:
        """How many layers of heads there are."""
        return self.layers

    @property
    def file(self) -> str | None:
        """The text, if there is one."""
        return None if self.data in RISKS else self.data

    def numbers(self) -> float:
        """Heads in all stages of a step, and what the windows of a text hold."""
        text = self.file is not None
        each = max(4 * self.dim * self.head_dim, self.dim**2 if self.family == "score" else 0) if text else 24
        windows = self.windows * self.length if text else 16
        many = max(self.heads, self.limit) * self.layers
        return (100.0 + 2 * self.frames_per_leg) * many * each + 60.0 * windows * (self.dim + 256) + 10.0 * self.frames

    def sizes(self) -> tuple[str, ...]:
        """Heads, and the sizes of a text."""
        own = () if self.file is None else ("dim", "head_dim", "windows", "length")
        return ("heads", "limit", "frames_per_leg", *own)

    def rules(self) -> list[tuple[bool, str]]:
        """What must not be, each with the sentence that says so."""
        foreign = [name for name in OF_TEXT if name in self.model_fields_set and self.file is None]
        return [
            (bool(foreign), f"`{''.join(foreign[:1])}` is for text; {self.data!r} has its own sizes"),
            *super().rules(),
        ]


class NeuronTraining(Training):
    """Train a two-layer network, a measure of neurons, on a table of data and keep the result: data, table and picture."""

    tables: ClassVar[tuple[Table, ...]] = (*Training.tables, LOSSES, ACTIVATIONS)
    shown: ClassVar[tuple[str, ...]] = ("data", "neurons", "optimiser", "time", "seed")
    noun: ClassVar[str] = "neurons"
    source: ClassVar[str] = "measureflow.commands.train.data:of_neurons"

    data: str = Field(
        "digits", description=f"{', '.join(TABLES_OF_DATA)}, or a file: CSV, npz, or images of the format of MNIST"
    )
    neurons: PositiveInt = Field(256, description="number of neurons")
    target: str | None = Field(
        None, description="column of the CSV that is predicted, the last unless given; array `labels` or `y` of an npz"
    )
    header: Literal["auto", "yes", "no"] = Field(
        "auto", description="whether the first line of a CSV names its columns; found out where the table tells"
    )
    loss: str = Field("auto", description="what is lost by a wrong prediction")
    activation: str = Field("relu", description="what neurons do with a number")
    bias: bool = Field(True, description="whether neurons have a bias")
    standardise: bool = Field(
        True, description="shift and scale inputs, and targets that are numbers, to mean 0 and deviation 1"
    )
    held_out: FiniteFloat = Field(
        0.2, ge=0, lt=1, description="share of the data, drawn by the seed, that is not trained on"
    )
    batch: PositiveInt = Field(32, description="data drawn at each step, shared by all neurons")

    @field_validator("data")
    @classmethod
    def _table_or_file(cls, data: str, info: Any) -> str:
        if data in TABLES_OF_DATA:
            return data
        if not file_there(data, info):
            raise ValueError(f"must be one of {', '.join(TABLES_OF_DATA)} or a file; there is no file {data!r}")
        if not data.endswith(FILES):
            raise ValueError(
                f"must be one of {', '.join(TABLES_OF_DATA)} or a file that ends in {', '.join(FILES)}; got {data!r}"
            )
        return data

    @property
    def file(self) -> str | None:
        """The file of data, if there is one."""
        return None if self.data in TABLES_OF_DATA else self.data

    def numbers(self) -> float:
        """Neurons in all stages of a step, with as many inputs as the digits have, activations of a block of data, and times."""
        neurons = (100.0 + 2 * self.frames_per_leg) * max(self.neurons, self.limit) * 75
        return neurons + 4.0 * 2**24 + 10.0 * self.frames

    def sizes(self) -> tuple[str, ...]:
        """Neurons, and the frames."""
        return "neurons", "limit", "frames", "frames_per_leg"

    def rules(self) -> list[tuple[bool, str]]:
        """What must not be, each with the sentence that says so."""
        foreign = self.target is not None and self.file is None
        table = self.file is not None and self.file.endswith(".csv")
        return [
            (foreign, f"`target` is for files; {self.data!r} has its own"),
            ("header" in self.model_fields_set and not table, "`header` is for `data` in CSV"),
            *super().rules(),
        ]
