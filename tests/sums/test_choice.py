"""The choice of an engine follows size, space, precision and tolerance by measured costs."""

import numpy as np
import pytest

import measureflow as mf
from measureflow.sums import Auto, Blockwise, Cost, Dense, Fourier, Harmonics, KernelSum, Native, choose, costs, native

built = pytest.mark.skipif(not native.available(), reason="the native kernel is not built")


@pytest.fixture(autouse=True)
def no_calibration(monkeypatch, tmp_path):
    """Costs as they come with the package, whatever was measured on this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    costs.calibrated.cache_clear()
    yield
    costs.calibrated.cache_clear()


def test_few_pairs_are_held_at_once_and_many_are_not():
    assert isinstance(choose(KernelSum(8, 8, 3, "float64")), Dense)
    assert isinstance(choose(KernelSum(100, 100, 16, "float64")), Dense)
    assert isinstance(choose(KernelSum(10_000, 10_000, 16, "float64")), Native if native.available() else Blockwise)


@built
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_coordinates_take_the_native_kernel_from_few_tokens_on(dtype):
    for n in (9, 32, 128, 512):
        assert isinstance(choose(KernelSum(n, n, 3, np.dtype(dtype).name)), Native)


def test_a_precision_without_measured_costs_goes_through_blocks():
    assert isinstance(choose(KernelSum(10_000, 10_000, 3, "float16")), Blockwise)


@built
def test_spheres_with_a_tolerance_take_sums_below_all_pairs():
    assert choose(KernelSum(10**5, 10**5, 2, "float64", True, 1e-9)) == Fourier(1e-9)
    assert choose(KernelSum(10**5, 10**5, 3, "float64", True, 1e-9)) == Harmonics(1e-9)
    assert isinstance(choose(KernelSum(10**5, 10**5, 4, "float64", True, 1e-9)), Native)
    assert isinstance(choose(KernelSum(10**5, 10**5, 2, "float64", True, None)), Native)
    assert isinstance(choose(KernelSum(10**5, 10**5, 2, "float64", False, 1e-9)), Native)


@built
def test_a_measure_tells_its_engine_where_tokens_live():
    points = mf.Particles.iid(mf.Sphere(2), 5000, key=0)
    assert points.engine_name == "fourier"
    assert points.push(lambda x: 2 * x).engine_name == "native"
    assert points.push(lambda x: 2 * x).settle().engine_name == "fourier"
    assert mf.Particles(mf.Euclidean(2), points.points).engine_name == "native"


@built
def test_flows_keep_the_tolerance_of_their_solver():
    mu = mf.Particles.iid(mf.Sphere(2), 3000, key=1)
    field, times = mf.SoftmaxAttention.isotropic(2, 9.0), [0.0, 0.5]
    fast = mf.evolve(field, mu, times)
    exact = mf.evolve(field, mu, times, engine=Native())
    assert fast.stats["engine"] == "fourier"
    # Errors of 1e-10 in the velocity over half a unit of time, in which neighbours part by less than e^5.
    np.testing.assert_allclose(fast.final.points, exact.final.points, atol=1e-8)
    tight = mf.evolve(field, mu, [0.0, 0.01], mf.Adaptive(1e-12))
    assert tight.stats["engine"] == "native"


def test_a_tighter_tolerance_is_rounded_down_and_an_impossible_one_means_all_pairs():
    assert Auto().within(1e-8) == Auto()
    assert Auto().within(3e-12).tolerance == pytest.approx(1e-12)
    assert Auto().within(1e-15).tolerance is None
    assert Auto().within(None).tolerance is None


def test_a_calibration_is_kept_and_used():
    slow = {"native": Cost(1e3), "fourier": Cost(1e3)}
    file = costs.keep("cpu float64", slow)
    assert file.is_file()
    assert isinstance(choose(KernelSum(10**5, 10**5, 2, "float64", True, 1e-9)), Blockwise)
    costs.keep("cpu float32", {"native": Cost(0.0)})
    assert Native.cost("cpu float64") == Cost(1e3)
    assert Dense.cost("cpu float64") == Dense.costs["cpu float64"]


def test_a_broken_calibration_is_ignored():
    file = costs.cache_file()
    file.parent.mkdir(parents=True)
    file.write_text("{")
    assert Native.cost("cpu float64") == Native.costs["cpu float64"]
