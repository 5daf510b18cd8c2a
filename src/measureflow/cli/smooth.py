"""`measureflow smooth GRAPH`: how fast a graph network loses features on a graph, and which residuals keep them."""

from pathlib import Path

from measureflow.cli import prepare_jax
from measureflow.cli.options import parse
from measureflow.cli.showing import print_report, print_written, say
from measureflow.commands.smooth.settings import Smooth
from measureflow.words.outputs import numbers_beside, write_numbers
from measureflow.words.settings import InputError

COMMAND = "measureflow smooth"


def main(argv: list[str]) -> int:
    """Parse, compute, and write the picture and the numbers."""
    words = parse(Smooth, argv, "measureflow smooth")
    words.check()
    picture = Path(words.out)
    data = numbers_beside(picture, COMMAND)
    prepare_jax()
    from measureflow.cli.printing import Printer
    from measureflow.commands.smooth.job import graph_of, smoothing, weights_of
    from measureflow.commands.smooth.report import figure, numbers, table

    graph = graph_of(words.name, walk=words.normalisation == "walk")
    weights = weights_of(words.weights, words.features, words.sigma, words.matrix, words.seed)
    say(f"Running {words.layers} layers on {graph.n} vertices ...")
    asked = {key: getattr(words, key) for key in ("alpha", "layers", "seeds", "seed", "lost", "keep")}
    found = smoothing(Path(words.name).name, graph, weights, relu=words.activation == "relu", **asked)
    console = Printer()
    print_report(console, table(found))
    try:
        figure(found).savefig(picture)
        write_numbers(data, COMMAND, numbers(found))
    except OSError as error:
        raise InputError(f"`out`: cannot write {str(picture)!r}: {error.strerror or error}.") from None
    print_written(console, {"picture": picture, "data": data})
    return 0
