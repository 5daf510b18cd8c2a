"""Networks of measures: Gaussian-mixture layers, mixtures of experts, and transformers that map measures to measures."""

from measureflow import annotations, precision
from measureflow.networks.covariances import AbstractCovariances as AbstractCovariances
from measureflow.networks.covariances import Diagonal as Diagonal
from measureflow.networks.covariances import Full as Full
from measureflow.networks.covariances import Isotropic as Isotropic
from measureflow.networks.covariances import LowRank as LowRank
from measureflow.networks.experts import AbstractExperts as AbstractExperts
from measureflow.networks.experts import ConstantExperts as ConstantExperts
from measureflow.networks.experts import LinearExperts as LinearExperts
from measureflow.networks.experts import MixtureOfExperts as MixtureOfExperts
from measureflow.networks.experts import ReLUExperts as ReLUExperts
from measureflow.networks.gaussian import Dense as Dense
from measureflow.networks.gaussian import GaussianMixtureLayer as GaussianMixtureLayer
from measureflow.networks.interpolation import Interpolation as Interpolation
from measureflow.networks.interpolation import Stage as Stage
from measureflow.networks.interpolation import Stages as Stages
from measureflow.networks.interpolation import interpolate as interpolate

precision.keep_all(globals())
annotations.shorten(globals())
