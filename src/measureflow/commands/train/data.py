"""What is trained on: a risk made of a fixture, of a text or of a table of data."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from measureflow.commands.train.settings import HeadTraining, NeuronTraining
from measureflow.commands.train.tables import sheet_of
from measureflow.training import AbstractLoss, AbstractObjective, DeepHeadRisk, HeadRisk, NeuronRisk, Neurons, Text
from measureflow.words.memory import ask
from measureflow.words.settings import InputError
from measureflow.words.table import load
from measureflow.words.vocabulary import ACTIVATIONS, HEAD_FAMILIES, LOSSES, RISKS

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


def of_neurons(config: NeuronTraining) -> Data:
    """A table of data, part of it held out; the loss follows from the labels unless it is given."""
    sheet = sheet_of(config)
    loss, labels, outputs = _labelled(config, sheet.labels)
    each = sheet.inputs.shape[1] + outputs + 1
    ask(800.0 * max(config.neurons, config.limit) * each, "This", "make `neurons` or `limit` smaller")
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
    held, columns = f" ({len(rest)} held out)" if len(rest) else "", inputs.shape[1]
    many, target = "s" if columns > 1 else "", f"target `{sheet.target}`" if sheet.target else "target"
    words = f"{len(labels)} rows{held}, {columns} input{many}, {target}: {loss.described(outputs)}"
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
