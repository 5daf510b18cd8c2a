"""Where the data of training come from: fixtures, texts, tables that come with scikit-learn, and files of the user."""

import csv
import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np

from measureflow.commands.train.settings import HeadTraining, NeuronTraining
from measureflow.training import AbstractLoss, AbstractObjective, DeepHeadRisk, HeadRisk, NeuronRisk, Neurons, Text
from measureflow.words.settings import InputError
from measureflow.words.table import load
from measureflow.words.vocabulary import ACTIVATIONS, HEAD_FAMILIES, LOSSES, RISKS, TABLES_OF_DATA

CLASSES = 50
"""Integers of at most so many values are taken for classes."""


class Data(NamedTuple):
    """What is trained on: where samples come from, the risk that is watched, the risk of data that are not trained on, the
    scale of the initial parameters by coordinate, and a description in words."""

    source: AbstractObjective | Text
    risk: AbstractObjective
    unseen: AbstractObjective | None
    scale: np.ndarray
    words: str = ""


def of_heads(config: HeadTraining) -> Data:
    """A fixture, or a text."""
    if config.data in RISKS:
        risk = _deep(RISKS[config.data].build(config), config.layers)
        return Data(risk, risk, None, np.full(risk.family.size, config.scale))
    if config.layers > 1:
        raise InputError("`layers` is for the fixtures; a text is read by one layer of heads.")
    heads = HEAD_FAMILIES.choose(config).build(config, config.dim, config.head_dim)
    text = Text(Path(config.data), config.length, heads, held_out=config.held_out, key=config.seed)
    return Data(text, text.windows(config.windows), text.held_out(config.windows), np.full(heads.size, config.scale))


def _deep(risk: HeadRisk, layers: int) -> AbstractObjective:
    return risk if layers == 1 else DeepHeadRisk(risk, layers)


class Sheet(NamedTuple):
    """Inputs, one row a datum, and what they should give; the labels as they were read."""

    inputs: np.ndarray
    labels: np.ndarray


def of_neurons(config: NeuronTraining) -> Data:
    """A table of data, part of it held out; the loss follows from the labels unless it is given."""
    sheet = _read(config)
    if len(sheet.inputs) < 2:
        raise InputError(f"`data` needs at least 2 rows; {config.data!r} has {len(sheet.inputs)}.")
    loss, labels, outputs = _labelled(config, sheet.labels)
    shuffled = np.random.default_rng(config.seed).permutation(len(labels))
    kept = max(1, len(labels) - round(config.held_out * len(labels)))
    seen, rest = shuffled[:kept], shuffled[kept:]
    inputs = _standard(sheet.inputs, seen) if config.standardise else sheet.inputs
    if config.standardise and loss.standardised:
        labels = _standard(labels, seen)
    made = load(ACTIVATIONS[config.activation].make)
    neurons = Neurons(inputs.shape[1], outputs, made() if isinstance(made, type) else made, bias=config.bias)
    risk, unseen = (
        NeuronRisk(inputs[part], labels[part], neurons, loss) if len(part) else None for part in (seen, rest)
    )
    assert risk is not None
    # Weights are scaled by the root of their number, so that activations are of the size of the scale.
    scale = config.scale * neurons.by_block(
        output=1.0, weight=inputs.shape[1] ** -0.5, **({"bias": 1.0} if config.bias else {})
    )
    held = f" and {len(rest)} held out" if len(rest) else ""
    words = f"{len(seen)} data{held}, {inputs.shape[1]} inputs, {loss.described(outputs)}"
    return Data(risk, risk, unseen, np.asarray(scale), words)


def _standard(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Columns with mean zero and deviation one on what is trained on; constant ones become zero."""
    deviation = values[seen].std(0)
    return (values - values[seen].mean(0)) / np.where(deviation > 0, deviation, 1.0)


def _labelled(config: NeuronTraining, labels: np.ndarray) -> tuple[AbstractLoss, np.ndarray, int]:
    """The loss, the labels as it takes them, and how many outputs there are."""
    name = _suited(labels) if config.loss == "auto" else config.loss
    loss: AbstractLoss = LOSSES[name].build(config)
    try:
        return loss, *loss.coded(labels)
    except ValueError as error:
        raise InputError(f"`loss` {name}: {config.data!r} {error}.") from None


def _suited(labels: np.ndarray) -> str:
    """Cross-entropy for words and for a few whole numbers, and square for other numbers."""
    if not np.issubdtype(labels.dtype, np.number):
        return "cross-entropy"
    whole = labels.ndim == 1 and np.all(labels == np.round(labels)) and len(set(labels.tolist())) <= CLASSES
    return "cross-entropy" if whole else "square"


def _read(config: NeuronTraining) -> Sheet:
    if config.data in TABLES_OF_DATA:
        return _bundled(config.data)
    readers = {".npz": _npz, ".csv": _csv}
    return readers.get(Path(config.data).suffix, _idx)(config)


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
    images, labels = Path(config.data), Path(config.data.replace("images-idx3", "labels-idx1"))
    if images == labels or not labels.is_file():
        raise InputError(
            f"`data`: {config.data!r} needs its labels beside it: images are in ...images-idx3-ubyte, labels in "
            "...labels-idx1-ubyte."
        )
    x, y = (_unpacked(file) for file in (images, labels))
    return Sheet(x.reshape(len(x), -1) / 255, y.astype(int))


def _unpacked(file: Path) -> np.ndarray:
    """The array of bytes of an IDX file, packed or not."""
    raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    axes = raw[3] if len(raw) > 3 and raw[:3] == b"\0\0\x08" else 0
    shape = np.frombuffer(raw, ">i4", axes, 4) if len(raw) >= 4 * (axes + 1) and axes else np.zeros(1, int)
    if not axes or len(raw) != 4 * (axes + 1) + int(np.prod(shape)):
        raise InputError(f"`data`: {str(file)!r} is no file of bytes in the format of MNIST.")
    return np.frombuffer(raw, np.uint8, offset=4 * (axes + 1)).reshape(shape)


def _npz(config: NeuronTraining) -> Sheet:
    try:
        file = np.load(config.data)
        names = {name: file[name] for name in file.files}
    except (ValueError, OSError) as error:
        raise InputError(f"`data`: {config.data!r} cannot be read as an npz file: {error}.") from None
    labels = config.target or next((name for name in ("labels", "y", "targets", "y_train") if name in names), "labels")
    inputs = next((name for name in ("inputs", "x", "X", "x_train") if name in names), "inputs")
    for name in (inputs, labels):
        if name not in names:
            raise InputError(f"`data`: {config.data!r} has no array {name!r}, only {', '.join(names) or 'none'}.")
    x, y = np.asarray(names[inputs], float), names[labels]
    x = x.reshape(len(x), -1)
    if len(x) != len(y):
        raise InputError(
            f"`data`: {inputs!r} has {len(x)} rows and {labels!r} has {len(y)}; there is one of each for a datum."
        )
    return _whole(config, Sheet(x, y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y))


def _csv(config: NeuronTraining) -> Sheet:
    try:
        rows = [row for row in csv.reader(Path(config.data).read_text(encoding="utf-8").splitlines()) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"`data`: {config.data!r} is not a table in CSV: {error}.") from None
    if not rows or len(rows[0]) < 2:
        raise InputError(f"`data`: {config.data!r} needs at least two columns, inputs and what is predicted.")
    named = not any(_number(cell) is not None for cell in rows[0][:-1])
    names = rows[0] if named else [str(i + 1) for i in range(len(rows[0]))]
    rows = rows[1:] if named else rows
    for i, row in enumerate(rows):
        if len(row) != len(names):
            raise InputError(
                f"`data`: row {i + 1 + named} of {config.data!r} has {len(row)} columns, not {len(names)}."
            )
    target = names[-1] if config.target is None else config.target
    if target not in names:
        raise InputError(f"`target` {target!r} is no column of {config.data!r}, which has {', '.join(names)}.")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {name: () for name in names}
    labels = [cell.strip() for cell in columns.pop(target)]
    inputs = [[_input(config.data, name, cell) for cell in column] for name, column in columns.items()]
    found = [_number(cell) for cell in labels]
    numbers = np.array(found, float) if all(value is not None for value in found) else np.array(labels)
    return _whole(config, Sheet(np.array(inputs, float).T, numbers))


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _input(file: str, name: str, cell: str) -> float:
    value = _number(cell)
    if value is None:
        raise InputError(
            f"`data`: column {name!r} of {file!r} has {cell!r}, which is no number. Inputs are numbers: leave the column out or "
            "code its words as numbers."
        )
    return value


def _whole(config: NeuronTraining, sheet: Sheet) -> Sheet:
    for name, values in (("inputs", sheet.inputs), ("targets", sheet.labels)):
        if np.issubdtype(values.dtype, np.number) and not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values.reshape(len(values), -1)))[0, 0])
            raise InputError(
                f"`data`: the {name} of {config.data!r} are not finite in row {row + 1}; leave such rows out."
            )
    return sheet
