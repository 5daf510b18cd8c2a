"""Studies: one file per published claim, each with the claim, its setting, a run and a verdict.

    for name in studies.names():
        print(studies.run(name))

Files are found by their names and imported only when asked for.
"""

import difflib
import importlib
import pkgutil
import time
from dataclasses import replace
from types import ModuleType

from measureflow.studies.base import FULL as FULL
from measureflow.studies.base import SMALL as SMALL
from measureflow.studies.base import Check as Check
from measureflow.studies.base import Claim as Claim
from measureflow.studies.base import Size as Size
from measureflow.studies.base import Verdict as Verdict


def names() -> list[str]:
    """The ids of all claims that have a study, sorted."""
    files = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name.replace("_", "-") for name in files if name != "base")


def claim(name: str) -> Claim:
    """The claim with a given id."""
    return _study(name).CLAIM


def run(name: str, size: Size = SMALL) -> Verdict:
    """Compute what a claim predicts and judge it, in float64 whatever the configuration is."""
    import jax  # here, because it takes a second to load and the list of studies does not need it

    study = _study(name)
    start = time.perf_counter()
    with jax.enable_x64(True):
        verdict = study.run(size)
    return replace(verdict, seconds=time.perf_counter() - start)


def _study(name: str) -> ModuleType:
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        raise ValueError(
            f"`name` is {name!r}, which is no study. The nearest is {near[0]!r}; `names()` lists them all."
        )
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
