"""One seed in both precisions, and how other processes compute as this one."""

import runpy
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.runs import session


def test_one_seed_gives_the_same_tokens_in_both_precisions(tmp_path):
    words = {"n": 6, "time": 0.1, "frames": 2, "verify": False}
    double = mf.runs.run("simulate", out=str(tmp_path / "double"), **words)
    with jax.enable_x64(False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        single = mf.runs.run("simulate", out=str(tmp_path / "single"), **words)
    assert (single.info["precision"], double.info["precision"]) == ("float32", "float64")
    assert single.points.dtype == np.float32
    # Rounding to float32 at the start; at the end its tolerance of 1e-5.
    np.testing.assert_allclose(single.points[0], double.points[0], atol=1e-7)
    np.testing.assert_allclose(single.points[-1], double.points[-1], atol=1e-4)


def test_float32_is_told_once():
    fresh = runpy.run_path(session.__file__)  # as in a process that has not been told yet
    fresh["warn_of_float32"]()  # float64 is what the command line has
    with jax.enable_x64(False):
        with pytest.warns(UserWarning, match="computes in float32"):
            fresh["warn_of_float32"]()
        fresh["warn_of_float32"]()  # a second warning would be an error here


def test_what_is_made_in_float64_is_rounded_and_keys_are_left_as_they_are():
    def make():
        return {"third": jnp.asarray(1.0) / 3, "key": jax.random.key(0), "name": "x"}

    assert session.in_float64(make)["third"] == 1 / 3
    with jax.enable_x64(False):
        single = session.in_float64(make)
    assert single["third"].dtype == jnp.float32
    assert single["third"] == np.float32(1 / 3)
    assert jnp.issubdtype(single["key"].dtype, jax.dtypes.prng_key)
    assert single["name"] == "x"


def test_another_process_adopts_how_this_one_computes():
    held = session.session()
    assert held["jax_enable_x64"] is True
    assert held["jax_compilation_cache_dir"] == jax.config.jax_compilation_cache_dir
    session.adopt(held | {"jax_persistent_cache_min_compile_time_secs": 7.0})
    assert session.session()["jax_persistent_cache_min_compile_time_secs"] == 7.0
    session.adopt(held)
    assert session.session() == held
