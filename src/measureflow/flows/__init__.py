"""Flows: a field moves a measure."""

from measureflow import signatures
from measureflow.flows.admitting import precision as precision
from measureflow.flows.depth import Layers as Layers
from measureflow.flows.depth import layers as layers
from measureflow.flows.flow import AbstractFlow as AbstractFlow
from measureflow.flows.flow import Flow as Flow
from measureflow.flows.flow import evolve as evolve
from measureflow.flows.noise import AbstractNoise as AbstractNoise
from measureflow.flows.noise import Langevin as Langevin
from measureflow.flows.solvers import RK4 as RK4
from measureflow.flows.solvers import AbstractFixedStep as AbstractFixedStep
from measureflow.flows.solvers import AbstractSolver as AbstractSolver
from measureflow.flows.solvers import AbstractTolerance as AbstractTolerance
from measureflow.flows.solvers import Adaptive as Adaptive
from measureflow.flows.solvers import Euler as Euler
from measureflow.flows.solvers import Heun as Heun
from measureflow.flows.solvers import Stiff as Stiff
from measureflow.flows.trajectory import Events as Events
from measureflow.flows.trajectory import Outcome as Outcome
from measureflow.flows.trajectory import Trajectory as Trajectory

signatures.shorten(globals())
