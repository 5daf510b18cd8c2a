"""The options of `measureflow bench`; needs no JAX."""

from typing import Literal

from pydantic import Field, FiniteFloat, PositiveInt

from measureflow.words.outputs import Output, Picture, Words

LARGEST = 1000
"""Inverse temperatures beyond which transforms over three coordinates would take gigabytes."""


class Bench(Words):
    """Time one attention map on the sphere with every engine and installed peer, interleaved; print medians and ratios."""

    n: tuple[PositiveInt, ...] = Field((512, 2048, 8192), description="numbers of tokens")
    dim: PositiveInt = Field(3, description="coordinates of a token")
    beta: FiniteFloat = Field(4.0, ge=-LARGEST, le=LARGEST, description="inverse temperature")
    dtype: Literal["float32", "float64"] = Field("float32", description="precision")
    repeats: PositiveInt = Field(7, description="interleaved runs of which the median is taken")
    device: Literal["gpu"] | None = Field(
        None, description="instead, the whole table of a GPU: sums, gradients, below all pairs, flows, PyTorch beside"
    )
    json_file: Output | None = Field(None, alias="json", description="also write the rows to this file")
    picture: Picture | None = Field(None, description="also draw time against n into this file")
    calibrate: bool = Field(
        False,
        description="instead, measure what each engine costs here and keep it, so that the choice fits this machine",
    )
