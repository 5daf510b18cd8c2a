"""The tests run in float64, with strict promotion and with every shape annotation executed."""

import os
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# The hook stays in place for the whole session, because the package loads its floors when they are first used.
install_import_hook("measureflow", "beartype.beartype")

import measureflow as mf

SPACES = [
    mf.Euclidean(1),
    mf.Euclidean(3),
    mf.Sphere(2),
    mf.Sphere(3),
    mf.Sphere(8),
    mf.Ball(3, 2.0),
    mf.Product(mf.Ball(2, 6.0), mf.Euclidean(1)),
]


@pytest.fixture(params=SPACES, ids=str)
def space(request):
    return request.param


MAPPED = 20_000
"""Memory maps of a process at which compiled functions are dropped; Linux allows 65530, and XLA dies beyond."""


@pytest.fixture(autouse=True)
def few_memory_maps():
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MAPPED:
        jax.clear_caches()
