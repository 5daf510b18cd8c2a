"""What a study computes and what would make it fail, read from its file without running it.

The idea is the docstring of the file and the setting that of `run`. A part of the verdict is a call of `equal`, `at_most` or
`at_least`: its name, its prediction and its tolerance as they are written, and the comment beside it that gives the reason.
"""

import ast
import inspect
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

RELATIONS = {"equal": "is not", "at_most": "exceeds", "at_least": "is below"}
BOUNDS = {"equal": "within", "at_most": "by more than", "at_least": "by more than"}


@dataclass(frozen=True)
class Part:
    """One check as it is written: what fails it, why its tolerance is what it is, and whether it is true instead of the claim."""

    what: str
    fails: str
    reason: str
    instead: bool

    def __str__(self) -> str:
        return f"{self.what} {self.fails}{f' ({self.reason})' if self.reason else ''}"


@dataclass(frozen=True)
class Description:
    """The texts of a study: the idea with its formulas, the setting, and the parts of the verdict."""

    idea: str
    setting: str
    parts: tuple[Part, ...]
    file: Path


def described(file: Path) -> Description:
    """The description of the study in a file."""
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    run = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run")
    parts = tuple(_parts(tree, _comments(text)))
    return Description(ast.get_docstring(tree) or "", ast.get_docstring(run) or "", parts, file)


def _parts(tree: ast.AST, comments: dict[int, tuple[str, bool]], instead: bool = False) -> Iterator[Part]:
    """The checks in the order of the file; those under `instead` are what is true in place of the claim."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Call(func=ast.Name(id="equal" | "at_most" | "at_least")):
                yield _part(node, comments, instead)
            case ast.keyword(arg="data"):  # checks for the picture alone
                pass
            case _:
                yield from _parts(node, comments, instead or _is_instead(node))


def _is_instead(node: ast.AST) -> bool:
    match node:
        case ast.keyword(arg="instead") | ast.Assign(targets=[ast.Name(id="instead")]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="instead"))):
            return True
        case _:
            return False


def _part(call: ast.Call, comments: dict[int, tuple[str, bool]], instead: bool) -> Part:
    assert isinstance(call.func, ast.Name)
    given = [*call.args, *(word.value for word in call.keywords)]
    what, predicted, _, *slack = map(_written, given)
    relation, bound = RELATIONS[call.func.id], BOUNDS[call.func.id]
    allowed = f" {bound} {slack[0]}" if slack and slack[0] not in ("0", "0.0") else ""
    return Part(what, f"{relation} {predicted}{allowed}", _reason(call, comments), instead)


def _written(node: ast.expr) -> str:
    """An expression as it is written; a text without its quotes."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_written(value) for value in values)
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
        case _:
            return ast.unparse(node)


def _comments(text: str) -> dict[int, tuple[str, bool]]:
    """Comments by their line, and whether they stand alone there."""
    tokens = tokenize.generate_tokens(StringIO(text).readline)
    return {
        token.start[0]: (token.string.lstrip("# "), not token.line[: token.start[1]].strip())
        for token in tokens
        if token.type == tokenize.COMMENT
    }


def _reason(call: ast.Call, comments: dict[int, tuple[str, bool]]) -> str:
    """The comment above a call and those within its lines."""
    first = call.lineno
    while comments.get(first - 1, ("", False))[1]:
        first -= 1
    lines = range(first, (call.end_lineno or call.lineno) + 1)
    return inspect.cleandoc(" ".join(comments[line][0] for line in lines if line in comments))
