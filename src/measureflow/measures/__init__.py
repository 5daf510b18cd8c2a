"""The measures that move."""

from measureflow.measures.base import AbstractMeasure as AbstractMeasure
from measureflow.measures.particles import Particles as Particles
from measureflow.measures.sequence import Sequence as Sequence
