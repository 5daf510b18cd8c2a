from . import vocabulary as vocabulary
from .measures import AbstractMeasureWord as AbstractMeasureWord
from .optimisers import OptimiserWord as OptimiserWord
from .series import Series as Series
from .settings import InputError as InputError
from .table import Option as Option
from .table import Table as Table
from .table import Word as Word
