import measureflow.sweeps

from .comparison import compare as compare
from .executor import perform as perform
from .invocation import rerun as rerun
from .invocation import resume as resume
from .invocation import run as run
from .reader import Run as Run
from .reader import open as open
from .recorder import record as record
from .report import figure as figure
from .report import movie as movie
from .report import table as table
from .results import load as load

sweep = measureflow.sweeps.sweep
open_sweep = measureflow.sweeps.open_sweep
