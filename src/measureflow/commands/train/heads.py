"""The configuration of the training of heads, and the command for it; needs no JAX."""

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field, FiniteFloat, PositiveInt, field_validator

from measureflow.commands.train.settings import AbstractTraining, Training, worth_rows
from measureflow.words.settings import Settings, file_there
from measureflow.words.vocabulary import RISKS


class HeadTraining(Training):
    """Train attention heads by cross-entropy and keep the result: data, table and picture."""

    shown: ClassVar[tuple[str, ...]] = ("data", "heads", "optimiser", "time", "seed")
    noun: ClassVar[str] = "heads"
    source: ClassVar[str] = "measureflow.commands.train.data:of_heads"

    data: str = Field("f1", description=f"{', '.join(RISKS)}, or a text file read by characters")
    heads: PositiveInt = Field(64, description="number of heads, in each layer")
    layers: PositiveInt = Field(1, description="residual layers of heads, each with a measure of its own")
    dim: PositiveInt = Field(16, description="coordinates of a character, for text")
    head_dim: PositiveInt = Field(4, description="size of queries, keys and values, for text")
    length: PositiveInt = Field(32, description="characters in a window, for text")
    windows: PositiveInt = Field(32, description="windows of the text on which the risk is measured")
    held_out: FiniteFloat = Field(0.1, ge=0, lt=1, description="share of the text, at its end, that is not trained on")

    @field_validator("data")
    @classmethod
    def _known(cls, data: str, info: Any) -> str:
        if data not in RISKS and not file_there(data, info):
            raise ValueError(f"must be one of {', '.join(RISKS)} or a text file; there is no file {data!r}")
        return data

    @property
    def depth(self) -> int:
        """How many layers of heads there are."""
        return self.layers

    def numbers(self) -> float:
        """Heads in all stages of a step, and what the windows of a text hold."""
        text = self.data not in RISKS
        each, windows = 4 * self.dim * self.head_dim if text else 24, self.windows * self.length if text else 16
        many = max(self.heads, self.limit) * self.layers
        return 100.0 * many * each + 60.0 * windows * (self.dim + 256) + 10.0 * self.frames

    def sizes(self) -> tuple[str, ...]:
        """Heads, and the sizes of a text."""
        return ("heads", "limit") if self.data in RISKS else ("heads", "limit", "dim", "head_dim", "windows", "length")

    def inputs(self) -> tuple[str, ...]:
        """The text, if there is one."""
        return tuple(file for file in (None if self.data in RISKS else self.data, self.use) if file is not None)

    def rules(self) -> list[tuple[bool, str]]:
        """What must not be, each with the sentence that says so."""
        text = {"dim", "head_dim", "length", "windows", "held_out"}
        foreign = sorted(text & self.model_fields_set) if self.data in RISKS else []
        return [
            (bool(foreign), f"`{''.join(foreign[:1])}` is for text; {self.data!r} has its own sizes"),
            *super().rules(),
        ]


class TrainHeads(AbstractTraining):
    """`measureflow train heads`."""

    name = "train heads"
    baselines: ClassVar[dict[str, str]] = {name: name for name in ("uniform", "unigram", "bigram")}

    def schema(self, words: dict[str, Any]) -> type[Settings]:
        """The settings of the training of heads."""
        return HeadTraining

    def worth(self, stats: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """Baselines, hits, unseen text, and what the heads write."""
        if "uniform" in stats:
            bigram = f", {stats['bigram']:.4g} bigram" if "bigram" in stats else ""
            yield (
                "baselines",
                f"{stats['uniform']:.4g} by chance (log V), {stats['unigram']:.4g} unigram{bigram} entropy",
            )
        yield from worth_rows(stats, "of next tokens")
        if "continuation" in stats:
            yield "prompt", repr(stats["prompt"])
            yield "continuation", repr(stats["continuation"])
