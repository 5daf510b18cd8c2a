"""Products keep the precision of their numbers wherever a user calls something by itself."""

import importlib
import inspect
import pickle
import pkgutil
import runpy
from collections.abc import Callable
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


FLOORS = ["transport", "diagnostics", "training", "networks", "models"]
"""The floors of functions, which a user calls by themselves."""


class Touched(BaseException):
    """An argument was looked at."""


@jax.tree_util.register_pytree_node_class
class Probe:
    """An argument that ends the call when it is looked at, and says in which precision products would be done."""

    def __getattribute__(self, name):
        raise Touched(jax.config.jax_default_matmul_precision)

    def tree_flatten(self):
        """Compiled functions look at the leaves of an argument."""

    @classmethod
    def tree_unflatten(cls, aux, leaves):
        """Never asked for."""


def functions() -> dict[str, Callable]:
    """The public functions of the floors, plain or compiled, by every path that leads to them."""
    packages = [importlib.import_module(f"measureflow.{floor}") for floor in FLOORS]
    inside = [
        module.name
        for package in packages
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    ]
    homes = tuple(package.__name__ for package in packages)
    return {
        f"{module.__name__}.{name}": value
        for module in (*packages, *map(importlib.import_module, inside))
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and not isinstance(value, type)
        if str(getattr(value, "__module__", "")).startswith(homes) and inspect.signature(value).parameters
    }


def asked_inside(function: Callable) -> str | None:
    """The precision of products inside a function, as its first argument sees it."""
    named = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    plain = [Probe() for p in named if p.kind is not p.KEYWORD_ONLY]
    with pytest.raises(Touched) as caught:
        function(*plain, **{p.name: Probe() for p in named if p.kind is p.KEYWORD_ONLY})
    return caught.value.args[0]


def test_a_function_reached_by_any_path_is_exact():
    found = functions()
    assert len(found) > 350
    assert {"measureflow.transport.pairs.costs", "measureflow.training.bounds.tangent_kernel"} <= set(
        found
    )  # compiled ones
    assert not [path for path, function in found.items() if asked_inside(function) != "highest"]


def test_an_exact_function_is_the_one_that_its_module_names():
    for path, function in functions().items():
        assert pickle.loads(pickle.dumps(function)) is function, path
        assert getattr(function, "__wrapped__", None) is not None, path
