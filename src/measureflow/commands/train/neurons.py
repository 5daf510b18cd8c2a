"""The configuration of the training of two-layer networks, and the command for it; needs no JAX."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field, FiniteFloat, PositiveInt, field_validator

from measureflow.commands.train.settings import AbstractTraining, Training, worth_rows
from measureflow.words.settings import Settings, file_there
from measureflow.words.vocabulary import ACTIVATIONS, TABLES_OF_DATA

FILES = ".csv", ".npz", "-ubyte", "-ubyte.gz"
"""Endings of files of data."""


class NeuronTraining(Training):
    """Train a two-layer network, a measure of neurons, on a table of data and keep the result: data, table and picture."""

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
    loss: Literal["auto", "square", "logistic", "cross-entropy"] = Field(
        "auto", description="cross-entropy for classes and square for numbers unless given"
    )
    activation: str = Field("relu", description=f"what neurons do: {', '.join(ACTIVATIONS)}")
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
    def _known(cls, data: str, info: Any) -> str:
        if data in TABLES_OF_DATA:
            return data
        if not file_there(data, info):
            raise ValueError(f"must be one of {', '.join(TABLES_OF_DATA)} or a file; there is no file {data!r}")
        if not data.endswith(FILES):
            raise ValueError(
                f"must be one of {', '.join(TABLES_OF_DATA)} or a file that ends in {', '.join(FILES)}; got {data!r}"
            )
        return data

    @field_validator("activation")
    @classmethod
    def _active(cls, activation: str) -> str:
        ACTIVATIONS.check(activation)
        return activation

    @property
    def kinked(self) -> bool:
        """ReLU has a kink."""
        return "kinked" in ACTIVATIONS[self.activation].traits

    def numbers(self) -> float:
        """Neurons in all stages of a step, with as many inputs as the digits have, and activations of a block of data."""
        return 100.0 * max(self.neurons, self.limit) * 75 + 4.0 * 2**24

    def sizes(self) -> tuple[str, ...]:
        """Neurons alone."""
        return "neurons", "limit"

    def inputs(self) -> tuple[str, ...]:
        """The file, if there is one."""
        return tuple(
            file for file in (None if self.data in TABLES_OF_DATA else self.data, self.use) if file is not None
        )

    def rules(self) -> list[tuple[bool, str]]:
        """What must not be, each with the sentence that says so."""
        foreign = self.target is not None and self.data in TABLES_OF_DATA
        return [(foreign, f"`target` is for files; {self.data!r} has its own"), *super().rules()]


class TrainNeurons(AbstractTraining):
    """`measureflow train neurons`."""

    name = "train neurons"
    baselines: ClassVar[dict[str, str]] = {"uniform": "zero", "unigram": "best constant"}

    def schema(self, words: dict[str, Any]) -> type[Settings]:
        """The settings of the training of neurons."""
        return NeuronTraining

    def worth(self, stats: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """The data, baselines, and how good predictions are."""
        if "learned" in stats:
            yield "data", stats["learned"]
        if "uniform" in stats:
            yield (
                "baselines",
                f"{stats['uniform']:.4g} if all is predicted zero, {stats['unigram']:.4g} by the best constant",
            )
        yield from worth_rows(stats)
