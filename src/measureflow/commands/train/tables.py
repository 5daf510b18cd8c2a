"""Tables of data for neurons: inputs and what they should give, from CSV, npz, images of the format of MNIST, and scikit-learn.

What a file means is told before anything is computed, and where it could mean two things it is refused.
"""

import gzip
import itertools
import math
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from measureflow import files, memory
from measureflow.commands.train.settings import NeuronTraining
from measureflow.words.settings import InputError
from measureflow.words.table import load
from measureflow.words.vocabulary import TABLES_OF_DATA

INPUTS = ("inputs", "x", "X", "x_train")
"""Names of arrays of an npz file that are inputs, the first of them that is there."""

LABELS = ("labels", "y", "targets", "y_train")
"""Names of what is predicted."""


class Sheet(NamedTuple):
    """Inputs, one row a datum, and what they should give; the labels as they were read, and their name."""

    inputs: np.ndarray
    labels: np.ndarray
    target: str = ""


def sheet_of(config: NeuronTraining) -> Sheet:
    """The table that a configuration names."""
    if config.data in TABLES_OF_DATA:
        return _bundled(config.data)
    readers = {".npz": _npz, ".csv": _csv}
    try:
        sheet = readers.get(Path(config.data).suffix, _idx)(config)
    except ValueError as error:
        raise error if isinstance(error, InputError) else InputError(f"`data`: {error}") from None
    _check(config.data, sheet)
    return sheet


def _check(file: str, sheet: Sheet) -> None:
    """Refuse what nothing can be learned from: no data, no inputs, and numbers that are not finite."""
    if len(sheet.inputs) != len(sheet.labels):
        raise InputError(
            f"`data`: {file!r} has {len(sheet.inputs)} rows of inputs and {len(sheet.labels)} labels; there is one of each for "
            "a datum."
        )
    if len(sheet.inputs) < 2 or not sheet.inputs.shape[1]:
        raise InputError(f"`data` needs at least 2 rows and an input; {file!r} has the shape {sheet.inputs.shape}.")
    for name, values in (("inputs", sheet.inputs), ("targets", sheet.labels)):
        if np.issubdtype(values.dtype, np.number) and not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values.reshape(len(values), -1)))[0, 0])
            raise InputError(f"`data`: the {name} of {file!r} are not finite in row {row + 1}; leave such rows out.")


def _bundled(name: str) -> Sheet:
    try:
        inputs, labels = load(TABLES_OF_DATA[name].make)(return_X_y=True)
    except ImportError:
        raise InputError(
            f"`data` {name} comes with scikit-learn: install it with `pip install measureflow[data]`."
        ) from None
    return Sheet(np.asarray(inputs, float), np.asarray(labels))


def _idx(config: NeuronTraining) -> Sheet:
    """Images of the format of MNIST, with the file of labels beside them."""
    images = Path(config.data)
    labels = images.with_name(images.name.replace("images-idx3", "labels-idx1"))
    if images == labels or not labels.is_file():
        raise InputError(
            f"`data`: {config.data!r} needs its labels beside it: images are in ...images-idx3-ubyte, labels in "
            "...labels-idx1-ubyte."
        )
    pixels = _bytes(images, 3)
    return Sheet(pixels.reshape(len(pixels), -1) / 255, _bytes(labels, 1).astype(int))


def _bytes(file: Path, axes: int) -> np.ndarray:
    """The array of bytes of an IDX file, packed or not; nothing is unpacked beyond the size that its head says."""
    wrong = ValueError(f"{str(file)!r} is no file of bytes in the format of MNIST with {axes} axes.")
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            head = stream.read(4 * (axes + 1))
            shape = np.frombuffer(head[4:], ">u4").tolist()
            if head[:4] != bytes([0, 0, 8, axes]) or len(shape) != axes or 0 in shape:
                raise wrong
            size = int(np.prod(shape, dtype=object))
            memory.ask(10 * size, f"{str(file)!r}", "take a smaller file")
            raw = stream.read(size + 1)
    except (OSError, EOFError, zlib.error):
        raise wrong from None
    if len(raw) != size:
        raise wrong
    return np.frombuffer(raw, np.uint8).reshape(shape)


def _npz(config: NeuronTraining) -> Sheet:
    names = files.arrays(config.data)
    assert isinstance(names, dict)
    target = config.target or next((name for name in LABELS if name in names), LABELS[0])
    source = next((name for name in INPUTS if name in names and name != target), INPUTS[0])
    for name in (source, target):
        if name not in names:
            raise InputError(f"`data`: {config.data!r} has no array {name!r}, only {', '.join(names) or 'none'}.")
        if not names[name].ndim:
            raise InputError(f"`data`: {name!r} of {config.data!r} is one entry; give a row for each datum.")
    x, y = files.numbers(f"{source!r} of {config.data!r}", names[source]), names[target]
    if y.dtype.kind not in "US":
        files.numbers(f"{target!r} of {config.data!r}", y)
    return Sheet(x.reshape(len(x), math.prod(x.shape[1:])), y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y, target)


def _csv(config: NeuronTraining) -> Sheet:
    """Inputs in all columns but one; cells are numbers, but for labels that are words."""
    file, table = config.data, files.rows(config.data)
    if not table or len(table[0].cells) < 2:
        raise InputError(f"`data`: {file!r} needs at least two columns, split by commas: inputs and what is predicted.")
    count = len(table[0].cells)
    named = config.header == "yes" if config.header != "auto" else _has_header(file, table, config.target)
    names = table.pop(0).cells if named else [str(i + 1) for i in range(count)]
    if "" in names:
        raise InputError(f"`data`: column {names.index('') + 1} of {file!r} has no name; name it, or leave it out.")
    files.unique(names, f"the first line of {file!r}")
    target = names[-1] if config.target is None else config.target
    if target not in names:
        raise InputError(f"`target` {target!r} is no column of {file!r}, which has {', '.join(names)}.")
    place = names.index(target)
    labels = [row.cells.pop(place) for row in table]
    names.pop(place)
    inputs = np.array([_inputs(file, names, row) for row in table], float).reshape(len(table), count - 1)
    return Sheet(inputs, _labels(file, target, labels), target)


def _has_header(file: str, table: list[files.Row], target: str | None) -> bool:
    """Whether the first row has names, if the table tells.

    It has none if all its cells are numbers, unless they count up as numbers of columns do. Words are names, but for one word
    in the place of the target: it is a name above numbers and a label if it comes again, and otherwise it may be either.
    """
    first = table[0].cells
    words = [i for i, cell in enumerate(first) if files.number(cell) is None]
    if not words:
        if _counts_up(first):
            raise _unclear(file, first)
        return False
    given = target is not None and target.isdigit() and 1 <= int(target) <= len(first)
    place = int(target) - 1 if target is not None and given else len(first) - 1
    below = [row.cells[place] for row in table[1:]]
    if words != [place] or target == first[place] or not any(files.number(cell) is None for cell in below):
        return True
    if first[place] in below:
        return False
    raise _unclear(file, first)


def _counts_up(cells: list[str]) -> bool:
    return all(cell.isdigit() for cell in cells) and all(int(b) == int(a) + 1 for a, b in itertools.pairwise(cells))


def _unclear(file: str, first: list[str]) -> InputError:
    shown = ",".join(first[:5]) + (",..." if len(first) > 5 else "")
    return InputError(
        f"`data`: the first row of {file!r} reads {shown}, which may be names of columns or a datum: say `--header yes` or "
        "`--header no`."
    )


def _inputs(file: str, names: list[str], row: files.Row) -> list[float]:
    found = [files.number(cell) for cell in row.cells]
    for name, cell, value in zip(names, row.cells, found, strict=True):
        if value is None:
            raise InputError(
                f"`data`: column {name!r} of {file!r} has {cell!r} in line {row.line}, which is no number. Inputs are numbers: "
                "leave the column out or code its words as numbers."
            )
    return [value for value in found if value is not None]


def _labels(file: str, target: str, labels: list[str]) -> np.ndarray:
    """Labels as numbers if all are, and as words if none is; a gap, which would be a class of its own, is refused."""
    if "" in labels:
        raise InputError(f"`data`: column {target!r} of {file!r} has an empty cell; leave such rows out.")
    found = [files.number(cell) for cell in labels]
    words = [cell for cell, value in zip(labels, found, strict=True) if value is None]
    if not words:
        return np.array(found, float)
    if len(words) < len(labels):
        raise InputError(
            f"`data`: column {target!r} of {file!r} has numbers and {words[0]!r}; leave such rows out, or write all labels as "
            "words."
        )
    return np.array(labels)
