"""The console of the command line: it prints what it is given, and there is no other."""

from pathlib import Path

from rich.table import Table

import measureflow
from measureflow.cli.printing import Printer

NAME = "[bold]a[/red] :smile: \x1b[31m"
SHOWN = "[bold]a[/red] :smile: \\x1b[31m"


def test_text_is_no_markup_on_a_line_or_in_a_table(capsys):
    table = Table(NAME)
    table.add_row(NAME)
    table.add_row("[link=https://nowhere]x")
    printer = Printer()
    printer.print(NAME)
    printer.print(table)
    out = capsys.readouterr().out
    assert out.count(SHOWN) == 3
    assert "[link=https://nowhere]x" in out
    assert "\x1b" not in out


def test_no_other_console_is_made():
    folder = Path(measureflow.__file__).parent
    makers = {str(path.relative_to(folder)) for path in folder.rglob("*.py") if "rich.console" in path.read_text()}
    assert makers == {"cli/printing.py"}
