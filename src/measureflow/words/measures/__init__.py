"""The words for measures, one file each: its options and rules, its start, what is stored of it, what is watched, its picture.

A file that holds a `WORD` is found by its name, which is the word. The others hold what several words share.
"""

import importlib
import pkgutil

from measureflow.words.measures.base import AbstractMeasureWord as AbstractMeasureWord


def found() -> dict[str, AbstractMeasureWord]:
    """The words of this folder by name."""
    modules = {name: importlib.import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__)}
    words = {name: module.WORD for name, module in modules.items() if hasattr(module, "WORD")}
    return dict(sorted(words.items(), key=lambda item: (item[1].rank, item[0])))
