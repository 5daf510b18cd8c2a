"""`measureflow inspect MODEL --text FILE`: a pretrained transformer as a measure in motion, with verdicts."""

from measureflow.cli.simulate import main_of


def main(argv: list[str]) -> int:
    """Parse, look at every layer with a progress bar, then print the table and write picture, page and data."""
    return main_of("inspect", argv)
