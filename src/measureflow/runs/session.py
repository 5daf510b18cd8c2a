"""The same start in both precisions: what is drawn is drawn in float64, and rounded where a run is in float32."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def in_float64(make: Callable[[], Any]) -> Any:
    """What a function makes in float64, rounded to the precision of the session: one seed gives the same numbers in both."""
    with jax.enable_x64(True):
        made = make()
    return made if jax.config.read("jax_enable_x64") else jax.tree.map(_rounded, made)


def _rounded(leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array) or jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
    return jnp.asarray(np.asarray(leaf).astype(dtype), dtype)


KEPT = (
    "jax_enable_x64",
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)
"""Settings of JAX that other processes of a session share: its precision, and where programs are kept."""


def session() -> dict[str, Any]:
    """How this process computes."""
    return {name: getattr(jax.config, name) for name in KEPT}


def adopt(settings: dict[str, Any]) -> None:
    """Compute as another process does."""
    for name, value in settings.items():
        jax.config.update(name, value)


def warn_of_float32() -> None:
    """Warn, once, where runs are in float32 and the command line would run in float64."""
    if not jax.config.read("jax_enable_x64"):
        warn_once()


@functools.cache
def warn_once() -> None:
    """Warn, the first time this is called."""
    warnings.warn(
        "measureflow: this session computes in float32, with tolerances of 1e-5, and the command line in float64. Call "
        '`jax.config.update("jax_enable_x64", True)` first for the same numbers.',
        stacklevel=4,
    )
