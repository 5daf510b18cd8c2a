"""The tests run in float64, with strict promotion and with every shape annotation executed.

They compile thousands of programs that run for milliseconds, so XLA is asked for the plainest machine code, in half the time,
but for tests marked `busy`, which compute for longer than they compile. Python looks for garbage less often than tracing makes
it.
`XLA_FLAGS= JAX_DISABLE_MOST_OPTIMIZATIONS=0 make test` runs them as users do.
"""

import contextlib
import ctypes
import gc
import os
import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("JAX_PLATFORMS", "cpu")
PLAIN = ("backend_optimization_level=1", "cpu_use_fusion_emitters=false", "cpu_parallel_codegen_split_count=1")
os.environ.setdefault("XLA_FLAGS", " ".join(f"--xla_{flag}" for flag in PLAIN))
PLAINEST = os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") == "1"
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two workers have a core each, and waiting threads spin

# What users have run is remembered in a folder of their own; that of the tests is not the one of whoever runs them.
os.environ["XDG_STATE_HOME"] = str(Path(__file__).parents[1] / ".pytest_cache/state")

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
# Both workers, and later sessions, share one cache of compiled programs, however small.
PROGRAMS = Path(
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache/programs"))
)
jax.config.update("jax_compilation_cache_dir", str(PROGRAMS))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

# The hook stays in place for the whole session, because the package loads its floors when they are first used.
install_import_hook("measureflow", "beartype.beartype")

import measureflow as mf

gc.freeze()  # what is loaded stays
gc.set_threshold(200_000, 50, 1000)

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


STORED = 1e9
"""Bytes on the disk at which the cache of programs begins anew."""


def pytest_sessionstart(session):
    first = "PYTEST_XDIST_WORKER" not in os.environ
    if first and PROGRAMS.is_dir() and sum(file.stat().st_size for file in PROGRAMS.iterdir()) > STORED:
        shutil.rmtree(PROGRAMS)


RESIDENT = 3.5e9
"""Bytes of memory at which compiled functions are dropped: each holds more than a megabyte, and a worker may have 4 GB."""


def resident():
    """The bytes of memory that the process holds, where Linux tells."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


@contextlib.contextmanager
def well_compiled():
    """With machine code for programs that run for seconds."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", PLAINEST)


@pytest.fixture(scope="session")
def optimised():
    return well_compiled


@pytest.fixture(autouse=True)
def machine_code(request):
    with well_compiled() if request.node.get_closest_marker("busy") else contextlib.nullcontext():
        yield


@pytest.fixture(autouse=True)
def little_memory():
    yield
    if resident() > RESIDENT:
        jax.clear_caches()
        gc.collect()
        if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)  # freed pages are otherwise kept, and the next test would drop everything again


@pytest.fixture(scope="session")
def made():
    """How small random checkpoints are made, and their sizes."""
    return runpy.run_path(str(Path(__file__).with_name("checkpoints.py")))["made"]()


@pytest.fixture(scope="session")
def foreign():
    """The generators of files of strangers."""
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("foreign.py"))))
