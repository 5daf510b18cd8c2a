"""Optimal transport: distances, couplings and geodesics between measures, and how well samples estimate them."""

from measureflow import signatures
from measureflow.transport.distances import conditional as conditional
from measureflow.transport.distances import sliced as sliced
from measureflow.transport.distances import wasserstein as wasserstein
from measureflow.transport.entropic import EntropicMap as EntropicMap
from measureflow.transport.entropic import default_regularisation as default_regularisation
from measureflow.transport.entropic import entropic_cost as entropic_cost
from measureflow.transport.entropic import entropic_map as entropic_map
from measureflow.transport.entropic import sinkhorn_divergence as sinkhorn_divergence
from measureflow.transport.gaussians import Barycenter as Barycenter
from measureflow.transport.gaussians import bures as bures
from measureflow.transport.gaussians import bures_barycenter as bures_barycenter
from measureflow.transport.gaussians import bures_geodesic as bures_geodesic
from measureflow.transport.gaussians import bures_map as bures_map
from measureflow.transport.inference import Inference as Inference
from measureflow.transport.inference import gaussian_inference as gaussian_inference
from measureflow.transport.mixtures import mixture_distance as mixture_distance
from measureflow.transport.simplex import Coupling as Coupling
from measureflow.transport.simplex import coupling as coupling
from measureflow.transport.simplex import mixture as mixture
from measureflow.transport.statistics import Estimate as Estimate
from measureflow.transport.statistics import empirical_rate as empirical_rate
from measureflow.transport.statistics import estimate as estimate

signatures.shorten(globals())
