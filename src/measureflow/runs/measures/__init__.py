"""The words for measures, one file each: its options and rules, its start, what is stored of it, what is watched, its picture.

A file is found by its name, which is the word; it holds a `WORD`.
"""

import importlib
import pkgutil

from measureflow.runs.measures.base import AbstractMeasureWord as AbstractMeasureWord


def found() -> dict[str, AbstractMeasureWord]:
    """The words of this folder by name."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if module.name != "base"]
    words = {name: importlib.import_module(f"{__name__}.{name}").WORD for name in names}
    return dict(sorted(words.items(), key=lambda item: (item[1].rank, item[0])))
