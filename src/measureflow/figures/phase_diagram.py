"""When 32 tokens in 128 dimensions meet: a map over temperature and time, with the equiangular law."""

import tempfile
from pathlib import Path

from measureflow.plotting import Figure
from measureflow.sweeps.design import Design
from measureflow.sweeps.executor import folder_of, perform_sweep, work_of
from measureflow.sweeps.picture import picture

DESIGN = """
n = 32
dim = 128
time = 30.0
frames = 100
solver = "euler"
dt = 0.1
series = ["met"]
verify = false

[sweep]
title = "When tokens meet: 32 tokens in 128 dimensions"
keep = "series"
show = "met"
theory = "meeting"

[sweep.grid]
beta = { from = 0.1, to = 9.0, count = 45 }
seed = { from = 0, to = 7 }
"""


def figure() -> Figure:
    """The share of pairs that have met, averaged over eight starts."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "meeting.toml")
        file.write_text(DESIGN)
        design = Design.read(str(file))
        out = folder_of(str(file), str(Path(folder, "sweep")))
        return picture(perform_sweep(design, work_of(design, out), out))
