from .backends import Dask as Dask
from .backends import Processes as Processes
from .backends import Slurm as Slurm
from .design import Design as Design
from .executor import sweep as sweep
from .reader import Sweep as Sweep
from .reader import open_sweep as open_sweep
