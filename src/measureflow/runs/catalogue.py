"""The table of all commands: the line of each in `measureflow --help`, and for those that make runs their class.

A command that makes runs is its folder in `commands/` and one line here; `cli/run.py` serves it. Other commands have a module in
`cli/` of their name. Classes load when they are first used, so that the help needs nothing else.
"""

from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A command: what it does, in a line, and the class that declares its runs; one without a line is no command of its own."""

    help: str = ""
    declared: str | type[Any] | None = None


COMMANDS = {
    "simulate": Entry(
        "move tokens under attention; save data, table and picture", "measureflow.commands.simulate:Simulate"
    ),
    "record": Entry(declared="measureflow.runs.command:Record"),
    "train": Entry("train attention heads as a measure flow, and certify what came out"),
    "train heads": Entry(declared="measureflow.commands.train:TrainHeads"),
    "train neurons": Entry(declared="measureflow.commands.train:TrainNeurons"),
    "sweep": Entry("simulate or train over grids, lists and draws of settings; one table, one picture, nothing twice"),
    "interpolate": Entry(
        "map several measures to their targets by one schedule of weights; save it all, with the movie",
        "measureflow.commands.interpolate:Interpolate",
    ),
    "inspect": Entry(
        "look at a pretrained transformer through the same objects: clusters, slopes, heads, verdicts",
        "measureflow.commands.inspect:Inspect",
    ),
    "smooth": Entry("how fast a graph network loses the features of your graph, and what keeps them"),
    "resume": Entry("go on with an interrupted run, to the same bits"),
    "plot": Entry("draw the pictures of runs again, from their folders"),
    "rerun": Entry("run again what a run was asked for, and compare"),
    "compare": Entry("set runs side by side: tables, and a picture"),
    "study": Entry("list published claims, run them, print verdicts"),
    "figure": Entry("draw the figures of papers and talks, each by its name"),
    "bench": Entry("time kernel sums against what a user would pick instead"),
}
"""All commands by name, in the order of the help."""
