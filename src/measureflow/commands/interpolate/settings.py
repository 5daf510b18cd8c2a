"""The settings of `measureflow interpolate`; needs no JAX."""

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, PositiveInt, field_validator

from measureflow.words.settings import Seed, Settings, file_there
from measureflow.words.vocabulary import Positive

FILES = (".npz", ".npy")
"""Kinds of files that hold measures."""

POSITIONAL: Any = {"positional": "INPUTS TARGETS"}
"""The files are words without an option in front."""


class Interpolating(Settings):
    """Find one schedule of weights that brings several measures to their targets; keep it, the flow, table, picture and movie."""

    shown: ClassVar[tuple[str, ...]] = ("files", "error", "seed")

    files: tuple[str, ...] = Field(
        (),
        description="two files: an npz with one array of tokens (n, d) for each measure, or an npy (N, n, d); and its targets, "
        "the same or an npy of points (N, d). Overlapping clouds and random points are drawn unless given",
        json_schema_extra=POSITIONAL,
    )
    measures: PositiveInt = Field(3, description="number of clouds that are drawn")
    n: PositiveInt = Field(60, description="tokens of each of them")
    dim: PositiveInt = Field(3, description="ambient coordinates of them")
    project: bool = Field(False, description="put the tokens of files on the sphere")
    error: Positive = Field(1e-3, description="W_2 to be left at the end, if targets are points")
    time: Positive | None = Field(None, description="how long the schedule lasts; its own pace unless given")
    width: PositiveInt = Field(64, description="hidden units of the perceptron that is fitted if targets are clouds")
    seed: Seed = Field(0, description="seed of the clouds, of ways and of units")
    frames: int = Field(121, ge=2, description="number of frames to keep, beside those where weights change")
    frames_per_leg: PositiveInt = Field(11, description="frames computed and saved at once; part of what is computed")
    verify: bool = Field(True, description="run again with other steps to estimate the error of the solver")
    movie: bool = Field(True, description="also write movie.gif")

    @field_validator("files")
    @classmethod
    def _two(cls, files: tuple[str, ...], info: Any) -> tuple[str, ...]:
        if len(files) not in (0, 2):
            raise ValueError(f"must be two, inputs and targets, or none; got {len(files)}")
        for file in files:
            if Path(file).suffix not in FILES:
                raise ValueError(f"must end in {' or '.join(FILES)}; got {file!r}")
            if not file_there(file, info):
                raise ValueError(f"there is no file {file!r}")
        return files

    def rules(self) -> list[tuple[bool, str]]:
        """What must not be, each with the sentence that says so."""
        drawn = sorted({"measures", "n", "dim"} & self.model_fields_set)
        return [
            (
                bool(self.files) and bool(drawn),
                f"{' and '.join(f'`{name}`' for name in drawn)} say what is drawn, and `files` are given: drop one of the two",
            ),
            (
                self.project and not self.files,
                "`project` is for tokens of files; clouds that are drawn are on the sphere",
            ),
        ]

    def inputs(self) -> tuple[str, ...]:
        """The files, if there are some."""
        return (*self.files, *([self.use] if self.use is not None else []))

    def numbers(self) -> float:
        """Tokens in all stages of a step and the frames of a leg, and the times."""
        return self.measures * self.n * self.dim * (100.0 + 4 * self.frames_per_leg) + 10.0 * self.frames

    def sizes(self) -> tuple[str, ...]:
        """What is drawn, and the frames."""
        return "measures", "n", "dim", "frames"
