"""The measures that move."""

from measureflow import signatures
from measureflow.measures.axial import AxialDensity as AxialDensity
from measureflow.measures.base import AbstractDiffusive as AbstractDiffusive
from measureflow.measures.base import AbstractHeated as AbstractHeated
from measureflow.measures.base import AbstractMeasure as AbstractMeasure
from measureflow.measures.circle import CircleCells as CircleCells
from measureflow.measures.circle import CircleDensity as CircleDensity
from measureflow.measures.cloud import AbstractCloud as AbstractCloud
from measureflow.measures.cloud import AbstractSampled as AbstractSampled
from measureflow.measures.gaussian import Gaussian as Gaussian
from measureflow.measures.mixture import GaussianMixture as GaussianMixture
from measureflow.measures.particles import Particles as Particles
from measureflow.measures.sequence import Sequence as Sequence
from measureflow.measures.sphere import SphereDensity as SphereDensity

signatures.shorten(globals())
