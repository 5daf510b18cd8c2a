"""`measureflow interpolate`: several measures to their targets under one schedule of weights, saved and pictured."""

from measureflow.cli.simulate import main_of


def main(argv: list[str]) -> int:
    """Parse, plan, run with a progress bar, then print the table, draw figure and movie and name what was written."""
    return main_of("interpolate", argv)
