"""Words for measures: what a folder keeps of them, the way back, and the laws that tokens share with their limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import measureflow as mf
from measureflow.runs.command import command
from measureflow.runs.report import figure
from measureflow.words import InputError
from measureflow.words.initial_laws import SPREAD, blob
from measureflow.words.measures.densities import peaks
from measureflow.words.table import load
from measureflow.words.vocabulary import LAWS, MEASURES

SMALL = {
    "particles": {"n": 5, "dim": 2},
    "sequence": {"n": 5, "dim": 2},
    "gaussian": {"weights": "goe", "time": 0.2},
    "mixture": {"time": 0.2},
    "circle": {"modes": 24},
    "cells": {"cells": 48},
    "sphere": {"modes": 12},
    "axial": {"dim": 4, "degree": 12, "beta": 2.0},
}
SIZES = {
    "particles": {"token": 5, "coordinate": 2},
    "sequence": {"token": 5, "coordinate": 2},
    "gaussian": {"coordinate": 2, "other": 2},
    "mixture": {"component": 5, "coordinate": 2, "other": 2},
    "circle": {"angle": 80},
    "cells": {"angle": 48},
    "sphere": {"height": 20, "angle": 40},
    "axial": {"height": 20},
}
SIMULATE = command("simulate")


def flow(**words):
    return SIMULATE.job(SIMULATE.settings(words)).flow


@pytest.fixture(scope="module", params=SMALL)
def run(request, tmp_path_factory):
    """A finished small run of each measure."""
    out = tmp_path_factory.mktemp("measures") / request.param
    words = {"measure": request.param, "time": 0.5, "frames": 4, "frames_per_leg": 2, "verify": False, "out": str(out)}
    return mf.runs.run("simulate", **(words | SMALL[request.param]))


def test_every_measure_of_the_library_has_a_word():
    kinds = {load(word.kind) for word in MEASURES.values()}
    library = {thing for thing in vars(mf.measures).values() if isinstance(thing, type)}
    assert {thing for thing in library if not thing.__name__.startswith("Abstract")} == kinds
    assert set(SMALL) == set(MEASURES)


def test_a_measure_has_its_own_named_arrays(run):
    data = xarray.open_zarr(run.path / "data.zarr")
    assert dict(data.sizes) == {"time": 4} | SIZES[run.word_name]
    for name, dimensions in run.word.dimensions.items():
        assert data[name].dims == ("time", *dimensions)
    assert all(np.isfinite(values).all() for values in data.variables.values())


def test_the_frames_are_those_of_evolve(run):
    job = SIMULATE.job(run.config)
    for name, values in job.frames_of(job.flow.run())[1].items():
        # Legs restart the step control, so both are within the tolerance 1e-8 of the flow, over values of order one.
        np.testing.assert_allclose(run.data[name], values, atol=1e-6)


def test_a_frame_becomes_the_measure_again(run):
    again = run.at(-1)
    assert type(again) is load(run.word.kind)
    for name, values in run.word.arrays(again).items():
        np.testing.assert_allclose(values, run.data[name].values[-1], atol=1e-12)  # transforms there and back


def test_every_measure_has_a_title_series_rows_and_a_figure(run):
    assert run.title[0].isupper() or run.title[0].isdigit()
    assert set(run.info["series"]) <= {str(name) for name in run.data}
    assert all(np.isfinite(series.values).all() and series.label for series in run.series.values())
    assert len(run.table.rows) > 3
    drawn = figure(run)
    assert len(drawn.axes) >= 3
    assert drawn.get_suptitle().startswith(run.title[:20])


def test_a_run_can_be_repeated_from_its_configuration(run):
    again = SIMULATE.settings({}, str(run.path / "config.toml"))
    assert again == run.config
    one, other = (SIMULATE.job(config).flow.start for config in (again, run.config))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_blow_up_of_a_gaussian_is_a_result_with_its_time(tmp_path):
    run = mf.runs.run("simulate", measure="gaussian", frames=24, out=str(tmp_path / "run"))
    assert run.outcome.startswith("Blew up at t = 0.5")
    assert run.finished
    assert not run.ok
    # Σ' = 2 beta Σ² from the identity at beta = 1 blows up at 1/2; 1e-6 relative is what a user may ask.
    np.testing.assert_allclose(run.stats["blow_up_time"], 0.5, rtol=1e-6)
    assert run.frames == len(run.times) == 12  # the last at 11/23
    assert np.isfinite(run.data["cov"]).all()
    closed = 1 / (1 - 2 * run.times)
    # The tolerance 1e-8 of some dozens of steps, grown by the factor 1/(1 - 2t) = 23 of the last frame.
    np.testing.assert_allclose(run.data["cov"][:, 0, 0], closed, rtol=1e-5)
    np.testing.assert_allclose(run.series["spread"].values, np.sqrt(2 * closed), rtol=1e-5)
    np.testing.assert_allclose(run.series["rank"].values, 2.0, rtol=1e-12)


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """A density on the circle that collapses far beyond what its moments resolve."""
    out = tmp_path_factory.mktemp("followed") / "run"
    words = {"measure": "circle", "modes": 32, "time": 20.0, "frames": 6, "frames_per_leg": 3, "verify": False}
    return mf.runs.run("simulate", **words, out=str(out))


def test_a_density_on_the_circle_reaches_its_last_time_in_another_form(followed):
    assert followed.ok
    assert followed.stats["changes"] == 1
    assert 0 < followed.stats["changed_at"] < 20
    said = dict(followed.table.rows)["changed form"]
    assert f"{followed.stats['parcels']} parcels" in said
    assert "off by" in said


def test_frames_of_a_followed_density_are_densities_in_the_form_of_the_start(followed):
    values = followed.data["density"].values
    assert type(followed.final) is mf.CircleDensity
    assert followed.final.modes == 32
    np.testing.assert_allclose(
        values.mean(1) * 2 * np.pi, 1.0, atol=1e-13
    )  # the mass is a moment, which no blur changes
    assert -np.minimum(values, 0).mean(1).max() * 2 * np.pi < 1e-3  # what a flow would be ended for
    # Clusters are shown as wide as 32 moments tell them apart, and in the places of tokens that start alike: the quantiles
    # of the same law, whose clusters weigh what they weigh within 1/4096 and some mass of a parcel.
    start = MEASURES["circle"].start(followed.config).quantiles(4096)
    tokens = mf.evolve(mf.SoftmaxAttention.isotropic(2, 9.0), start, [0.0, 20.0]).final
    angles = np.arctan2(tokens.points[:, 1], tokens.points[:, 0]) % (2 * np.pi)
    grid = followed.data["angle"].values
    shares = [np.mean(np.abs((angles - top + np.pi) % (2 * np.pi) - np.pi) < 0.3) for top in _tops(grid, values[-1])]
    masses = [_around(grid, values[-1], top) for top in _tops(grid, values[-1])]
    assert len(masses) == 4
    np.testing.assert_allclose(masses, shares, atol=3e-3)


def _tops(grid, values):
    higher = (values > np.roll(values, 1)) & (values > np.roll(values, -1)) & (values > 0.25)
    return grid[higher]


def _around(grid, values, top):
    near = np.abs((grid - top + np.pi) % (2 * np.pi) - np.pi) < 0.5
    return values[near].sum() * 2 * np.pi / len(grid)


SAME_LAW = [("gaussian", "gaussian"), ("mixture", "clusters"), ("mixture", "gaussian"), *(
    (kind, law) for kind in ("circle", "cells", "sphere") for law in LAWS if "own coordinates" not in LAWS[law].traits
)]  # fmt: skip


@pytest.mark.parametrize(("measure", "init"), SAME_LAW)
def test_tokens_are_a_sample_of_the_law_that_the_limit_starts_from(measure, init):
    n = 200_000
    asked = SIMULATE.settings({"measure": measure, "init": init, "seed": 4})
    limit = MEASURES[measure].start(asked)
    words = {"n": n, "init": init, "seed": 4, "space": asked.space, "dim": asked.dim, "beta": 1.0}
    tokens = MEASURES["particles"].start(SIMULATE.settings(words))

    def features(x):  # low moments, which tell these laws apart
        return jnp.concatenate([x, jnp.outer(x, x).ravel(), x**3, x**4])

    f = jax.vmap(features)(tokens.points)
    spread = np.asarray(f.std(0)) / np.sqrt(n)
    # Five standard errors, for some twenty numbers in eleven cases: a failure by chance has probability 1e-4.
    # Tokens of ripples are drawn within cells of a grid: 5e-4 is the square of the width of a cell.
    # Cells see features at their middles: 512 of them are off by the square of the width too, 2e-5.
    bound = 5 * spread + (5e-4 if init == "ripples" else 2e-5 if measure == "cells" else 1e-12)
    assert (np.abs(f.mean(0) - limit.expect(features)) <= bound).all()


@pytest.mark.parametrize("dim", [2, 3])
def test_a_blob_is_the_direction_of_a_normal_vector(dim):
    centre = jnp.eye(dim)[0]
    x = jnp.concatenate([jnp.array([0.3]), jnp.sqrt(1 - 0.09)[None], jnp.zeros(dim - 2)])
    r = np.linspace(0, 5, 200_001)
    gaps = ((r[:, None] * np.asarray(x) - np.asarray(centre)) ** 2).sum(1)
    integrand = r ** (dim - 1) * np.exp(-gaps / (2 * SPREAD**2)) / (2 * np.pi * SPREAD**2) ** (dim / 2)
    # The trapezoidal rule with step 2.5e-5 on a bump of width 0.2: its error is far below rounding of the sum.
    np.testing.assert_allclose(blob(x[None], centre)[0], np.trapezoid(integrand, r), rtol=1e-9)


def test_peaks_are_counted_around_the_circle():
    angles = 2 * np.pi * np.arange(90) / 90
    values = np.stack([1 + np.cos(k * angles) for k in range(5)]) / (2 * np.pi)
    values[0] = 1 / (2 * np.pi)
    assert [peaks(row) for row in values] == [0, 1, 2, 3, 4]


def test_a_finer_map_is_the_same_density(tmp_path):
    def height(x):
        return (1 + 0.5 * x[:, 0] * x[:, 1] + 0.3 * x[:, 2]) / (4 * jnp.pi)

    coarse, fine = (mf.SphereDensity.from_function(height, degree) for degree in (4, 12))
    still = mf.Flow(mf.SoftmaxAttention.isotropic(3, 0.0), coarse, [0.0, 1e-3])
    run = mf.runs.record(still, tmp_path / "run", verify=False)
    drawn = run.word.drawn(run.at(0))
    np.testing.assert_allclose(drawn["density"].ravel(), fine.values, atol=1e-14)
    np.testing.assert_array_equal(drawn["height"], fine.grid.z)


def test_limits_start_from_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("gaussian.npz", mean=np.ones(3), cov=np.diag([1.0, 2.0, 3.0]))
    np.savez("mixture.npz", weights=[1.0, 3.0], means=np.zeros((2, 1)), covs=np.ones((2, 1, 1)))
    np.savetxt("circle.csv", np.full(9, 1 / (2 * np.pi)))
    np.savez("sphere.npz", density=mf.SphereDensity.uniform(6).values)
    gaussian, mixture, circle = (
        flow(measure=kind, init=file).start
        for kind, file in (("gaussian", "gaussian.npz"), ("mixture", "mixture.npz"), ("circle", "circle.csv"))
    )
    np.testing.assert_allclose(gaussian.cov, np.diag([1.0, 2.0, 3.0]), rtol=1e-14)
    np.testing.assert_allclose(mixture.weights, [0.25, 0.75], rtol=1e-14)
    assert circle.modes == 4
    sphere = flow(measure="sphere", init="sphere.npz", modes=6).start
    np.testing.assert_allclose(sphere.values, 1 / (4 * np.pi), rtol=1e-12)


def test_noise_on_a_limit_takes_any_solver(tmp_path):
    words = {"measure": "circle", "modes": 8, "beta": 0, "noise": 0.5, "time": 1, "frames": 3, "verify": False}
    data = mf.runs.run("simulate", **words, out=str(tmp_path / "run")).data
    moments = np.fft.rfft(data.density.values)[:, 2] * (2 * np.pi / data.sizes["angle"])
    # The heat equation alone takes mode k to e^{-T k² t}; the drift from a mean of length 0.03 changes it by some percent.
    np.testing.assert_allclose(abs(moments[-1] / moments[0]), np.exp(-0.5 * 4), rtol=0.2)
    np.testing.assert_allclose(data.density.values.mean(-1) * 2 * np.pi, 1.0, atol=1e-14)  # the mass never moves


BAD = {
    "tokens of a limit": ({"measure": "circle", "n": 5}, "no tokens, which `n` would need"),
    "two wishes": ({"measure": "sphere", "movie": True, "merge": 0.1}, "`movie` and `merge` would need"),
    "masked": ({"measure": "mixture", "mask": "causal"}, "`mask` would need"),
    "layers": ({"measure": "gaussian", "layers": 3}, "`layers` would need"),
    "hardmax": ({"measure": "circle", "attention": "hardmax"}, "hardmax picks a token"),
    "gaussian on a sphere": ({"measure": "gaussian", "space": "sphere"}, "lives in euclidean space"),
    "flat density": ({"measure": "circle", "space": "euclidean", "init": "uniform"}, "is a density on a sphere"),
    "thick circle": ({"measure": "circle", "dim": 3}, "choose `measure` sphere"),
    "thin sphere": ({"measure": "sphere", "dim": 2}, "choose `measure` circle"),
    "uniform gaussian": ({"measure": "gaussian", "init": "uniform"}, "take gaussian"),
    "several gaussians": ({"measure": "gaussian", "init": "clusters"}, "choose `measure` mixture"),
    "modes of tokens": ({"modes": 5}, "`modes` is for `measure` circle and sphere"),
    "closure of tokens": ({"closure": True}, "`closure` is for `measure` gaussian"),
    "flat ripples": ({"init": "ripples", "space": "euclidean"}, "on the circle or the usual sphere"),
    "ripples in four dimensions": ({"init": "ripples", "dim": 4}, "on the circle or the usual sphere"),
    "not affine": ({"measure": "gaussian", "attention": "sigmoid"}, "`--closure` does that"),
    "too few modes": ({"measure": "sphere", "init": "clusters", "modes": 4}, "`modes` 4 are too few"),
    "unknown kind": ({"measure": "gausian"}, "did you mean 'gaussian'?"),
}


@pytest.mark.parametrize(("words", "expected"), BAD.values(), ids=BAD.keys())
def test_bad_limits_get_a_sentence(words, expected):
    with pytest.raises(InputError) as caught:
        flow(**words)
    (sentence,) = caught.value.sentences
    assert expected in sentence


BAD_FILES = {
    "wrong names": ("gaussian", {"points": np.eye(2)}, "must hold `mean` and `cov`; it holds ['points']"),
    "not symmetric": ("gaussian", {"mean": np.zeros(2), "cov": np.array([[1.0, 2.0], [0.0, 1.0]])}, "symmetric"),
    "not positive": ("gaussian", {"mean": np.zeros(2), "cov": -np.eye(2)}, "`cov`"),
    "negative density": ("circle", {"density": np.array([1.0, -1.0, 1.0])}, "must not be negative"),
    "mass not one": ("circle", {"density": np.ones(9)}, "mass 1"),
    "other grid": ("sphere", {"density": np.ones(9)}, "globe"),
}


@pytest.mark.parametrize(("measure", "held", "expected"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_files_of_limits_get_a_sentence(measure, held, expected, tmp_path):
    np.savez(tmp_path / "start.npz", **held)
    with pytest.raises(InputError) as caught:
        flow(measure=measure, init=str(tmp_path / "start.npz"))
    assert expected in str(caught.value)
