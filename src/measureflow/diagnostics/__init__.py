"""Diagnostics: what to read off a measure or a trajectory."""

from measureflow import signatures
from measureflow.diagnostics.chaos import ChaosRate as ChaosRate
from measureflow.diagnostics.chaos import chaos_rate as chaos_rate
from measureflow.diagnostics.chaos import moment_distance as moment_distance
from measureflow.diagnostics.clustering import ClusterChange as ClusterChange
from measureflow.diagnostics.clustering import Clusters as Clusters
from measureflow.diagnostics.clustering import changes as changes
from measureflow.diagnostics.clustering import cluster_counts as cluster_counts
from measureflow.diagnostics.clustering import clusters as clusters
from measureflow.diagnostics.clustering import extent as extent
from measureflow.diagnostics.clustering import labels as labels
from measureflow.diagnostics.clustering import merge_times as merge_times
from measureflow.diagnostics.estimate import line_modes as line_modes
from measureflow.diagnostics.estimate import modes as modes
from measureflow.diagnostics.fitting import Decay as Decay
from measureflow.diagnostics.fitting import decay as decay
from measureflow.diagnostics.joining import Linkage as Linkage
from measureflow.diagnostics.joining import Mergers as Mergers
from measureflow.diagnostics.joining import heights as heights
from measureflow.diagnostics.joining import mergers as mergers
from measureflow.diagnostics.order import mean_overlap as mean_overlap
from measureflow.diagnostics.order import order_parameter as order_parameter
from measureflow.diagnostics.order import overlap_histogram as overlap_histogram
from measureflow.diagnostics.order import share_of_met_pairs as share_of_met_pairs
from measureflow.diagnostics.renyi import Centres as Centres
from measureflow.diagnostics.renyi import centres as centres
from measureflow.diagnostics.rest import Index as Index
from measureflow.diagnostics.rest import index as index
from measureflow.diagnostics.smoothness import Lipschitz as Lipschitz
from measureflow.diagnostics.smoothness import lipschitz as lipschitz
from measureflow.diagnostics.spread import Hemisphere as Hemisphere
from measureflow.diagnostics.spread import effective_rank as effective_rank
from measureflow.diagnostics.spread import hemisphere as hemisphere
from measureflow.diagnostics.staircase import Plateaus as Plateaus
from measureflow.diagnostics.staircase import plateaus as plateaus
from measureflow.diagnostics.structure import Balance as Balance
from measureflow.diagnostics.structure import curl as curl
from measureflow.diagnostics.structure import energy_balance as energy_balance

signatures.shorten(globals())
