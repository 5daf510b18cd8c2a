"""The configuration of a training run: one schema for the command line, TOML files and run folders; it needs no JAX."""

from pathlib import Path
from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    field_validator,
    model_validator,
)

from measureflow.runs.config import Positive, as_toml

FIXTURES = ("f1", "f2")


class HeadTraining(BaseModel):
    """Train attention heads by cross-entropy and keep the result: data, table and picture."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str = Field("f1", description="f1 or f2, the fixtures of the theory, or a text file read by characters")
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
    scale: Positive = Field(0.5, description="standard deviation of the initial parameters")
    dim: PositiveInt = Field(16, description="coordinates of a character, for text")
    head_dim: PositiveInt = Field(4, description="size of queries, keys and values, for text")
    length: PositiveInt = Field(32, description="characters in a window, for text")
    windows: PositiveInt = Field(32, description="windows of the text on which the risk is measured")
    limit: NonNegativeInt = Field(0, description="also train this many heads and draw their risk, the mean-field limit")
    seed: NonNegativeInt = Field(0, description="seed of initial heads and samples")
    frames: int = Field(40, ge=2, description="number of frames to keep")
    frames_per_leg: PositiveInt = Field(8, description="frames computed and saved at once; part of what is computed")
    out: str | None = Field(None, description="run folder to write; a new one under runs/ unless given")
    force: bool = Field(False, description="replace the run folder if it exists")

    @field_validator("data")
    @classmethod
    def _known(cls, data: str) -> str:
        if data not in FIXTURES and not Path(data).is_file():
            raise ValueError(f"must be one of {', '.join(FIXTURES)} or a text file; there is no file {data!r}")
        return data

    @model_validator(mode="after")
    def _agree(self) -> "HeadTraining":
        if self.optimiser == "langevin" and self.profile != "constant":
            raise ValueError("`profile` must be constant for langevin, whose noise does not change in time")
        if self.data not in FIXTURES:
            return self
        if given := {"dim", "head_dim", "length", "windows"} & self.model_fields_set:
            raise ValueError(f"`{min(given)}` is for text; the fixture {self.data!r} has its own sizes")
        return self

    def to_toml(self) -> str:
        """The configuration as a TOML text that `--config` reads; where to write is not part of it."""
        asked = (self.model_fields_set | {"data", "heads", "optimiser", "step", "time", "seed"}) - {"out", "force"}
        values = self.model_dump(exclude_none=True, include=asked)
        return as_toml(values)
