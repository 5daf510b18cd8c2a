"""The settings of `measureflow inspect`; needs no JAX."""

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator

from measureflow.words.settings import Seed, Settings, file_there
from measureflow.words.vocabulary import Positive

POSITIONAL: Any = {"positional": "MODEL"}
"""The model is a word without an option in front."""

WINDOWS = 16
"""At most so many windows of a text are inspected, unless more are asked for."""

LAYERS = 12
"""At most so many layers have their slopes measured, unless more are asked for."""


class Inspecting(Settings):
    """Look at a pretrained transformer as a measure in motion, on your text: clusters, slopes, heads, and what theory says."""

    shown: ClassVar[tuple[str, ...]] = ("model", "text", "length", "seed")

    model: tuple[str, ...] = Field(
        (),
        min_length=1,
        validate_default=True,
        description="a folder with config.json and safetensors, a file of GGUF, or a name: minilm, smollm2",
        json_schema_extra=POSITIONAL,
    )
    text: str | None = Field(None, description="text file that a language model looks at")
    images: str | None = Field(None, description="image file, or folder of them, that a vision transformer looks at")
    windows: PositiveInt | None = Field(
        None, description=f"windows of text, or images; as many as there are, up to {WINDOWS}, unless given"
    )
    length: int = Field(128, ge=8, description="tokens of a window, with those that mark its ends")
    layers: tuple[NonNegativeInt, ...] = Field(
        (),
        description="layers, counted from 0, whose slopes are measured and which are continued; all, or some spread evenly over "
        "a deep model, unless given",
    )
    beta: Positive = Field(1.0, description="inverse temperature of the energy that is watched")
    tolerance: float = Field(0.45, gt=0, lt=3.1415, description="angle up to which tokens are linked to one group")
    seed: Seed = Field(0, description="seed of shuffled and random tokens, random weights and intervals")

    @field_validator("model")
    @classmethod
    def _one(cls, model: tuple[str, ...]) -> tuple[str, ...]:
        if len(model) != 1:
            raise ValueError(f"must be one; got {len(model)}: {', '.join(model)}")
        return model

    @field_validator("text", "images")
    @classmethod
    def _there(cls, file: str | None, info: Any) -> str | None:
        if file is None or file_there(file, info) or (info.field_name == "images" and Path(file).is_dir()):
            return file
        raise ValueError(f"there is no file {file!r}")

    def rules(self) -> list[tuple[bool, str]]:
        """What must not be, each with the sentence that says so."""
        return [
            (
                (self.text is None) == (self.images is None),
                "`text` (or `images`, for a vision transformer) must be given, one of the two: tokens come from there",
            ),
        ]

    def inputs(self) -> tuple[str, ...]:
        """The text, or the images."""
        named = [] if self.text is None else [self.text]
        return (*named, *map(str, self.pictures()), *([self.use] if self.use is not None else []))

    def pictures(self) -> list[Path]:
        """The image files."""
        place = Path(self.images) if self.images is not None else None
        if place is None or not place.exists():
            return []
        ends = (".png", ".jpg", ".jpeg")
        return [place] if place.is_file() else sorted(file for file in place.iterdir() if file.suffix.lower() in ends)
