"""Studies: one file per published claim, each with the claim, its setting, a run and a verdict.

    for name in studies.names(topic="sphere"):
        print(studies.run(name))

    [studies.run("generic-start-ends-in-one-cluster", seed=seed).as_expected for seed in range(10)]

Folders are themes. Files are found by their names and imported only when they run; `add` takes files from elsewhere.
"""

import importlib
import importlib.util
import sys
import time
from pathlib import Path

from measureflow import signatures
from measureflow.studies.base import FULL as FULL
from measureflow.studies.base import SMALL as SMALL
from measureflow.studies.base import Check as Check
from measureflow.studies.base import Claim as Claim
from measureflow.studies.base import Size as Size
from measureflow.studies.base import Study as Study
from measureflow.studies.base import Verdict as Verdict
from measureflow.studies.base import at_least as at_least
from measureflow.studies.base import at_most as at_most
from measureflow.studies.base import equal as equal
from measureflow.studies.base import said as said
from measureflow.studies.base import slope as slope
from measureflow.studies.bibliography import references as references
from measureflow.studies.catalogue import FOLDER, OWN, find, named
from measureflow.studies.catalogue import about as about
from measureflow.studies.catalogue import add as add
from measureflow.studies.catalogue import claim as claim
from measureflow.studies.catalogue import draws as draws
from measureflow.studies.catalogue import names as names
from measureflow.studies.catalogue import random as random
from measureflow.studies.catalogue import topics as topics
from measureflow.studies.descriptions import Description as Description
from measureflow.studies.descriptions import described


def description(name: str) -> Description:
    """What a study computes and what would make it fail, without running or importing it."""
    return described(find(name))


def load(name: str | Path) -> Study:
    """The study of a claim; a file that ends in `.py` is added first."""
    file = find(add(name) if str(name).endswith(".py") else str(name))
    module = _outside(file) if FOLDER not in file.parents else _inside(file)
    return Study(named(module.CLAIM, file), module)


def run(name: str | Path, size: Size = SMALL, seed: int = 0) -> Verdict:
    """The verdict on a claim, in float64 whatever the configuration is; an error inside the study leaves it undecided.

    `load(name).run(size, seed)` raises the error instead.
    """
    known = add(name) if str(name).endswith(".py") else str(name)
    stated, drawn, start = claim(known), seed if random(known) else None, time.perf_counter()
    try:
        return load(known).run(size, seed)
    except Exception as error:
        seconds = time.perf_counter() - start
        return Verdict(stated, reason=said(error), size=size, seed=drawn, seconds=seconds)


def _inside(file: Path):
    return importlib.import_module(f"{__name__}.{file.parent.name}.{file.stem}")


def _outside(file: Path):
    spec = importlib.util.spec_from_file_location(f"{__name__}.{OWN}.{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


signatures.shorten(globals())
