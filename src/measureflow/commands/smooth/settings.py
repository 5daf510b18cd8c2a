"""The options of `measureflow smooth`; needs no JAX."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from measureflow.words.outputs import Picture, Words, positional
from measureflow.words.settings import InputError, Seed
from measureflow.words.vocabulary import Positive

Share = Annotated[float, Field(gt=0, lt=1)]
"""A number between 0 and 1."""


class Smooth(Words):
    """How fast a deep graph network makes the features of a graph the same at all vertices, without residuals and with
    x + α P x W, and which strength α keeps them: a table, a picture and all numbers beside it."""

    graph: tuple[str, ...] = positional(
        "GRAPH",
        "karate, les-miserables, davis, florentine, petersen; or a file: lines `u v [weight]`, a sparse npz, GraphML, GML "
        "(default: karate)",
        least=0,
    )
    layers: PositiveInt = Field(64, description="depth of the network")
    alpha: Positive = Field(0.3, description="residual strength")
    weights: Literal["gaussian", "fixed", "diagonal", "bounded"] = Field(
        "gaussian", description="drawn anew in each layer, once, in one eigenbasis, or with a bounded norm"
    )
    features: PositiveInt = Field(8, description="number of features")
    sigma: Positive | None = Field(
        None, description="deviation of entries (1/√features unless given), of eigenvalues (1), or the norm (1)"
    )
    matrix: str | None = Field(None, description="file of fixed weights, npy or CSV")
    activation: Literal["none", "relu"] = Field("none", description="relu has no formula, and is measured")
    seeds: int = Field(10, ge=2, description="number of runs")
    seed: Seed = Field(0, description="seed of weights and features")
    normalisation: Literal["symmetric", "walk"] = Field(
        "symmetric", description="D^-1/2 (A + I) D^-1/2, or D^-1 (A + I)"
    )
    lost: Share = Field(1e-3, description="similarity below which features count as lost")
    keep: Share = Field(0.5, description="similarity that the wanted residual strength keeps up to the last layer")
    out: Picture = Field(
        "smooth.png", description="picture to write; the numbers are beside it as JSON", validate_default=True
    )

    @property
    def name(self) -> str:
        """The name or the file of the graph."""
        return self.graph[0] if self.graph else "karate"

    def check(self) -> None:
        """Refuse options that do not go together, with a sentence."""
        if len(self.graph) > 1:
            raise InputError(f"`GRAPH` must be one graph; got {len(self.graph)}: {' '.join(self.graph)}.")
        if self.matrix is not None and self.weights != "fixed":
            raise InputError("`matrix` is for `weights` fixed.")
