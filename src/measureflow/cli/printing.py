"""The console of the command line, on which tables and lines are printed."""

from typing import Any, final

from rich.console import Console
from rich.text import Text

from measureflow.cli.terminal import plain


@final
class Printer(Console):
    """A console for which every text is only text: rich finds no markup in it, and a terminal no commands."""

    def __init__(self):
        super().__init__(markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """A text as it is. Rich sends every text through here, also the cells of tables."""
        return super().render_str(plain(text), **options)
