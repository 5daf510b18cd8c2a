"""`plot` draws a path or a run into a given figure, or one panel of it on given axes."""

import doctest

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

import measureflow as mf
from measureflow.plotting import cluster_colours
from measureflow.plotting.density import HEIGHT, mesh
from measureflow.words.settings import InputError

TIMES = np.linspace(0.0, 1.0, 5)
LINE = mf.Euclidean(1)


def flow(start, beta=1.0, sign=1.0):
    d = start.space.dim
    return mf.evolve(mf.SoftmaxAttention(beta * np.eye(d), sign * np.eye(d)), start, TIMES)


@pytest.fixture(scope="module")
def path():
    return flow(mf.Particles.iid(mf.Euclidean(2), 12, key=0))


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


def tokens(ax):
    """The places and colours of the tokens on axes, in the order of their first coordinate."""
    layers = [found for found in ax.collections if found.get_gid() == "tokens" and len(found.get_offsets())]
    places = np.concatenate([found.get_offsets() for found in layers])
    colours = np.concatenate([found.get_facecolors()[:, :3] for found in layers])
    order = np.argsort(places[:, 0])
    return places[order], colours[order]


def curve(ax, name):
    return next(line for line in ax.lines if line.get_gid() == name)


@pytest.mark.parametrize(("chosen", "i"), [({}, -1), ({"frame": 1}, 1), ({"frame": -2}, 3), ({"time": 0.5}, 2)])
def test_axes_show_the_tokens_of_one_frame(path, ax, chosen, i):
    assert path.plot(ax=ax, **chosen) is ax
    points = np.asarray(path.at(i).points)
    np.testing.assert_allclose(tokens(ax)[0], points[np.argsort(points[:, 0])])
    assert ax.get_title() == f"t = {TIMES[i]:g}"


def test_tokens_have_the_colours_of_their_clusters_at_the_end(ax):
    start = mf.Particles(LINE, np.array([-1.0, -0.999, 0.5, 0.501, 0.502])[:, None])
    path = mf.layers(mf.Scaled(mf.SoftmaxAttention.isotropic(1, 0.0), 0.0), start, 2)
    path.plot(ax=ax, frame=0)
    np.testing.assert_allclose(tokens(ax)[1], cluster_colours([0, 0, 1, 1, 1]))


def test_axes_show_a_frame_from_the_side_of_the_whole_picture():
    path = flow(mf.Particles.iid(mf.Sphere(3), 12, key=0))
    ax = path.plot(ax=Figure().subplots(), frame=0)
    np.testing.assert_allclose(tokens(ax)[0], tokens(path.plot().subfigs[0].axes[0])[0], atol=1e-12)


def test_axes_show_the_ellipse_of_a_gaussian(ax):
    path = flow(mf.Gaussian(np.ones(2), np.diag([1.0, 4.0])), sign=-1.0)
    path.plot(ax=ax, frame=2)
    mu, (ellipse,) = path.at(2), [patch for patch in ax.patches if isinstance(patch, Ellipse)]
    np.testing.assert_allclose(ellipse.center, mu.mean)
    rim = ellipse.get_patch_transform().transform(np.stack([np.cos(t := np.linspace(0, 6, 9)), np.sin(t)], -1))
    away = rim - np.asarray(mu.mean)
    np.testing.assert_allclose(np.einsum("nd,de,ne->n", away, np.linalg.inv(mu.cov), away), 1.0, rtol=1e-9)


def test_axes_show_the_components_of_a_mixture_on_the_line_by_weight(ax):
    path = flow(mf.GaussianMixture([0.25, 0.75], [[-1.0], [2.0]], [[[0.1]], [[0.2]]]), beta=0.1)
    path.plot(ax=ax, frame=0)
    masses = [np.trapezoid(line.get_ydata(), line.get_xdata()) for line in ax.lines]
    np.testing.assert_allclose(masses, [0.25, 0.75], rtol=1e-3)  # four deviations, 400 points


def test_axes_show_densities(ax):
    ring = flow(mf.CircleDensity.from_function(lambda t: (1 + 0.4 * jnp.cos(t)) / (2 * jnp.pi), 32))
    values = np.asarray(ring.at(1).values)
    wall = curve(ring.plot(ax=ax, frame=1), "density").get_xydata()
    radius = np.linalg.norm(wall, axis=1)[:-1]
    np.testing.assert_allclose((radius - 1) / HEIGHT, values / max(values.max(), 2.5 / (2 * np.pi)), atol=1e-12)

    globe = flow(mf.SphereDensity.from_function(lambda x: (1 + 0.5 * x[:, 0]) / (4 * jnp.pi), 8))
    seen = mesh(globe.plot(ax=Figure().subplots(), frame=0)).get_array()
    assert seen.max() == pytest.approx(1.5 / (4 * np.pi), rel=0.01)  # nodes are near the pole, not on it

    about = flow(mf.AxialDensity.from_function(lambda z: 1 + 0.5 * z, 3, 16))
    line = curve(about.plot(ax=Figure().subplots(), time=0.25), "density")
    np.testing.assert_allclose(line.get_ydata(), about.at(1).values)


def test_axes_show_a_series_by_name_or_label(path, ax):
    energy = mf.InteractionEnergy(1.0)
    path.plot(ax=ax, show="energy", energy=energy, title="Mine")
    np.testing.assert_allclose(curve(ax, "energy").get_ydata(), [float(energy(mu)) for mu in path])
    assert ax.get_title() == "Mine"
    other = path.plot(ax=Figure().subplots(), show="number of clusters")
    assert curve(other, "clusters").get_drawstyle() == "steps-post"
    mine = path.plot(ax=Figure().subplots(), show="height", series={"height": lambda mu: mu.points[0, 1]})
    np.testing.assert_allclose(curve(mine, "height").get_ydata(), path.points[:, 0, 1])


def test_a_path_without_frames_shows_its_series(ax):
    start = mf.Particles.iid(mf.Sphere(3), 4, key=0)
    path = mf.evolve(mf.SoftmaxAttention.isotropic(3), start, TIMES, observe=lambda mu: mu.points[0, 0])
    path.plot(ax=ax, show="observed")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), path.observed)
    with pytest.raises(InputError, match="name a series with `show`"):
        path.plot(ax=ax)


def test_a_run_is_drawn_like_its_path(path, tmp_path, ax):
    flow = mf.Flow(mf.SoftmaxAttention.isotropic(2, 1.0), path.at(0), TIMES)
    run = mf.runs.record(flow, tmp_path / "run")
    np.testing.assert_allclose(
        tokens(run.plot(ax=ax, time=0.5))[0], tokens(path.plot(ax=Figure().subplots(), time=0.5))[0]
    )
    figure = Figure(figsize=(16, 6), layout="constrained")
    left, right = figure.subfigures(1, 2)
    assert run.plot(figure=left) is left
    assert path.plot(figure=right) is right
    for one, other in zip(left.subfigs[1].axes, right.subfigs[1].axes, strict=True):
        assert one.get_ylabel() == other.get_ylabel()
        np.testing.assert_allclose(one.lines[0].get_ydata(), other.lines[0].get_ydata())


def test_a_sweep_is_drawn_into_a_figure_or_on_axes(tmp_path, ax):
    curves = mf.runs.sweep(lambda x: x**2, {"x": [1.0, 2.0, 3.0]}, tmp_path / "curves")
    assert curves.plot(ax=ax) is ax
    np.testing.assert_array_equal(curve(ax, "mean").get_ydata(), [1.0, 4.0, 9.0])
    part = Figure(layout="constrained").subfigures(1, 2)[0]
    assert curves.plot(figure=part) is part
    np.testing.assert_array_equal(curve(part.axes[0], "mean").get_ydata(), [1.0, 4.0, 9.0])
    names = {"x": [1.0, 2.0], "y": [1.0, 2.0, 3.0], "kind": ["a", "b"]}
    maps = mf.runs.sweep(lambda x, y, kind: x * y, names, tmp_path / "maps")
    with pytest.raises(InputError, match="2 maps, which do not fit one `ax`"):
        maps.plot(ax=ax)


WRONG = {
    "both": (lambda ax: {"ax": ax, "figure": ax.figure}, TypeError, "give one of the two"),
    "a series of no axes": (lambda ax: {"show": "clusters"}, TypeError, "give axes, or leave them out"),
    "a frame of no axes": (lambda ax: {"frame": 0}, TypeError, "give axes, or leave them out"),
    "a series at a time": (lambda ax: {"ax": ax, "show": "clusters", "time": 0.5}, TypeError, "over all times"),
    "a frame at a time": (lambda ax: {"ax": ax, "frame": 1, "time": 0.5}, TypeError, "give one of the two"),
    "curves on axes": (lambda ax: {"ax": ax, "energy": mf.InteractionEnergy(1.0)}, TypeError, "name the one to draw"),
    "no such series": (lambda ax: {"ax": ax, "show": "cluster"}, InputError, "`show` 'cluster' is no series"),
    "no such frame": (lambda ax: {"ax": ax, "frame": 7}, IndexError, "`frame` is 7, but there are 5 frames"),
    "no such time": (lambda ax: {"ax": ax, "time": 0.3}, ValueError, "no frame at t = 0.3"),
    "a figure as axes": (lambda ax: {"ax": ax.figure}, TypeError, "`ax` takes axes of matplotlib; got Figure"),
}


@pytest.mark.parametrize(("given", "kind", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_drawn_gets_a_sentence(path, ax, given, kind, sentence):
    with pytest.raises(kind, match=sentence):
        path.plot(**given(ax))


def test_the_example_of_plot_prints_what_it_says():
    example = doctest.DocTestParser().get_doctest(
        mf.flows.Trajectory.plot.__doc__ or "", {"mf": mf}, "plot", None, None
    )
    said = []
    assert not doctest.DocTestRunner(verbose=False).run(example, out=said.append).failed, "".join(said)
