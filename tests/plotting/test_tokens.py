"""Tokens are drawn where they are, all of them, and clusters stay visible."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import measureflow as mf
from measureflow.plotting import View, cluster_colours, draw_tokens, view_of
from measureflow.plotting.colours import GREY, PALETTE
from measureflow.plotting.markers import TOGETHER, company

SPACES = [mf.Sphere(2), mf.Sphere(3), mf.Sphere(8), *(mf.Euclidean(d) for d in (1, 2, 3, 6))]
NAMES = [f"{type(space).__name__}{space.dim}" for space in SPACES]


def sample(space, *shape, seed=0):
    points = np.random.default_rng(seed).normal(size=(*shape, space.dim))
    return points / np.linalg.norm(points, axis=-1, keepdims=True) if isinstance(space, mf.Sphere) else points


def drawn(ax):
    """The positions, areas and colours of all token marks."""
    layers = [layer for layer in ax.collections if layer.get_gid() == "tokens" and len(layer.get_offsets())]
    parts = [(layer.get_offsets(), layer.get_sizes(), layer.get_facecolors()) for layer in layers]
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def picture(points, space, **options):
    figure = Figure(figsize=(3, 3))
    ax = draw_tokens(figure.subplots(), points, space, **options)
    figure.draw_without_rendering()
    return ax


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
@pytest.mark.parametrize("n", [1, 2, 40])
def test_every_token_is_drawn_inside_the_picture(space, n):
    ax = picture(sample(space, n), space, labels=np.arange(n) % 3)
    places, _, _ = drawn(ax)
    assert places.shape == (n, 2)
    for coordinate, (low, high) in enumerate((ax.get_xlim(), ax.get_ylim())):
        assert (low <= places[:, coordinate]).all()
        assert (places[:, coordinate] <= high).all()


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
def test_pictures_have_equal_scales_except_of_a_line(space):
    assert picture(sample(space, 5), space).get_aspect() == ("auto" if space.dim == 1 else 1.0)


def test_circle_and_plane_show_the_coordinates_themselves():
    for space in (mf.Sphere(2), mf.Euclidean(2)):
        points = sample(space, 30)
        places, _, _ = drawn(picture(points, space))
        assert np.allclose(np.sort(places, axis=0), np.sort(points, axis=0), atol=1e-15)


def test_projection_of_a_sphere_is_orthogonal_in_every_dimension():
    for dim in (3, 8):
        points = sample(mf.Sphere(dim), 50)
        view = view_of(points, mf.Sphere(dim))
        assert np.allclose(view.axes.T @ view.axes, np.eye(3), atol=1e-12)
        assert (np.linalg.norm(view.place(points)[:, :2], axis=1) <= 1 + 1e-12).all()


def test_principal_components_find_the_plane_in_which_tokens_lie():
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(7, 2)))[0]
    points = 100 + rng.normal(size=(4, 60, 2)) * [3.0, 1.0] @ basis.T
    view = view_of(points, mf.Euclidean(7))
    assert view.shares is not None
    assert sum(view.shares) == pytest.approx(1.0, abs=1e-9)
    assert view.shares[0] > view.shares[1] > 0.05
    assert np.allclose(view.axes[:, :2] @ view.axes[:, :2].T @ basis, basis, atol=1e-9)


def test_principal_components_of_few_tokens_need_no_matrix_of_all_pairs_of_coordinates():
    """They are those of the matrix; with as many coordinates as in the second case it would have 80 TB."""
    points = np.random.default_rng(2).normal(size=(5, 7))
    view = view_of(points, mf.Euclidean(7))
    variances, directions = np.linalg.eigh(np.cov(points.T))
    np.testing.assert_allclose(np.abs(np.sum(view.axes * directions[:, ::-1][:, :3], 0)), 1.0, rtol=1e-12)
    np.testing.assert_allclose(view.shares, variances[::-1][:2] / variances.sum(), rtol=1e-12)
    one = np.zeros((1, 10**6))
    one[0, 5] = 1.0
    axes = view_of(one, mf.Sphere(10**6)).axes
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-12)
    assert abs(axes[5, 0]) == pytest.approx(1.0)


def test_axes_of_many_dimensions_say_the_variance_they_explain():
    points = sample(mf.Sphere(8), 400)
    ax = picture(points, mf.Sphere(8))
    first, second = np.sort(np.linalg.eigvalsh(points.T @ points / 400))[::-1][:2]
    assert ax.get_xlabel() == f"PC 1 ({first:.0%} of variance)"
    assert ax.get_ylabel() == f"PC 2 ({second:.0%} of variance)"


def test_coinciding_tokens_are_larger_the_more_they_are():
    points = np.repeat([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], [1, 9, 40], axis=0)
    places, area, _ = drawn(picture(points, mf.Sphere(2)))
    one, nine, forty = (area[np.isclose(places @ corner, 1.0)] for corner in ([1, 0], [0, 1], [-1, 0]))
    assert np.ptp(nine) < 1e-12
    assert (forty[0] - nine[0]) / (nine[0] - one[0]) == pytest.approx(31 / 8)


def test_weights_count_as_mass():
    points = np.array([[1.0, 0.0], [-1.0, 0.0]])
    places, area, _ = drawn(picture(points, mf.Sphere(2), weights=[3.0, 1.0]))
    heavy, light = area[np.argsort(-places[:, 0])]
    assert heavy > 1.5 * light


def test_company_agrees_with_all_pairs():
    places = np.random.default_rng(2).uniform(-1, 1, (300, 3))
    weights = np.full(300, 1 / 300)
    distance = np.linalg.norm(places[:, None] - places, axis=-1)
    at_least, at_most = (((distance < 0.3 * (1 + s / 4)) @ weights) for s in (-1, 1))
    found = company(places, 0.3, weights)  # cells of an eighth move a distance by less than a quarter
    assert (at_least <= found + 1e-12).all()
    assert (found <= at_most + 1e-12).all()
    assert company(np.zeros((5, 3)), TOGETHER, np.full(5, 0.2)) == pytest.approx(1.0)


def test_tokens_behind_the_sphere_fade_and_lie_under_those_in_front():
    view = view_of(np.array([[0.0, 0.0, 1.0]]), mf.Sphere(3))
    to_viewer = view.axes[:, 2]
    ax = picture(np.array([to_viewer, -to_viewer]), mf.Sphere(3), view=view)
    behind, front = (layer for layer in ax.collections if layer.get_gid() == "tokens")
    assert behind.get_zorder() < front.get_zorder()
    assert front.get_facecolors()[0, :3] == pytest.approx(cluster_colours([0])[0])
    assert behind.get_facecolors()[0, :3].min() > 0.5


def test_sphere_is_seen_from_where_its_tokens_gather():
    rng = np.random.default_rng(3)
    for centre in np.concatenate([np.eye(3), -np.eye(3)]):
        points = centre + 0.1 * rng.normal(size=(50, 3))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        assert (view_of(points, mf.Sphere(3)).place(points)[:, 2] > 0).mean() > 0.95


def test_turning_keeps_the_vertical_axis_and_the_middle():
    points = 5 + sample(mf.Euclidean(3), 20)
    view = view_of(points, mf.Euclidean(3))
    turned = view.turned(70.0)
    assert np.allclose(turned.axes @ turned.middle, view.axes @ view.middle)
    assert np.allclose(turned.axes[2], view.axes[2])
    assert not np.allclose(turned.axes, view.axes)
    assert np.allclose(turned.turned(-70.0).axes, view.axes)
    flat = view_of(points[:, :2], mf.Euclidean(2))
    assert flat.turned(70.0) is flat


def test_colours_go_by_the_size_of_the_cluster():
    colours = cluster_colours([7, 7, 7, 3, 5, 5])
    assert len(np.unique(colours, axis=0)) == 3
    blue = np.array([0x00, 0x72, 0xB2]) / 255
    assert np.allclose(colours[:3], blue)


def test_only_the_largest_clusters_have_colours():
    labels = np.repeat(np.arange(25), np.arange(25, 0, -1))
    colours = cluster_colours(labels)
    grey = int(GREY[1:3], 16) / 255
    assert len(np.unique(colours, axis=0)) == len(PALETTE) + 1
    assert np.allclose(colours[labels >= len(PALETTE)], grey)
    assert not np.allclose(colours[labels < len(PALETTE)], grey)
    assert len(np.unique(cluster_colours(np.arange(25)), axis=0)) == 1


@pytest.mark.parametrize("space", [mf.Sphere(3), mf.Sphere(2), mf.Euclidean(2)], ids=["sphere", "circle", "plane"])
def test_five_thousand_tokens_spread_or_in_one_point(space):
    points = sample(space, 5000)
    assert len(drawn(picture(points, space, labels=np.arange(5000) % 50))[0]) == 5000
    _, area, _ = drawn(picture(np.repeat(points[:1], 5000, axis=0), space))
    assert area.min() == area.max() > 100


def test_a_picture_far_from_zero_or_of_one_point_has_a_width():
    for points in (np.full((3, 2), 1e12), np.full((3, 2), -1e-7), np.zeros((1, 2))):
        ax = picture(points, mf.Euclidean(2))
        assert np.diff(ax.get_xlim()) > 0
        assert len(drawn(ax)[0]) == len(points)


def test_given_colours_are_used():
    colours = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    _, _, found = drawn(picture(np.eye(2), mf.Sphere(2), colours=colours))
    assert {tuple(c) for c in found[:, :3]} == {tuple(c) for c in colours}


def test_bad_input_is_refused_with_a_sentence():
    ax = Figure().subplots()
    with pytest.raises(ValueError, match="must have shape"):
        draw_tokens(ax, np.zeros((3, 2)), mf.Euclidean(3))
    with pytest.raises(ValueError, match="no token to draw"):
        draw_tokens(ax, np.zeros((0, 2)), mf.Euclidean(2))
    with pytest.raises(ValueError, match="finite"):
        draw_tokens(ax, [[0.0, np.nan]], mf.Euclidean(2))
    with pytest.raises(ValueError, match="`labels` must have shape"):
        draw_tokens(ax, np.eye(2), mf.Sphere(2), labels=[1])
    with pytest.raises(ValueError, match="`colours` must have shape"):
        draw_tokens(ax, np.eye(2), mf.Sphere(2), colours=np.ones((2, 4)))
    with pytest.raises(ValueError, match="ordinary axes"):
        draw_tokens(Figure().add_subplot(projection="3d"), np.eye(3), mf.Sphere(3))


def test_a_view_can_be_shared_between_frames():
    frames = sample(mf.Euclidean(2), 3, 10) * np.array([1.0, 2.0, 5.0])[:, None, None]
    view = view_of(frames, mf.Euclidean(2))
    limits = {picture(frame, mf.Euclidean(2), view=view).get_xlim() for frame in frames}
    assert isinstance(view, View)
    assert len(limits) == 1
    assert view.fitted(frames[0]).reach < view.reach


def test_tokens_in_no_cluster_are_grey_and_a_cloud_without_clusters_is_blue():
    colours = cluster_colours([-1, 0, 0, 1, -1])
    np.testing.assert_allclose(colours[[0, 4]], [to_rgb(GREY)] * 2)
    np.testing.assert_allclose(colours[1], to_rgb(PALETTE[0]))
    np.testing.assert_allclose(cluster_colours([-1, -1]), [to_rgb(PALETTE[0])] * 2)


@pytest.mark.parametrize("space", [mf.Euclidean(3), mf.Sphere(3)], ids=["Euclidean3", "Sphere3"])
def test_the_camera_looks_from_where_clusters_do_not_hide_each_other(space):
    usual = view_of(np.eye(3), mf.Euclidean(3)).axes
    # Two clusters in a line with the usual viewer, one nearer than the other, and a third beside them.
    centres = np.array([[0.4, 0.0, 0.9], [0.4, 0.0, -0.9], [0.9, 0.1, 0.4]]) @ usual.T
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    points, labels = np.repeat(centres, 10, 0), np.repeat(np.arange(3), 10)
    places = view_of(points, space, labels=labels).place(centres)[:, :2]
    hidden = (centres @ usual)[:, :2]
    assert np.linalg.norm(hidden[0] - hidden[1]) < 0.05
    assert min(np.linalg.norm(places[i] - places[j]) for i, j in ((0, 1), (0, 2), (1, 2))) > 0.3


def test_the_largest_mark_at_the_edge_of_a_cloud_is_inside_the_frame():
    ax = picture(np.repeat([[-1.0, -1.0], [1.0, 1.0]], 300, 0), mf.Euclidean(2))
    places, sizes, _ = drawn(ax)
    radius = np.sqrt(sizes.max() / np.pi) * ax.figure.dpi / 72
    box, pixels = ax.get_window_extent(), ax.transData.transform(places)
    assert (pixels - radius >= [box.x0, box.y0]).all()
    assert (pixels + radius <= [box.x1, box.y1]).all()


def test_a_cluster_on_the_sphere_is_seen_from_its_side_and_not_from_that_of_more_tokens_alone():
    cluster, others = np.tile([1.0, 0.0, 0.0], (20, 1)), np.tile([-1.0, 0.0, 0.0], (60, 1))
    view = view_of(np.concatenate([cluster, others]), mf.Sphere(3), labels=[0] * 20 + [-1] * 60)
    assert view.place([1.0, 0.0, 0.0])[2] > 0.5
