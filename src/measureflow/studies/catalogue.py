"""Which studies there are, read from their files without running them.

A theme is a folder and a study is a file in it with a `CLAIM`; its name is that of the file. Statements are read from the
text, because importing a hundred studies takes a minute. Files from outside the package join by `add`, under the theme
`own`.
"""

import ast
import difflib
from dataclasses import replace
from functools import cache
from pathlib import Path

from measureflow.studies.base import Claim

FOLDER = Path(__file__).parent
OWN = "own"
"""The theme of studies from outside."""

_added: dict[str, Path] = {}


def names(topic: str | None = None) -> list[str]:
    """The ids of all claims that have a study, sorted; only those of a theme if one is given."""
    if topic is not None and topic not in topics():
        raise ValueError(f"`topic` is {topic!r}, which is no theme of studies. There are: {', '.join(topics())}.")
    return sorted(name for name, file in _files().items() if topic in (None, _topic(file)))


def topics() -> list[str]:
    """The themes of all studies, sorted; `own` among them when a study was added."""
    return sorted({_topic(file) for file in _files().values()})


def about(topic: str) -> str:
    """What a theme is, in a line."""
    if topic == OWN:
        return "Studies from outside the package."
    return ast.get_docstring(ast.parse((FOLDER / topic / "__init__.py").read_text())) or ""


def claim(name: str) -> Claim:
    """The claim with a given id, without running or importing its study."""
    return _read(find(name))


def draws(name: str) -> bool:
    """Whether the study of a claim has a picture."""
    return "draw" in _functions(_parse(find(name)))


def random(name: str) -> bool:
    """Whether the study of a claim draws at random, and so takes a seed."""
    taken = _functions(_parse(find(name)))["run"].args
    return "seed" in [word.arg for word in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]


def add(file: str | Path) -> str:
    """Make a file with `CLAIM` and `run` a study of its own, and return its name, which is that of the file."""
    path = Path(file).resolve()
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(f"`file` is {str(file)!r}, which is no Python file that exists.")
    name = _name(path)
    if _files().get(name, path) != path:
        raise ValueError(f"`file` is {str(file)!r}, but there is a study {name!r} already; rename the file.")
    if "run" not in _functions(_parse(path)):
        raise ValueError(f"{path.name} has no function `run`; a study has `CLAIM = Claim(...)` and `run(size)`.")
    _read(path)
    _added[name] = path
    return name


def find(name: str) -> Path:
    """The file of a study."""
    files = _files()
    if name not in files:
        near = difflib.get_close_matches(name, files, n=1, cutoff=0.0)
        raise ValueError(
            f"`name` is {name!r}, which is no study. The nearest is {near[0]!r}; `names()` lists them all."
        )
    return files[name]


def named(claim: Claim, file: Path) -> Claim:
    """A claim with the name and theme of the file that holds it."""
    return replace(claim, name=_name(file), topic=_topic(file))


@cache
def _shipped() -> dict[str, Path]:
    files = FOLDER.glob("*/*.py")
    return {_name(file): file for file in files if "\nCLAIM = " in file.read_text(encoding="utf-8")}


def _files() -> dict[str, Path]:
    return {**_shipped(), **_added}


def _name(file: Path) -> str:
    return file.stem.replace("_", "-")


def _topic(file: Path) -> str:
    return file.parent.name if file.parent.parent == FOLDER else OWN


def _parse(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise ValueError(f"{file.name} is not Python: {error.msg}, line {error.lineno}.") from None


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _read(file: Path) -> Claim:
    """The claim of a file, from the literal arguments of `CLAIM = Claim(...)`."""
    for node in _parse(file).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="CLAIM")], value=ast.Call(args=args, keywords=words)):
                try:
                    literal = {word.arg: ast.literal_eval(word.value) for word in words if word.arg}
                    return named(Claim(*map(ast.literal_eval, args), **literal), file)
                except (TypeError, ValueError):
                    break
    raise ValueError(
        f'{file.name} needs `CLAIM = Claim("statement", reference="...", where="...")` with its sentences written out.'
    )
