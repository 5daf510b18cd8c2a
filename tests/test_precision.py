"""Products keep the precision of their numbers wherever a user calls something by itself."""

import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

SHARED = runpy.run_path(str(Path(__file__).with_name("exactness.py")))
CALLS, POINTS = SHARED["calls"](jnp.float64), SHARED["tokens"](jnp.float64)
WITHOUT = {"hardmax", "energy: interaction", "variation: interaction"}
"""What multiplies no matrices here: tokens are compared, or sums are those of a kernel."""


def products(call) -> list[str]:
    return [
        line for line in jax.jit(call).lower(POINTS).as_text().splitlines() if "dot_general" in line and "xf64>" in line
    ]


@pytest.mark.parametrize("name", CALLS)
def test_products_are_exact_by_default(name):
    inside = products(CALLS[name])
    assert inside or name in WITHOUT
    # On a GPU factors of float32 products are otherwise rounded to ten bits.
    assert all("precision = [HIGHEST, HIGHEST]" in line for line in inside)


def test_who_asks_for_less_gets_less():
    with jax.default_matmul_precision("tensorfloat32"):
        assert not all("HIGHEST" in line for line in products(CALLS["perceptron"]))
