"""measureflow: transformers as measures in motion.

Names are loaded when they are first used, so that the command line answers at once; `__init__.pyi` lists them.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
