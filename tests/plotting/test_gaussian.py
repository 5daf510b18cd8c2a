"""Gaussians are drawn where they are: ellipses around their means, covariances inside their cone."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from measureflow.plotting import draw_cone, draw_ellipses
from measureflow.plotting.colours import PALETTE
from measureflow.plotting.gaussian import draw_disc

rng = np.random.default_rng(0)
ROOTS = rng.normal(size=(4, 30, 2, 2))
COVS = ROOTS @ ROOTS.transpose(0, 1, 3, 2)
MEANS = rng.normal(size=(4, 30, 2))


def axes(draw, *arguments, **options):
    figure = Figure(figsize=(4, 4))
    ax = draw(figure.subplots(), *arguments, **options)
    figure.draw_without_rendering()
    return ax


def ellipses(ax):
    return [patch for patch in ax.patches if isinstance(patch, Ellipse) and patch.get_gid() is None]


def ends(ax, gid="ends"):
    return np.concatenate([c.get_offsets() for c in ax.collections if c.get_gid() == gid])


def test_an_ellipse_is_the_image_of_the_circle_under_a_root():
    ax = axes(draw_ellipses, MEANS[0, :1], COVS[0, :1], deviations=2)
    (ellipse,) = ellipses(ax)
    points = ellipse.get_patch_transform().transform(np.stack([np.cos(t := np.linspace(0, 6, 20)), np.sin(t)], -1))
    away = points - MEANS[0, 0]
    # Every point is two standard deviations away in the metric of the covariance.
    np.testing.assert_allclose(np.einsum("nd,de,ne->n", away, np.linalg.inv(COVS[0, 0]), away), 4.0, rtol=1e-10)


def test_frames_are_thinned_and_the_first_and_last_stay():
    ax = axes(draw_ellipses, MEANS[0], COVS[0], most=5)
    np.testing.assert_allclose([ellipse.center for ellipse in ellipses(ax)], MEANS[0, [0, 7, 14, 22, 29]])
    np.testing.assert_allclose(ends(ax), MEANS[0, -1:])


def test_components_of_a_mixture_have_colours_of_their_own():
    ax = axes(draw_ellipses, MEANS.transpose(1, 0, 2), COVS.transpose(1, 0, 2, 3), most=2)
    np.testing.assert_allclose([ellipse.center for ellipse in ellipses(ax)[1::2]], MEANS[:, -1])
    found = [ellipse.get_edgecolor()[:3] for ellipse in ellipses(ax)[1::2]]
    np.testing.assert_allclose(found, [to_rgb(colour) for colour in PALETTE[:4]])


def test_every_ellipse_is_inside_the_picture():
    ax = axes(draw_ellipses, MEANS[0], COVS[0], most=30)
    spread = np.sqrt(COVS[0][:, [0, 1], [0, 1]])
    for i, (low, high) in enumerate((ax.get_xlim(), ax.get_ylim())):
        assert low <= (MEANS[0] - spread)[:, i].min()
        assert (MEANS[0] + spread)[:, i].max() <= high


def paths(ax):
    return np.stack([line.get_segments() for line in ax.collections if line.get_gid() == "path"])


A, B, C = COVS[..., 0, 0], COVS[..., 1, 1], COVS[..., 0, 1]


def test_the_disc_shows_the_shapes_of_the_covariances():
    ax = axes(draw_disc, COVS)
    places = np.stack([A - B, 2 * C], -1) / (A + B)[..., None]
    np.testing.assert_allclose(ends(ax), places[:, -1])
    np.testing.assert_allclose(ends(ax, "starts"), places[:, 0])
    np.testing.assert_allclose(paths(ax)[:, :, 1], places[:, 1:])
    assert (np.hypot(*ends(ax).T) <= 1).all()


def test_the_cone_is_an_orthogonal_projection_of_the_covariances():
    ax = axes(draw_cone, COVS)
    points = np.stack([A - B, 2 * C, A + B], -1)
    drawn = np.concatenate([paths(ax)[:, :1, 0], paths(ax)[:, :, 1]], axis=1)
    projection = np.linalg.lstsq(points.reshape(-1, 3), drawn.reshape(-1, 2), rcond=None)[0]
    np.testing.assert_allclose(points @ projection, drawn, atol=1e-12)
    np.testing.assert_allclose(projection.T @ projection, np.eye(2), atol=1e-12)
    assert projection[2, 1] > 0.9  # larger covariances are higher in the picture
    np.testing.assert_allclose(ends(ax), drawn[:, -1])
    np.testing.assert_allclose(ends(ax, "starts"), drawn[:, 0])


def test_all_of_the_cone_is_in_the_picture_and_one_path_will_do():
    ax = axes(draw_cone, COVS[0])
    box = np.array([ax.get_xlim(), ax.get_ylim()])
    for patch in ax.patches:
        outline = patch.get_path().vertices
        assert (outline.min(0) >= box[:, 0]).all()
        assert (outline.max(0) <= box[:, 1]).all()
    assert {text.get_text() for text in ax.texts} == {"a - b", "2c", "a + b"}


BAD = {
    "three dimensions": (lambda ax: draw_ellipses(ax, np.zeros((2, 3)), np.zeros((2, 3, 3))), "choose two coordinates"),
    "no covariance": (lambda ax: draw_ellipses(ax, MEANS[0], COVS[0, :3]), "`covs` must have shape"),
    "cone of three": (lambda ax: draw_cone(ax, np.zeros((2, 3, 3))), "`covs` must have shape (n, k, 2, 2)"),
    "NaN": (lambda ax: draw_disc(ax, np.full((1, 2, 2), np.nan)), "`covs` has 4 NaN"),
}


@pytest.mark.parametrize(("draw", "words"), BAD.values(), ids=BAD.keys())
def test_bad_input_gets_a_sentence(draw, words):
    with pytest.raises(ValueError, match="`") as caught:
        draw(Figure().subplots())
    assert words in str(caught.value)


def test_axes_in_space_are_refused():
    with pytest.raises(ValueError, match="ordinary axes"):
        draw_cone(Figure().add_subplot(projection="3d"), COVS)
