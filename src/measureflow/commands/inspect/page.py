"""An inspected model as one page of HTML, with all pictures and tables inside it, so that it opens without a network."""

import base64
import html
import io
from typing import Any

from measureflow.commands.inspect.analysis import Inspected
from measureflow.commands.inspect.findings import NO, OPEN, YES, Finding, findings
from measureflow.commands.inspect.report import NOTES, figure, rows
from measureflow.runs.reader import Run

COLOURS = {OPEN: "open", YES: "yes", NO: "no"}
"""Answers and the classes of their styles; a longer answer comes before one that it begins with."""

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #2e3440; max-width: 1180px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
img { max-width: 100%; } table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid #ddd; }
.yes { color: #00724f; font-weight: 600; } .no { color: #b34700; font-weight: 600; } .open { color: #666; font-weight: 600; }
summary { cursor: pointer; } small { color: #666; }
"""


def page(run: Run) -> str:
    """The page of a run."""
    found = Inspected(run)
    verdicts = findings(found)
    body = [
        f"<h1>{html.escape(run.title)}</h1><p>{html.escape(run.outcome)} {_asked(run)}</p>",
        _image(figure(run)),
        "<h2>What was found</h2>",
        _table(row for row in rows(run) if row[0] not in {one.name for one in verdicts}),
        *(_note(note) for note in NOTES),
        "<h2>What theory says</h2>",
        _verdicts(verdicts),
        *_more(found),
    ]
    head = f'<meta charset="utf-8"><title>{html.escape(run.title)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _asked(run: Run) -> str:
    made = f"measureflow {run.info['versions']['measureflow']}, seed {run.info['seed']}, {run.info['seconds']:.0f} s"
    asked = f"<details><summary>settings</summary><pre>{html.escape(run.toml)}</pre></details>"
    return f"<small>{html.escape(made)}</small>{asked}"


def _more(found: Inspected) -> list[str]:
    from measureflow.plotting.inspection import crowding_figure, heads_figure, slopes_figure

    if not len(found.layers):
        return []
    cosines = found["head_cosines"] if "head_cosines" in found.run.data else None
    parts = [
        "<h2>Clusters across depth</h2>",
        _image(crowding_figure(found)),
        "<h2>Heads</h2>",
        _image(heads_figure(found, cosines)),
    ]
    if len(found.chosen):
        parts += ["<h2>Slopes</h2>", _image(slopes_figure(found, found.growth))]
    return parts


def _image(drawn: Any) -> str:
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=110)
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'


def _table(entries: Any) -> str:
    cells = (f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>" for name, text in entries)
    return f"<table>{''.join(cells)}</table>"


def _verdicts(found: list[Finding]) -> str:
    head = "<tr><th>theorem</th><th>supposes</th><th>holds?</th><th>foretells</th><th>seen?</th></tr>"
    lines = (
        f"<tr><td>{html.escape(one.name)}<br><small>{one.theorem}</small></td><td>{html.escape(one.supposes)}</td>"
        f"<td>{_answer(one.holds)}<br><small>{html.escape(one.numbers)}</small></td><td>{html.escape(one.foretells)}</td>"
        f"<td>{_answer(one.seen)}</td></tr>"
        for one in found
    )
    return f"<table>{head}{''.join(lines)}</table>"


def _answer(text: str) -> str:
    """An answer with its first word in its colour."""
    word, kind = next((word, kind) for word, kind in COLOURS.items() if text.startswith(word))
    return f'<span class="{kind}">{html.escape(word)}</span>{html.escape(text.removeprefix(word))}'


def _note(note: Any) -> str:
    word, line, paragraph = map(html.escape, (note.word, note.line, note.paragraph))
    return f"<details><summary><b>{word}</b>: {line}</summary>{paragraph}</details>"
