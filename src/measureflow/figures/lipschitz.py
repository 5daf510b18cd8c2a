"""How steep one head of a pretrained transformer is on a text, and on adversarial tokens as long as those of the text.

Both are slopes of one map, the head without places and masks, so that they can be compared: the text lies below.
"""

import tempfile
from pathlib import Path

from measureflow.commands.inspect.analysis import Inspected
from measureflow.plotting import Figure, panels
from measureflow.plotting.inspection import draw_head_slopes
from measureflow.runs.command import command
from measureflow.runs.executor import perform

TEXT = (
    "Tokens see each other through attention, and each moves towards what it sees. Seen together they are a measure, and the "
    "layers of a network are the times of its motion. What is alike comes together, and what is far apart waits. "
)


def figure(model: str = "minilm", length: int = 64, layers: tuple[int, ...] = (0, 3)) -> Figure:
    """The steepest of some layers, and there the head that can be tempted most, on windows of a text of some length."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        text.write_text(TEXT * 20)
        asked = {"model": [model], "text": str(text), "windows": 4, "length": length, "layers": list(layers)}
        job = command("inspect").job(command("inspect").settings(asked))
        found = Inspected(perform(job, Path(folder, "run")))
        page, (ax,) = panels(width=6.4, height=4.6)
        draw_head_slopes(ax, found)
        return page
