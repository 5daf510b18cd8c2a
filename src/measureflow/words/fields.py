"""From a configuration to a field: heads, masks, schedules and norms around an attention variant.

A schedule makes a field from two functions: `heads(turn)` gives the matrices of the heads in each period, and
`together(heads)` the field of these heads.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float

from measureflow import fields as f
from measureflow.energies import GradientFlow
from measureflow.fields import AbstractField, ensembles
from measureflow.measures.matrices import Matrix, Multiple, full
from measureflow.words.files import numbers_in
from measureflow.words.settings import InputError, Settings
from measureflow.words.table import load
from measureflow.words.vocabulary import ATTENTIONS, ENERGIES, ENSEMBLES, FRAMES, MASKS, NORMS, SCHEDULES


class Head(NamedTuple):
    """The matrices of a head: scores `<Ax, y>` and values `Vy`, and the queries and keys of which `A` is made, if they are
    known."""

    A: Matrix
    V: Matrix
    queries_and_keys: tuple[Array, Array] | None = None


Heads = list[Head]
Turns = Callable[[int], Heads]
Together = Callable[[Heads], AbstractField]


def field_of(config: Settings, dim: int) -> AbstractField:
    """The field that a configuration describes."""
    if config.energy != "none":
        return GradientFlow(ENERGIES.choose(config).build(config))
    return _around(config, SCHEDULES.choose(config).build(config, _turns_of(config, dim), partial(_heads, config)), dim)


def heads_of(config: Settings, dim: int) -> Heads:
    """The heads with which a schedule begins."""
    return _turns_of(config, dim)(0)


def _turns_of(config: Settings, dim: int) -> Turns:
    given = None if config.matrices is None else _matrices(config.matrices, dim)
    return partial(_drawn, config, dim) if given is None else lambda turn: given


def _around(config: Settings, attention: AbstractField, dim: int) -> AbstractField:
    """Frame, mask, perceptron and norm around attention."""
    if config.frame != "fixed":
        return FRAMES.choose(config).build(config, attention)
    if config.mask != "none":
        attention = MASKS.choose(config).build(config, attention)
    if config.mlp:
        attention = attention + _perceptron(config, dim)
    return attention if config.norm == "none" else f.Normalised(attention, NORMS.choose(config).build(config))


def _heads(config: Settings, heads: Heads) -> AbstractField:
    """One attention field, or several that share the velocity equally."""
    each = [_head(config, head) for head in heads]
    if len(each) == 1:
        return each[0]
    dim = heads[0].A.shape[0]
    return f.MultiHead(each, jnp.tile(jnp.eye(dim) / len(each), (len(each), 1, 1)))


def _head(config: Settings, head: Head) -> AbstractField:
    word = ATTENTIONS.choose(config)
    if word.split is None or head.queries_and_keys is None:
        return word.build(config, head.A, head.V)
    return load(word.split)(*head.queries_and_keys, head.V)


def _drawn(config: Settings, dim: int, turn: int) -> Heads:
    """The heads of one turn: fixed for the identity, otherwise drawn from the ensemble."""
    if not config.has("drawn"):
        return [Head(Multiple(jnp.asarray(config.beta, float), dim), Multiple(jnp.asarray(1.0, float), dim))]
    draw = load(ENSEMBLES.choose(config).make)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(config.seed), turn + 1), 2 * config.heads)
    return [Head(config.beta * draw(a, dim), draw(v, dim)) for a, v in zip(keys[::2], keys[1::2], strict=True)]


def constant(turns: Turns, together: Together) -> AbstractField:
    """The same weights for ever."""
    return together(turns(0))


def resampled(turns: Turns, together: Together, period: float, time: float) -> AbstractField:
    """Weights drawn anew after each period."""
    count = _turns(time, period)
    return f.Schedule([together(turns(turn)) for turn in range(count)], period * np.arange(1, count))


def periodic(turns: Turns, together: Together, period: float, time: float) -> AbstractField:
    """Two sets of weights in turns."""
    return f.Schedule.periodic([together(turns(turn)) for turn in range(2)], period, time)


def oscillating(turns: Turns, together: Together, period: float) -> AbstractField:
    """Scores that swing as a cosine."""
    return f.Varying(Partial(partial(_swinging, together, period), turns(0)))


def _swinging(together: Together, period: float, heads: Heads, t: Float[Array, ""]) -> AbstractField:
    swing = jnp.cos(2 * jnp.pi * t / period)
    return together([_scaled(swing, head) for head in heads])


def _scaled(factor: Float[Array, ""], head: Head) -> Head:
    """A head with its scores multiplied: its queries, where those are known."""
    pair = head.queries_and_keys
    return Head(factor * head.A, head.V, None if pair is None else (factor * pair[0], pair[1]))


def wandering(
    turns: Turns, together: Together, period: float, time: float, seed: int, pieces: int = 10
) -> AbstractField:
    """Weights that follow an Ornstein-Uhlenbeck path around their start, constant on a tenth of the period."""
    grid = period / pieces * jnp.arange(_turns(pieces * time, period), dtype=float)
    centre = jnp.stack([jnp.stack(full((head.A, head.V))) for head in turns(0)])
    key = jax.random.fold_in(jax.random.key(seed), 0)
    path = ensembles.ornstein_uhlenbeck(key, centre, grid, rate=1 / period, spread=jnp.abs(centre).mean())
    return f.Schedule([together([Head(A, V) for A, V in now]) for now in path], grid[1:])


def _turns(time: float, period: float) -> int:
    return max(1, int(np.ceil(time / period)))


def causal(attention: AbstractField, alibi: float | None) -> AbstractField:
    """Attention on the past, with or without a bias."""
    return f.Causal(attention, None if alibi is None else f.ALiBi(alibi))


def mix(switch: float | None, time: float) -> f.MixNorm:
    """Post-LN up to a time, half the whole unless given, and Pre-LN after it."""
    return f.MixNorm(switch=time / 2 if switch is None else switch)  # pyright: ignore[reportCallIssue]


def _perceptron(config: Settings, dim: int) -> AbstractField:
    keys = jax.random.split(jax.random.fold_in(jax.random.key(config.seed), 10**6), 3)
    U = jax.random.normal(keys[0], (config.mlp, dim)) / jnp.sqrt(dim)
    W = jax.random.normal(keys[1], (dim, config.mlp)) / jnp.sqrt(config.mlp)
    return f.Perceptron(W, U, jax.random.normal(keys[2], (config.mlp,)) / jnp.sqrt(dim))


def _matrices(file: str, dim: int) -> Heads:
    """The heads of a file: matrices, or stacks of them with one for each head."""
    held = numbers_in(file, "matrices")
    if not isinstance(held, dict):
        raise InputError(f"`matrices`: {file!r} must be an npz file with A, or Q and K, and optionally V.")
    unknown = set(held) - {"A", "Q", "K", "V"}
    if unknown or not ({"A"} <= set(held) or {"Q", "K"} <= set(held)) or ("A" in held and {"Q", "K"} & set(held)):
        raise InputError(f"`matrices`: {file!r} must hold A, or Q and K, and optionally V; it holds {sorted(held)}.")
    stacks = {name: matrix[None] if matrix.ndim == 2 else matrix for name, matrix in held.items()}
    _check_stacks(stacks, dim)
    count = len(next(iter(stacks.values())))
    V = stacks.get("V", np.broadcast_to(np.eye(dim), (count, dim, dim)))
    if "A" in stacks:
        return [Head(jnp.asarray(A), jnp.asarray(v)) for A, v in zip(stacks["A"], V, strict=True)]
    pairs = zip(map(jnp.asarray, stacks["Q"]), map(jnp.asarray, stacks["K"]), strict=True)
    return [Head(K.T @ Q, jnp.asarray(v), (Q, K)) for (Q, K), v in zip(pairs, V, strict=True)]


def _check_stacks(stacks: dict[str, np.ndarray], dim: int) -> None:
    """Refuse matrices that do not fit tokens or each other: stacks are `(heads, rows, dim)`, square but for Q and K."""
    for name, stack in stacks.items():
        if stack.ndim != 3 or stack.shape[-1] != dim or (name in "AV" and stack.shape[1] != dim) or 0 in stack.shape:
            rows = dim if name in "AV" else "any number"
            raise InputError(
                f"`matrices`: {name} must have {rows} rows and {dim} columns for tokens with `dim` {dim}, or be a stack of "
                f"such with one for each head; got shape {stack.shape[1:] if len(stack) == 1 else stack.shape}."
            )
        if not np.isfinite(stack).all():
            raise InputError(f"`matrices`: {name} has entries that are NaN or infinite.")
    if len({len(stack) for stack in stacks.values()}) > 1:
        counts = ", ".join(f"{len(stack)} in {name}" for name, stack in stacks.items())
        raise InputError(f"`matrices`: there must be one matrix of each kind for each head; got {counts}.")
    if "Q" in stacks and stacks["Q"].shape != stacks["K"].shape:
        raise InputError(
            f"`matrices`: Q and K are compared, so they have as many rows; got {stacks['Q'].shape[1]} and {stacks['K'].shape[1]}."
        )
