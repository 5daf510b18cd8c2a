"""Energies of measures and their gradient flows."""

from measureflow import signatures
from measureflow.energies.base import AbstractEnergy as AbstractEnergy
from measureflow.energies.base import EnergySum as EnergySum
from measureflow.energies.base import GradientFlow as GradientFlow
from measureflow.energies.formula import Energy as Energy
from measureflow.energies.gaussian import ScoreEnergy as ScoreEnergy
from measureflow.energies.gaussian import TwistedFlow as TwistedFlow
from measureflow.energies.interaction import BilinearEnergy as BilinearEnergy
from measureflow.energies.interaction import InteractionEnergy as InteractionEnergy
from measureflow.energies.sinkhorn import SinkhornEnergy as SinkhornEnergy

signatures.shorten(globals())
