from .config import InputError as InputError
from .config import Simulation as Simulation
from .reading import Run as Run
from .reading import open as open
