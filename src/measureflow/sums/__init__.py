"""The engine room: kernel sums over weighted points, the one place where work over pairs is done."""

from measureflow.sums.base import AbstractEngine as AbstractEngine
from measureflow.sums.base import Attended as Attended
from measureflow.sums.blockwise import Blockwise as Blockwise
from measureflow.sums.blockwise import Dense as Dense
from measureflow.sums.choice import Auto as Auto
from measureflow.sums.choice import choose as choose
from measureflow.sums.fourier import Fourier as Fourier
from measureflow.sums.harmonics import Harmonics as Harmonics
from measureflow.sums.native import Native as Native
from measureflow.sums.nufft import Nufft as Nufft
from measureflow.sums.pallas import Pallas as Pallas
from measureflow.sums.past import Past as Past
from measureflow.sums.sharded import Sharded as Sharded
