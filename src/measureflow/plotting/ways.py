"""A geodesic against a mixture: how mass goes from one measure to another, and an energy on the way."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from measureflow.annotations import Numbers
from measureflow.measures import Particles
from measureflow.plotting.laws import Curve, draw_curves
from measureflow.plotting.transport import draw_interpolations


def ways_figure(
    geodesic: Sequence[Particles],
    mixture: Sequence[Particles],
    times: Numbers,
    curves: Sequence[Curve],
    name: str,
) -> Figure:
    """Frames of both ways at some times, and beside them curves of an energy along each."""
    count = np.size(times)
    figure = Figure(figsize=(2.4 * count + 5.2, 5.2), dpi=150, layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(2.4 * count, 5.2))[0]
    draw_interpolations(left.subplots(2, count), geodesic, mixture, times)
    draw_curves(right.subplots(), curves, "share of the way t", name)
    return figure
