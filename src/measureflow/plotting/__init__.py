"""Pictures of flows; the only package that imports matplotlib.

Functions `draw_...` draw on the axes they are given and return them; functions `..._figure` draw into the `figure` they are
given (a figure, of pyplot or not, or a subfigure) and make one otherwise. Nothing is computed here but the projection to the
drawing plane. New figures are plain objects, not pyplot's, so drawing works without a display and leaves no state behind.

The pictures of single commands are in submodules: `training`, `inspection`, `interpolation`, `smoothing`, `sweeps`, `comparison`.
"""

from matplotlib.axes import Axes as Axes
from matplotlib.figure import Figure as Figure

from measureflow import signatures
from measureflow.plotting.agreement import add_rows as add_rows
from measureflow.plotting.agreement import checks_figure as checks_figure
from measureflow.plotting.agreement import draw_agreement as draw_agreement
from measureflow.plotting.colours import cluster_colours as cluster_colours
from measureflow.plotting.density import draw_density_over_time as draw_density_over_time
from measureflow.plotting.density import draw_ring as draw_ring
from measureflow.plotting.density import draw_sphere_map as draw_sphere_map
from measureflow.plotting.gaussian import draw_cone as draw_cone
from measureflow.plotting.gaussian import draw_ellipses as draw_ellipses
from measureflow.plotting.gaussian import draw_gaussian as draw_gaussian
from measureflow.plotting.layout import label_axes as label_axes
from measureflow.plotting.layout import panels as panels
from measureflow.plotting.movies import movie as movie
from measureflow.plotting.paths import draw_hull as draw_hull
from measureflow.plotting.paths import draw_paths as draw_paths
from measureflow.plotting.predictions import Curve as Curve
from measureflow.plotting.predictions import curve_within as curve_within
from measureflow.plotting.predictions import curves_figure as curves_figure
from measureflow.plotting.predictions import draw_allowed as draw_allowed
from measureflow.plotting.predictions import draw_curves as draw_curves
from measureflow.plotting.predictions import power_curve as power_curve
from measureflow.plotting.record import Record as Record
from measureflow.plotting.record import Recorded as Recorded
from measureflow.plotting.run import run_figure as run_figure
from measureflow.plotting.sweeps import TheoryCurve as TheoryCurve
from measureflow.plotting.tables import draw_counts as draw_counts
from measureflow.plotting.tables import draw_table as draw_table
from measureflow.plotting.time_series import TimeSeries as TimeSeries
from measureflow.plotting.time_series import draw_series as draw_series
from measureflow.plotting.time_series import draw_steps as draw_steps
from measureflow.plotting.time_series import key_frames as key_frames
from measureflow.plotting.tokens import draw_tokens as draw_tokens
from measureflow.plotting.view import View as View
from measureflow.plotting.view import view_of as view_of

signatures.shorten(globals())
