"""How much memory a run would take: what does not fit is refused before anything is allocated.

Estimates are measured for tokens and for densities on the sphere and counted for the others.
"""

from measureflow import memory
from measureflow.memory import NUMBER
from measureflow.memory import available as available
from measureflow.memory import in_words as in_words
from measureflow.words.settings import InputError, Settings


def check(settings: Settings) -> None:
    """Refuse a run that needs more memory than is free, with the options that would make it smaller."""
    options = " or ".join(f"`{name}`" for name in settings.sizes())
    ask(NUMBER * settings.numbers(), "This", f"make {options} smaller")


def ask(size: int | float, what: str, remedy: str) -> None:
    """Refuse input that takes more bytes than are free."""
    try:
        memory.ask(size, what, remedy)
    except ValueError as error:
        raise InputError(str(error)) from None
