"""From ambient coordinates to the drawing plane.

A view is an orthogonal projection: it places a token at `(right, up, depth)`, where a larger depth is nearer to the
viewer. Up to two coordinates are drawn as they are, three as seen from a direction, and more by their principal
components. One view serves all frames of a run, so that a token that does not move is drawn in one place.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.distance import pdist

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.plotting.colours import PALETTE
from measureflow.spaces import AbstractSpace

AZIMUTH = -60.0
"""Degrees around the vertical axis from which three dimensions are seen when nothing asks for another side."""

ELEVATION = 20.0
"""Degrees above the horizontal plane, as well."""

MARGIN = 1.2
"""How much wider than the cloud the picture is: the mark of many tokens together is a seventh of its half width."""

CLEARANCE = 0.4
"""Clusters this part of the picture's half width apart do not hide each other."""


@dataclass(frozen=True, eq=False)
class View:
    """An orthogonal projection to the drawing plane; the columns of `axes` point right, up and to the viewer.

    `middle` is the placed centre of the picture, `reach` the half width of the cloud, `shares` the parts of the
    variance that the two directions of the plane explain where they are principal components. `letter` names coordinates.
    """

    axes: np.ndarray
    middle: np.ndarray
    reach: float
    shares: tuple[float, float] | None = None
    letter: str = "x"

    def place(self, points: Numbers) -> np.ndarray:
        """The coordinates right, up and depth of each point."""
        return np.asarray(points, float) @ self.axes

    def turned(self, degrees: float | int) -> "View":
        """The view after the viewer walked around the vertical axis of three dimensions; otherwise the same view."""
        if len(self.axes) != 3:
            return self
        cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
        axes = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]]) @ self.axes
        return replace(self, axes=axes, middle=self.axes @ self.middle @ axes)

    def fitted(self, points: Numbers) -> "View":
        """The same directions, centred on a cloud and as wide as it needs."""
        middle, reach = _bounds(cloud(points, len(self.axes)), self.axes)
        return replace(self, middle=middle, reach=reach)


def cloud(points: Numbers, dim: int) -> np.ndarray:
    """All tokens of one frame or many as one array `(tokens, dim)`, checked."""
    points = np.asarray(points, float)
    shape = ("k", "n", dim) if points.ndim == 3 else ("n", dim)
    checks.shaped("points", points, shape, "The last axis has the coordinates of the space.")
    if points.size == 0:
        raise ValueError(f"`points` has shape {points.shape}: there is no token to draw.")
    checks.finite("points", points)
    return points.reshape(-1, dim)


def view_of(points: Numbers, space: AbstractSpace, *, labels: Numbers | None = None, letter: str = "x") -> View:
    """The view for a run, `points` of shape `(frames, tokens, dim)`, or for one frame `(tokens, dim)`.

    A sphere is centred at zero and has radius one, so that its outline is the unit circle in every dimension. In
    three dimensions the last frame decides the side: its clusters, by `labels` `(tokens,)`, do not hide each other, and of a
    sphere most tokens are in front.
    """
    everything, spherical = cloud(points, space.dim), space.spherical
    shares = None
    if space.dim > 3:
        axes, shares = _principal(everything if spherical else everything - everything.mean(0))
    elif space.dim == 3:
        last = np.asarray(points, float).reshape(-1, *np.shape(points)[-2:])[-1]
        axes = _seen_from(*_side(last, spherical, labels))
    else:
        axes = np.eye(space.dim, 3)
    return View(axes, *((np.zeros(3), 1.0) if spherical else _bounds(everything, axes)), shares, letter)


def _bounds(points: np.ndarray, axes: np.ndarray) -> tuple[np.ndarray, float]:
    """The middle and half width of a cloud: of the cube around it in few dimensions, of its picture in many."""
    seen = points @ axes if len(axes) > 3 else points
    low, high = seen.min(0), seen.max(0)
    middle, reach, size = (low + high) / 2, float((high - low).max()) / 2, float(np.abs(seen).max())
    if reach <= 1e-9 * size:  # all tokens together: any width that shows where
        reach = max(1.0, size / 10)
    return (middle if len(axes) > 3 else middle @ axes), MARGIN * reach


def _principal(points: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """The first three principal directions and the shares of the variance that the first two explain."""
    size = np.abs(points).max() or 1.0  # large clouds would overflow when squared
    variances, directions = _spread(points / size)
    axes = directions[:, :3]
    largest = axes[np.abs(axes).argmax(0), range(3)]
    axes = axes * np.where(largest < 0, -1.0, 1.0)  # a sign that does not depend on LAPACK
    first, second = np.clip(variances[:2] / (variances.sum() or 1.0), 0.0, 1.0)
    return axes, (float(first), float(second))


def _spread(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The variances along principal directions from the largest down, and these as columns, of which there are at least three.

    Fewer points than coordinates are decomposed themselves: a matrix of all pairs of coordinates may not fit into memory.
    """
    if len(points) >= points.shape[1]:
        variances, directions = np.linalg.eigh(points.T @ points)
        return variances[::-1], directions[:, ::-1]
    rows = np.pad(points, ((0, max(0, 3 - len(points))), (0, 0)))
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    return sizes**2, directions.T


def _side(points: np.ndarray, spherical: bool, labels: Numbers | None) -> tuple[float, float]:
    """The side that has clusters apart, and on a sphere in front (else most tokens), among tilts that look natural."""
    sides = [(float(a), float(e)) for e in (ELEVATION, 35, -ELEVATION) for a in np.arange(AZIMUTH, AZIMUTH + 360, 15)]
    middle = 0.0 if spherical else (points.min(0) + points.max(0)) / 2
    reach = 1.0 if spherical else np.abs(points - middle).max() or 1.0
    labels = np.full(len(points), -1) if labels is None else np.asarray(labels)
    centres, telling = _centres((points - middle) / reach, labels), points[labels >= 0] if labels.max() >= 0 else points
    good = []
    for side in sides:
        axes = _seen_from(*side)
        clear = np.tanh(4 * (telling @ axes[:, 2] - 0.2)).mean() if spherical else 0.0
        good.append(clear + min(_apart(centres @ axes[:, :2]), CLEARANCE) / CLEARANCE)
    return sides[int(np.argmax(np.round(good, 6)))]  # rounded: equal sides are told apart by their order, not by noise


def _centres(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The middle of each cluster that has a colour of its own."""
    numbers, sizes = np.unique(labels[labels >= 0], return_counts=True)
    coloured = numbers[np.argsort(-sizes, kind="stable")[: len(PALETTE)]]
    return np.array([points[labels == number].mean(0) for number in coloured]).reshape(-1, 3)


def _apart(places: np.ndarray) -> float:
    """The smallest distance between two places; infinite where there is no second."""
    return float(pdist(places).min(initial=np.inf)) if len(places) > 1 else np.inf


def _seen_from(azimuth: float, elevation: float) -> np.ndarray:
    a, e = np.deg2rad([azimuth, elevation])
    right = [-np.sin(a), np.cos(a), 0.0]
    up = [-np.sin(e) * np.cos(a), -np.sin(e) * np.sin(a), np.cos(e)]
    return np.array([right, up, np.cross(right, up)]).T
