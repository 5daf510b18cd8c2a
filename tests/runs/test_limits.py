"""Limits from a configuration: laws that tokens share with them, what a folder keeps of them, and what is refused."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import measureflow as mf
from measureflow.flows.leg import leg
from measureflow.runs import InputError, Simulation
from measureflow.runs.build import build
from measureflow.runs.compare import restored
from measureflow.runs.config import LAWS, read
from measureflow.runs.kinds import KINDS, finer, peaks
from measureflow.runs.laws import SPREAD, blob
from measureflow.runs.simulate import simulate

SMALL = {
    "gaussian": {"weights": "goe", "time": 0.2},
    "mixture": {"time": 0.2},
    "circle": {"modes": 24, "time": 1.0},
    "sphere": {"modes": 12, "time": 1.0},
}
SIZES = {
    "gaussian": {"coordinate": 2, "other": 2},
    "mixture": {"component": 5, "coordinate": 2, "other": 2},
    "circle": {"angle": 80},
    "sphere": {"height": 20, "angle": 40},
}


@pytest.fixture(scope="module", params=SMALL)
def run(request, tmp_path_factory):
    """A finished small run of each limit."""
    out = tmp_path_factory.mktemp("limits") / request.param
    words = {"measure": request.param, "frames": 6, "frames_per_leg": 3, "verify": False, "out": str(out)} | SMALL[
        request.param
    ]
    progress = simulate(read(Simulation, words))
    return mf.runs.open(out), progress


def test_a_limit_has_its_own_named_arrays(run):
    data, kind = xarray.open_zarr(run[0].path / "data.zarr"), run[0].config.measure
    assert dict(data.sizes) == {"time": 6} | SIZES[kind]
    assert "points" not in data
    for name, dimensions in KINDS[kind].dimensions.items():
        assert data[name].dims == ("time", *dimensions)
    assert all(np.isfinite(values).all() for values in data.variables.values())


def test_the_frames_of_a_limit_are_those_of_evolve(run):
    problem, kind = build(run[0].config), KINDS[run[0].config.measure]
    path = mf.evolve(problem.field, problem.start, problem.times)
    for name, values in kind.frames(path.measures).items():
        # Legs restart the step control, so both are within the tolerance 1e-8 of the flow, over values of order one.
        np.testing.assert_allclose(run[0].data[name], values, atol=1e-6)


def test_a_frame_becomes_the_measure_again(run):
    again, kind = restored(run[0], -1), KINDS[run[0].config.measure]
    for name, values in kind.frames(run[1].final).items():
        np.testing.assert_allclose(kind.frames(again)[name], values, atol=1e-12)  # transforms there and back


def test_a_limit_continues_from_its_state_to_the_same_bits(run, tmp_path):
    problem, kind = build(run[0].config), KINDS[run[0].config.measure]
    first = leg(problem.field, problem.start, problem.times[0], problem.times[:3], problem.solver)
    eqx.tree_serialise_leaves(tmp_path / "state.eqx", first.final)
    state = eqx.tree_deserialise_leaves(tmp_path / "state.eqx", problem.start)
    again = leg(problem.field, state, first.outcome.time, problem.times[3:6], problem.solver)
    for name, values in kind.frames(again.measures).items():
        np.testing.assert_array_equal(values, run[0].data[name][3:6])
    assert json.loads((run[0].path / "commit.json").read_text()) == {"frames": 6, "state": "state-6.eqx"}


def test_a_run_of_a_limit_can_be_repeated_from_its_configuration(run):
    again = read(Simulation, {}, str(run[0].path / "config.toml"))
    assert again == run[0].config
    for one, other in zip(jax.tree.leaves(build(again).start), jax.tree.leaves(run[1].start), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_blow_up_of_a_gaussian_is_a_result_with_its_time(tmp_path):
    progress = simulate(read(Simulation, {"measure": "gaussian", "frames": 24, "out": str(tmp_path / "run")}))
    run = mf.runs.open(tmp_path / "run")
    assert run.info["outcome"].startswith("Blew up at t = 0.5")
    # Σ' = 2 beta Σ² from the identity at beta = 1 blows up at 1/2; the issue asks for 1e-6 relative.
    np.testing.assert_allclose(run.info["stats"]["blow_up_time"], 0.5, rtol=1e-6)
    assert run.frames == len(progress.times) == 12  # the last at 11/23
    assert np.isfinite(run.data["cov"]).all()
    closed = 1 / (1 - 2 * run.data.time.values)
    # The tolerance 1e-8 of some dozens of steps, grown by the factor 1/(1 - 2t) = 23 of the last frame.
    np.testing.assert_allclose(run.data["cov"][:, 0, 0], closed, rtol=1e-5)
    np.testing.assert_allclose(run.data.spread, np.sqrt(2 * closed), rtol=1e-5)
    np.testing.assert_allclose(run.data["rank"], 2.0, rtol=1e-12)


SAME_LAW = [("gaussian", "gaussian"), ("mixture", "clusters"), ("mixture", "gaussian"), *(
    (kind, law) for kind in ("circle", "sphere") for law in LAWS
)]  # fmt: skip


@pytest.mark.parametrize(("measure", "init"), SAME_LAW)
def test_tokens_are_a_sample_of_the_law_that_the_limit_starts_from(measure, init):
    n = 200_000
    limit = build(read(Simulation, {"measure": measure, "init": init, "seed": 4}))
    words = {"n": n, "init": init, "seed": 4, "space": limit.config.space, "dim": limit.config.dim, "beta": 1.0}
    tokens = build(read(Simulation, words)).start

    def features(x):  # low moments, which tell these laws apart
        return jnp.concatenate([x, jnp.outer(x, x).ravel(), x**3, x**4])

    f = jax.vmap(features)(tokens.points)
    spread = np.asarray(f.std(0)) / np.sqrt(n)
    # Five standard errors, for some twenty numbers in eleven cases: a failure by chance has probability 1e-4.
    # Tokens of ripples are drawn within cells of a grid: 5e-4 is the square of the width of a cell.
    bound = 5 * spread + (5e-4 if init == "ripples" else 1e-12)
    assert (np.abs(f.mean(0) - limit.start.expect(features)) <= bound).all()


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
    np.testing.assert_array_equal(peaks(values), [0, 1, 2, 3, 4])


def test_a_finer_map_is_the_same_density():
    def height(x):
        return (1 + 0.5 * x[:, 0] * x[:, 1] + 0.3 * x[:, 2]) / (4 * jnp.pi)

    coarse, fine = (mf.SphereDensity.from_function(height, degree) for degree in (4, 12))
    frame = np.asarray(coarse.values).reshape(coarse.grid.latitudes, -1)
    values, heights = finer(np.stack([frame, frame]), 4)
    np.testing.assert_allclose(values[1].ravel(), fine.values, atol=1e-14)
    np.testing.assert_array_equal(heights, fine.grid.z)


def test_limits_start_from_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("gaussian.npz", mean=np.ones(3), cov=np.diag([1.0, 2.0, 3.0]))
    np.savez("mixture.npz", weights=[1.0, 3.0], means=np.zeros((2, 1)), covs=np.ones((2, 1, 1)))
    np.savetxt("circle.csv", np.full(9, 1 / (2 * np.pi)))
    np.savez("sphere.npz", density=mf.SphereDensity.uniform(6).values)
    gaussian, mixture, circle = (
        build(read(Simulation, {"measure": kind, "init": file})).start
        for kind, file in (("gaussian", "gaussian.npz"), ("mixture", "mixture.npz"), ("circle", "circle.csv"))
    )
    np.testing.assert_allclose(gaussian.cov, np.diag([1.0, 2.0, 3.0]), rtol=1e-14)
    np.testing.assert_allclose(mixture.weights, [0.25, 0.75], rtol=1e-14)
    assert circle.modes == 4
    sphere = build(read(Simulation, {"measure": "sphere", "init": "sphere.npz", "modes": 6})).start
    np.testing.assert_allclose(sphere.values, 1 / (4 * np.pi), rtol=1e-12)


def test_noise_on_a_limit_takes_any_solver(tmp_path):
    words = {"measure": "circle", "modes": 8, "beta": 0, "noise": 0.5, "time": 1, "frames": 3, "verify": False}
    simulate(read(Simulation, words | {"out": str(tmp_path / "run")}))
    data = mf.runs.open(tmp_path / "run").data
    moments = np.fft.rfft(data.density.values)[:, 2] * (2 * np.pi / data.sizes["angle"])
    # The heat equation alone takes mode k to e^{-T k² t}; the drift from a mean of length 0.03 changes it by some percent.
    np.testing.assert_allclose(abs(moments[-1] / moments[0]), np.exp(-0.5 * 4), rtol=0.2)
    np.testing.assert_allclose(data.density.values.mean(-1) * 2 * np.pi, 1.0, atol=1e-14)  # the mass never moves


BAD = {
    "tokens of a limit": ({"measure": "circle", "n": 5}, "no tokens, which `n` would need"),
    "two wishes": ({"measure": "sphere", "movie": True, "merge": 0.1}, "`merge` and `movie` would need"),
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
    "too few modes": ({"measure": "sphere", "init": "clusters", "modes": 4}, "are too few for the law 'clusters'"),
    "unknown kind": ({"measure": "gausian"}, "did you mean 'gaussian'?"),
}


@pytest.mark.parametrize(("words", "expected"), BAD.values(), ids=BAD.keys())
def test_bad_limits_get_a_sentence(words, expected):
    with pytest.raises(InputError) as caught:
        build(read(Simulation, words))
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
        build(read(Simulation, {"measure": measure, "init": str(tmp_path / "start.npz")}))
    assert expected in str(caught.value)
