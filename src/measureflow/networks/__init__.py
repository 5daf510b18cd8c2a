"""Networks of measures: Gaussian-mixture layers, experts, graph networks, and transformers from measures to measures."""

from measureflow import signatures
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
from measureflow.networks.graphs import Rate as Rate
from measureflow.networks.graphs import log_modes as log_modes
from measureflow.networks.graphs import log_similarities as log_similarities
from measureflow.networks.graphs import measured_rate as measured_rate
from measureflow.networks.graphs import mode_similarities as mode_similarities
from measureflow.networks.graphs import similarity as similarity
from measureflow.networks.graphs import smoothing_rate as smoothing_rate
from measureflow.networks.graphs import strongest_residual as strongest_residual
from measureflow.networks.interpolation import Interpolation as Interpolation
from measureflow.networks.interpolation import Stage as Stage
from measureflow.networks.interpolation import Stages as Stages
from measureflow.networks.interpolation import interpolate as interpolate
from measureflow.networks.weights import AbstractWeights as AbstractWeights
from measureflow.networks.weights import BoundedWeights as BoundedWeights
from measureflow.networks.weights import CommutingWeights as CommutingWeights
from measureflow.networks.weights import FixedWeights as FixedWeights
from measureflow.networks.weights import GaussianWeights as GaussianWeights

signatures.shorten(globals())
