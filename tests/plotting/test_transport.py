"""The geodesic moves mass and the mixture fades it, with the same amount of ink."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import measureflow as mf
from measureflow import transport
from measureflow.plotting.transport import END, INK_AREA, START, draw_geodesic_and_mixture

TIMES = np.array([0.0, 0.25, 1.0])


def frames(space, n=12):
    mu, nu = (mf.Particles.iid(space, n, key=seed) for seed in (0, 1))
    best = transport.coupling(mu, nu)
    return [best.geodesic(float(t)) for t in TIMES], [transport.mixture(mu, nu, float(t)) for t in TIMES]


def drawn(ax):
    layers = [layer for layer in ax.collections if layer.get_gid() == "mass" and len(layer.get_offsets())]
    parts = [(layer.get_offsets(), layer.get_sizes(), layer.get_facecolors()[:, :3]) for layer in layers]
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


@pytest.mark.parametrize("space", [mf.Euclidean(2), mf.Sphere(2), mf.Sphere(3)], ids=str)
def test_every_picture_has_the_same_ink_and_shows_every_point(space):
    axes = Figure(figsize=(9, 6)).subplots(2, 3)
    paths = frames(space)
    assert draw_geodesic_and_mixture(axes, *paths, TIMES) is not None
    for row, path, name in zip(axes, paths, ("geodesic", "mixture"), strict=True):
        assert [ax.get_title() for ax in row] == [f"{name}, t = {t:g}" for t in TIMES]
        for ax, mu in zip(row, path, strict=True):
            places, areas, _ = drawn(ax)
            assert places.shape == (len(mu.points), 2)
            assert areas.sum() == pytest.approx(INK_AREA, rel=1e-9)


def test_a_plane_shows_the_points_where_they_are():
    axes = Figure().subplots(2, 3)
    geodesic, mixture = frames(mf.Euclidean(2))
    draw_geodesic_and_mixture(axes, geodesic, mixture, TIMES)
    for ax, mu in zip(axes.ravel(), [*geodesic, *mixture], strict=True):
        assert np.allclose(drawn(ax)[0], mu.points, atol=1e-12)


def test_colours_tell_where_mass_comes_from():
    axes = Figure().subplots(2, 3)
    draw_geodesic_and_mixture(axes, *frames(mf.Euclidean(2)), TIMES)
    assert np.allclose(drawn(axes[0, 1])[2], 0.75 * START + 0.25 * END)
    start, between, end = (drawn(ax)[2] for ax in axes[1])
    assert np.allclose(start, START)
    assert np.allclose(end, END)
    assert np.allclose(between[:12], START)
    assert np.allclose(between[12:], END)


def test_frames_that_do_not_fit_are_refused_with_a_sentence():
    axes = Figure().subplots(2, 3)
    geodesic, mixture = frames(mf.Euclidean(2))
    with pytest.raises(ValueError, match="`mixture` has 2 frames for 3 times"):
        draw_geodesic_and_mixture(axes, geodesic, mixture[:2], TIMES)
    with pytest.raises(ValueError, match="`axes` must have shape"):
        draw_geodesic_and_mixture(axes[:, :2], geodesic, mixture, TIMES)
    with pytest.raises(ValueError, match="on a line"):
        draw_geodesic_and_mixture(axes, *frames(mf.Euclidean(1)), TIMES)
