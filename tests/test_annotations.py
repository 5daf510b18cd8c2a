"""Signatures read as their source does."""

import inspect

import measureflow as mf


def test_a_signature_reads_as_its_source():
    shown = str(inspect.signature(mf.evolve))
    assert shown.startswith(
        "(field: AbstractField, mu0: Measure, times: Numbers, solver: AbstractSolver | None = None, *,"
    )
    assert "observe: Callable[[Measure], Any] | None = None" in shown
    assert shown.endswith("-> Trajectory[Measure]")
    assert str(inspect.signature(mf.Particles.iid)) == "(space: AbstractSpace, n: int, *, key: RandomKey) -> Particles"


def test_no_public_signature_shows_where_types_are_kept():
    floors = [mf, mf.diagnostics, mf.training, mf.transport, mf.runs]
    public = [getattr(floor, name) for floor in floors for name in dir(floor) if not name.startswith("_")]
    shown = [str(inspect.signature(value)) for value in public if inspect.isroutine(value) or inspect.isclass(value)]
    assert len(shown) > 150
    assert not [text for text in shown if "measureflow." in text or "jaxtyping." in text or "_SupportsArray" in text]
