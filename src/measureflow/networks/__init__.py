"""Networks whose parameters are measures: layers with Gaussian mixtures of neurons."""

from measureflow import annotations, precision
from measureflow.networks.covariances import AbstractCovariances as AbstractCovariances
from measureflow.networks.covariances import Diagonal as Diagonal
from measureflow.networks.covariances import Full as Full
from measureflow.networks.covariances import Isotropic as Isotropic
from measureflow.networks.covariances import LowRank as LowRank
from measureflow.networks.gaussian import Dense as Dense
from measureflow.networks.gaussian import GaussianMixtureLayer as GaussianMixtureLayer

precision.keep_all(globals())
annotations.shorten(globals())
