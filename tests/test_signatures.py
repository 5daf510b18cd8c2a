"""Signatures read as their source does."""

import inspect
import re
from functools import partial

import pytest
from pydantic import BaseModel

import measureflow as mf


def test_a_signature_reads_as_its_source():
    shown = str(inspect.signature(mf.evolve))
    assert shown.startswith(
        "(field: AbstractField, mu0: Measure, times: Numbers, solver: AbstractSolver | None = None, *,"
    )
    assert "observe: Callable[[Measure], Any] | None = None" in shown
    assert shown.endswith("-> Trajectory[Measure]")
    assert str(inspect.signature(mf.Particles.iid)) == "(space: AbstractSpace, n: int, *, key: RandomKey) -> Particles"


def public():
    """The functions, classes and public methods that `mf` and its floors show, by name."""
    floors = [mf, *(value for value in map(partial(getattr, mf), dir(mf)) if inspect.ismodule(value))]
    rooms = [*floors, *map(partial(getattr, mf.theory), mf.theory.__all__)]
    found = {f"{room.__name__}.{name}": getattr(room, name) for room in rooms for name in dir(room) if name[0] != "_"}
    kinds = {name: kind for name, kind in found.items() if inspect.isclass(kind)}
    methods = {f"{name}.{m}": getattr(kind, m) for name, kind in kinds.items() for m in dir(kind) if m[0] != "_"}
    return {name: value for name, value in {**found, **methods}.items() if shown(value)}


def shown(value):
    """Whether something of ours has a signature that we write: that of an error is Python's, that of settings is Pydantic's."""
    if inspect.isclass(value) and issubclass(value, Exception | BaseModel):
        return False
    ours = str(getattr(value, "__module__", "")).startswith("measureflow")
    return ours and (inspect.isclass(value) or inspect.isroutine(value))


def test_no_public_signature_shows_where_types_are_kept_or_what_they_stand_for():
    signatures = {name: str(inspect.signature(value)) for name, value in public().items()}
    assert len(signatures) > 1500
    # Modules, and the types that a name of JAX or NumPy stands for; where a function is kept.
    unreadable = re.compile(
        r"\b(measureflow|jaxtyping|jaxlib|numpy|typing|collections)\.|Union|_Supports| at 0x|UInt32"
    )
    types = {name: re.sub(r"= '[^']*'", "", text) for name, text in signatures.items()}  # a default may name a module
    assert not {name: text for name, text in types.items() if unreadable.search(text)}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (mf.theory.two_tokens.overlap, "(t: Numbers, start: Numbers = 0.0) -> Values"),
        (mf.theory.rates.antipode_escape, "(beta: Numbers, *, model: Model = softmax) -> Values"),
        (mf.theory.retrieval.critical_time, "(rates: Float[ArrayLike, 'k'], slope: Numbers, width: Numbers) -> Values"),
        (
            mf.theory.gaussian.covariance,
            "(t: Number, cov: Float[Array, 'd d'], A: Float[Array, 'd d'], V: Float[Array, 'd d'])",
        ),
        (mf.Sphere.sample, "(self, key: PRNGKeyArray) -> Float[Array, 'd']"),
        (mf.transport.wasserstein, "(mu: AbstractMeasure, nu: AbstractMeasure, p: "),
        (mf.training.bounds.tangent_kernel, "(risk: "),
        (mf.words.Word, "(help: str, make: str | Callable[..., Any] = '', "),
    ],
)
def test_types_have_their_short_names(function, expected):
    assert str(inspect.signature(function)).startswith(expected)


def test_a_default_is_shown_by_its_name_and_stays_what_it_is():
    signature = inspect.signature(mf.theory.two_tokens.time_to)
    assert "model: Model = softmax" in str(signature)
    assert signature.parameters["model"].default is mf.theory.equiangular.softmax
