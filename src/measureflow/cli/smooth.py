"""`measureflow smooth GRAPH`: how fast a graph network loses features on a graph, and which residuals keep them."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from measureflow.cli import prepare_jax
from measureflow.cli.options import Picture, Words, parse, positional
from measureflow.cli.showing import print_report, print_written, say
from measureflow.words.settings import InputError, Seed
from measureflow.words.vocabulary import Positive

Share = Annotated[float, Field(gt=0, lt=1)]


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


def main(argv: list[str]) -> int:
    """Parse, compute, and write the picture and the numbers."""
    words = parse(Smooth, argv, "measureflow smooth")
    if len(words.graph) > 1:
        raise InputError(f"`GRAPH` must be one graph; got {len(words.graph)}: {' '.join(words.graph)}.")
    if words.matrix is not None and words.weights != "fixed":
        raise InputError("`matrix` is for `weights` fixed.")
    prepare_jax()
    import json

    from rich.console import Console

    from measureflow.commands.smooth.job import graph_of, smoothing, weights_of

    name = words.graph[0] if words.graph else "karate"
    graph = graph_of(name, walk=words.normalisation == "walk")
    weights = weights_of(words.weights, words.features, words.sigma, words.matrix, words.seed)
    say(f"Running {words.layers} layers on {graph.n} vertices ...")
    asked = {key: getattr(words, key) for key in ("alpha", "layers", "seeds", "seed", "lost", "keep")}
    found = smoothing(Path(name).name, graph, weights, relu=words.activation == "relu", **asked)
    console, picture = Console(), Path(words.out)
    print_report(console, found.report)
    data = picture.with_suffix(".json")
    try:
        found.figure.savefig(picture)
        data.write_text(json.dumps(found.stored(), indent=1))
    except OSError as error:
        raise InputError(f"`out`: cannot write {str(picture)!r}: {error.strerror or error}.") from None
    print_written(console, {"picture": picture, "data": data})
    return 0
