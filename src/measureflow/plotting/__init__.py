"""Pictures of flows; the only floor that imports matplotlib.

Numbers come in and axes or figures go out: nothing is computed here but the projection to the drawing plane. Figures
are plain objects, never pyplot's, so drawing works without a display and leaves no state behind.
"""

from matplotlib.figure import Figure as Figure

from measureflow import signatures
from measureflow.plotting.budgets import budget_figure as budget_figure
from measureflow.plotting.compare import compare_figure as compare_figure
from measureflow.plotting.compare import draw_distance as draw_distance
from measureflow.plotting.compare import draw_overlay as draw_overlay
from measureflow.plotting.compare import draw_together as draw_together
from measureflow.plotting.compare import variants_figure as variants_figure
from measureflow.plotting.curves import draw_energy as draw_energy
from measureflow.plotting.curves import draw_series as draw_series
from measureflow.plotting.curves import draw_steps as draw_steps
from measureflow.plotting.curves import telling_frames as telling_frames
from measureflow.plotting.density import draw_density_over_time as draw_density_over_time
from measureflow.plotting.density import draw_ring as draw_ring
from measureflow.plotting.density import draw_sphere_map as draw_sphere_map
from measureflow.plotting.gaussian import draw_cone as draw_cone
from measureflow.plotting.gaussian import draw_disc as draw_disc
from measureflow.plotting.gaussian import draw_ellipses as draw_ellipses
from measureflow.plotting.interpolating import interpolation_figure as interpolation_figure
from measureflow.plotting.laws import Curve as Curve
from measureflow.plotting.laws import curves_figure as curves_figure
from measureflow.plotting.laws import draw_curves as draw_curves
from measureflow.plotting.laws import draw_ranges as draw_ranges
from measureflow.plotting.laws import dress as dress
from measureflow.plotting.laws import panels as panels
from measureflow.plotting.limits import axial_figure as axial_figure
from measureflow.plotting.limits import circle_figure as circle_figure
from measureflow.plotting.limits import gaussian_figure as gaussian_figure
from measureflow.plotting.limits import sphere_figure as sphere_figure
from measureflow.plotting.marks import cluster_colours as cluster_colours
from measureflow.plotting.mergers import draw_mergers as draw_mergers
from measureflow.plotting.mergers import mergers_figure as mergers_figure
from measureflow.plotting.moving import movie as movie
from measureflow.plotting.paths import draw_cells as draw_cells
from measureflow.plotting.paths import draw_hull as draw_hull
from measureflow.plotting.paths import draw_paths as draw_paths
from measureflow.plotting.recorded import Along as Along
from measureflow.plotting.recorded import Record as Record
from measureflow.plotting.recorded import Recorded as Recorded
from measureflow.plotting.recorded import draw_watched as draw_watched
from measureflow.plotting.recorded import watched_figure as watched_figure
from measureflow.plotting.run import run_figure as run_figure
from measureflow.plotting.smoothing import Fading as Fading
from measureflow.plotting.smoothing import smoothing_figure as smoothing_figure
from measureflow.plotting.sweeps import Axis as Axis
from measureflow.plotting.sweeps import Band as Band
from measureflow.plotting.sweeps import Law as Law
from measureflow.plotting.sweeps import bands_figure as bands_figure
from measureflow.plotting.sweeps import draw_bands as draw_bands
from measureflow.plotting.sweeps import draw_map as draw_map
from measureflow.plotting.sweeps import maps_figure as maps_figure
from measureflow.plotting.tables import draw_counts as draw_counts
from measureflow.plotting.tables import draw_table as draw_table
from measureflow.plotting.tokens import draw_tokens as draw_tokens
from measureflow.plotting.training import draw_particles as draw_particles
from measureflow.plotting.training import draw_risk as draw_risk
from measureflow.plotting.training import training_figure as training_figure
from measureflow.plotting.transport import draw_interpolations as draw_interpolations
from measureflow.plotting.view import View as View
from measureflow.plotting.view import view_of as view_of
from measureflow.plotting.ways import ways_figure as ways_figure

signatures.shorten(globals())
