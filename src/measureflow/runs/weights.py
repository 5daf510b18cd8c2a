"""From a configuration to a field: heads, masks, schedules and norms around an attention variant."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float

from measureflow import fields as f
from measureflow.fields import AbstractField, ensembles
from measureflow.runs.config import Simulation

ENSEMBLES = {"gaussian": ensembles.gaussian, "goe": ensembles.goe, "wigner": ensembles.wigner}
ATTENTIONS = {
    "softmax": f.SoftmaxAttention,
    "unnormalised": f.UnnormalisedAttention,
    "sinkhorn": f.SinkhornAttention,
    "sigmoid": f.SigmoidAttention,
    "linear": f.LinearAttention,
    "relu": f.ReLUAttention,
    "hardmax": f.HardmaxAttention,
}
SCHEMES = {"post": f.PostNorm, "pre": f.PreNorm, "peri": f.PeriNorm, "sqrt": f.SqrtDepth}

Matrix = Float[Array, "d d"]
Head = tuple[Matrix, Matrix]


def field_of(config: Simulation, dim: int, given: list[Head] | None) -> AbstractField:
    """The field that a configuration describes; `given` are the heads of a file of matrices."""
    attention = _in_time(config, dim, given)
    if config.mask == "causal":
        attention = f.Causal(attention, None if config.alibi is None else f.ALiBi(config.alibi))
    if config.mlp:
        attention = attention + _perceptron(config, dim)
    return attention if config.norm == "none" else f.Normalised(attention, _scheme(config))


def _heads(config: Simulation, heads: list[Head]) -> AbstractField:
    """One attention field, or several that share the velocity equally."""
    each = [_attention(config.attention, A, V) for A, V in heads]
    if len(each) == 1:
        return each[0]
    dim = heads[0][0].shape[0]
    return f.MultiHead(each, jnp.tile(jnp.eye(dim) / len(each), (len(each), 1, 1)))


def _attention(name: str, A: Matrix, V: Matrix) -> AbstractField:
    """A variant with scores `<Ax, y>`, which L2 attention sees beside the squared norms of queries and keys."""
    if name != "l2":
        return ATTENTIONS[name](A, V)
    # Scores -|Qx - Ky|^2 contain 2 <K^T Q x, y>: with K = I / sqrt(2) and Q = A / sqrt(2) that is <Ax, y>.
    return f.L2Attention(A / jnp.sqrt(2.0), jnp.eye(A.shape[0]) / jnp.sqrt(2.0), V)


def _drawn(config: Simulation, dim: int, turn: int) -> list[Head]:
    """The heads of one turn: fixed for the identity, otherwise drawn from the ensemble."""
    if config.weights == "identity":
        return [(config.beta * jnp.eye(dim), jnp.eye(dim))]
    draw = ENSEMBLES[config.weights]
    keys = jax.random.split(jax.random.fold_in(jax.random.key(config.seed), turn + 1), 2 * config.heads)
    return [(config.beta * draw(a, dim), draw(v, dim)) for a, v in zip(keys[::2], keys[1::2], strict=True)]


def _in_time(config: Simulation, dim: int, given: list[Head] | None) -> AbstractField:
    """The field of constant weights, or weights on a schedule."""
    heads = partial(_drawn, config, dim) if given is None else lambda turn: given
    turns = max(1, int(np.ceil(config.time / config.period)))
    match config.schedule:
        case "resampled":
            each = [_heads(config, heads(turn)) for turn in range(turns)]
            return f.Schedule(each, config.period * np.arange(1, turns))
        case "periodic":
            return f.Schedule.periodic([_heads(config, heads(turn)) for turn in range(2)], config.period, config.time)
        case "oscillating":
            return f.Varying(Partial(partial(_swinging, config), heads(0)))
        case "wandering":
            return _wandering(config, heads(0))
        case _:
            return _heads(config, heads(0))


def _swinging(config: Simulation, heads: list[Head], t: Float[Array, ""]) -> AbstractField:
    swing = jnp.cos(2 * jnp.pi * t / config.period)
    return _heads(config, [(swing * A, V) for A, V in heads])


def _wandering(config: Simulation, heads: list[Head], pieces: int = 10) -> AbstractField:
    """Weights that follow an Ornstein-Uhlenbeck path around their start, constant on a tenth of the period."""
    count = max(1, int(np.ceil(pieces * config.time / config.period)))
    grid = config.period / pieces * jnp.arange(count, dtype=float)
    key = jax.random.fold_in(jax.random.key(config.seed), 0)
    centre = jnp.stack([jnp.stack(head) for head in heads])
    path = ensembles.ornstein_uhlenbeck(key, centre, grid, rate=1 / config.period, spread=jnp.abs(centre).mean())
    each = [_heads(config, [(A, V) for A, V in now]) for now in path]
    return f.Schedule(each, grid[1:])


def _perceptron(config: Simulation, dim: int) -> AbstractField:
    keys = jax.random.split(jax.random.fold_in(jax.random.key(config.seed), 10**6), 3)
    U = jax.random.normal(keys[0], (config.mlp, dim)) / jnp.sqrt(dim)
    W = jax.random.normal(keys[1], (dim, config.mlp)) / jnp.sqrt(config.mlp)
    return f.Perceptron(W, U, jax.random.normal(keys[2], (config.mlp,)) / jnp.sqrt(dim))


def _scheme(config: Simulation):
    match config.norm:
        case "mix":
            switch = config.time / 2 if config.switch is None else config.switch
            return f.MixNorm(switch=switch)  # pyright: ignore[reportCallIssue]
        case "ngpt":
            return f.NGPT(config.alpha)
        case name:
            return SCHEMES[name]()  # pyright: ignore[reportCallIssue]
