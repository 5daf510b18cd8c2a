"""The engine room: kernel sums over weighted points, the one place where work over pairs is done."""

from measureflow import signatures
from measureflow.sums.base import AbstractEngine as AbstractEngine
from measureflow.sums.base import Attended as Attended
from measureflow.sums.base import KernelSum as KernelSum
from measureflow.sums.blockwise import Blockwise as Blockwise
from measureflow.sums.blockwise import Dense as Dense
from measureflow.sums.choice import Auto as Auto
from measureflow.sums.choice import choose as choose
from measureflow.sums.costs import Cost as Cost
from measureflow.sums.fourier import Fourier as Fourier
from measureflow.sums.harmonics import Harmonics as Harmonics
from measureflow.sums.native import Native as Native
from measureflow.sums.nufft import Nufft as Nufft
from measureflow.sums.pallas import Pallas as Pallas
from measureflow.sums.past import Past as Past
from measureflow.sums.registry import engine as engine
from measureflow.sums.registry import engines as engines
from measureflow.sums.registry import forget as forget
from measureflow.sums.registry import names as names
from measureflow.sums.registry import register as register
from measureflow.sums.sharded import Sharded as Sharded

signatures.shorten(globals())
