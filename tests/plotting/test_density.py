"""Densities are drawn as high as they are, in the right place, and maps keep areas."""

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

import measureflow as mf
from measureflow.plotting import draw_density_over_time, draw_ring, draw_sphere_map
from measureflow.plotting.density import HEIGHT, mesh, mollweide
from measureflow.theory import circle


def axes():
    return Figure(figsize=(3, 3)).subplots()


def test_a_ring_stands_out_where_the_density_is():
    mu = mf.CircleDensity.from_function(lambda t: circle.von_mises(t - np.pi / 2, 3.0), 32)
    ax = draw_ring(axes(), mu.values)
    ax.figure.draw_without_rendering()
    places = ax.lines[0].get_xydata()
    radius = np.linalg.norm(places, axis=1)
    assert radius.max() == pytest.approx(1 + HEIGHT)
    np.testing.assert_allclose(places[radius.argmax()], [0, 1 + HEIGHT], atol=1e-12)
    np.testing.assert_allclose((radius[:-1] - 1) / HEIGHT * mu.values.max(), mu.values, atol=1e-13)
    assert ax.get_xlim()[1] > 1 + HEIGHT


def test_two_rings_share_axes_and_a_peak():
    ax = axes()
    for concentration, peak in ((3.0, 1.0), (1.0, 1.0)):
        draw_ring(
            ax, mf.CircleDensity.from_function(lambda t, c=concentration: circle.von_mises(t, c), 32).values, peak=peak
        )
    heights = [np.linalg.norm(line.get_xydata(), axis=1).max() for line in ax.lines]
    assert heights[0] > heights[1]


def test_a_density_over_time_has_its_values_in_its_cells():
    values = np.arange(12.0).reshape(3, 4)
    ax = draw_density_over_time(axes(), [0.0, 1.0, 4.0], values)
    ax.figure.draw_without_rendering()
    np.testing.assert_array_equal(np.asarray(mesh(ax).get_array()).reshape(4, 3), values.T)
    assert ax.get_xlim() == (0.0, 4.0)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["0", "π", "2π"]


def test_the_map_keeps_areas():
    h = 1e-5
    for longitude, latitude in ((0.3, 0.2), (-2.0, 1.2), (3.0, -0.7)):
        at = lambda a, b: np.array([float(part) for part in mollweide(np.array(a), np.array(b))])  # noqa: E731
        east = (at(longitude + h, latitude) - at(longitude - h, latitude)) / (2 * h)
        north = (at(longitude, latitude + h) - at(longitude, latitude - h)) / (2 * h)
        area = east[0] * north[1] - east[1] * north[0]
        # The ellipse has area 2π and the sphere 4π.
        assert area == pytest.approx(np.cos(latitude) / 2, rel=1e-6)
    np.testing.assert_allclose(mollweide(np.array(0.0), np.array([-np.pi / 2, np.pi / 2]))[1], [-1, 1], atol=1e-4)


def test_a_sphere_map_is_dark_where_the_density_is():
    mu = mf.SphereDensity.from_function(lambda x: 2 * jnp.exp(2 * x[:, 1]) / (4 * np.pi * np.sinh(2.0)), 20)
    grid = mu.grid
    values = np.asarray(mu.values).reshape(grid.latitudes, grid.longitudes)
    ax = draw_sphere_map(axes(), values, grid.z)
    ax.figure.draw_without_rendering()
    cells = np.asarray(mesh(ax).get_array()).reshape(len(values), -1)
    corners = mesh(ax).get_coordinates()
    middle = corners[:-1, :-1] + (corners[1:, 1:] - corners[:-1, :-1]) / 2
    darkest = middle.reshape(-1, 2)[cells.argmax()]
    np.testing.assert_allclose(darkest, [1.0, 0.0], atol=0.1)  # a quarter turn to the east, on the equator


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [
        (lambda ax: draw_ring(ax, np.ones((2, 2))), "`values` must have shape"),
        (lambda ax: draw_ring(ax, []), "no density to draw"),
        (lambda ax: draw_ring(ax, [1.0, np.nan]), "NaN"),
        (lambda ax: draw_ring(ax, np.zeros(4)), "`peak` must be positive"),
        (lambda ax: draw_density_over_time(ax, [0.0], np.ones((2, 4))), "`times` must have shape"),
        (lambda ax: draw_density_over_time(ax, [0.0], np.ones((1, 4))), "at least two"),
        (lambda ax: draw_density_over_time(ax, [1.0, 0.0], np.ones((2, 4))), "`times` must increase"),
        (lambda ax: draw_sphere_map(ax, np.ones((2, 4)), [0.0, 2.0]), "must lie in"),
        (lambda ax: draw_sphere_map(ax, np.ones((2, 4)), [0.5]), "`heights` must have shape"),
    ],
)
def test_bad_input_gets_a_sentence(draw, sentence):
    with pytest.raises(ValueError, match=sentence):
        draw(axes())
