"""Flows: a field moves a measure."""

from measureflow.flows.evolve import evolve as evolve
from measureflow.flows.evolve import legs as legs
from measureflow.flows.layers import layers as layers
from measureflow.flows.noise import Langevin as Langevin
from measureflow.flows.solvers import RK4 as RK4
from measureflow.flows.solvers import AbstractSolver as AbstractSolver
from measureflow.flows.solvers import Adaptive as Adaptive
from measureflow.flows.solvers import Euler as Euler
from measureflow.flows.solvers import Heun as Heun
from measureflow.flows.solvers import Stiff as Stiff
from measureflow.flows.trajectory import Outcome as Outcome
from measureflow.flows.trajectory import Trajectory as Trajectory
