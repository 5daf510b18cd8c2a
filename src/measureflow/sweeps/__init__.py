"""Sweeps: the runs of one design, each computed once, in one table and one picture.

Names load when first used; `__init__.pyi` lists them.
"""

from measureflow import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
