"""Families of attention heads: what the numbers of one head mean.

A head turns a sequence of tokens into one vector a position, `A(x; theta) x U(theta)`, with causal row-softmax attention
`A` and an output matrix `U`. Its parameters are one flat vector, a point of Euclidean space, so that a set of heads is a
measure like any other. `FullHeads` train everything, `ValueHeads` the output and `ScoreHeads` the scores alone.
"""

import abc
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.training.families import AbstractFamily, ByBlock, Theta
from measureflow.training.landscape import HIDDEN, PARAMETERS, TURNS, AttentionLandscape

Tokens = Float[Array, "S T d"]


class AbstractHeads(AbstractFamily):
    """How a flat vector of parameters is folded into the matrices of a head."""

    @property
    def noun(self) -> str:
        """Heads."""
        return "heads"

    @abc.abstractmethod
    def scores(self, theta: Theta, x: Float[Array, "T d"]) -> Float[Array, "T T"]:
        """The scores of all pairs of positions before the mask."""

    @abc.abstractmethod
    def mix(self, theta: Theta, x: Float[Array, "T d"]) -> Float[Array, "T d"]:
        """What a head adds to each position: `A x U`."""

    def attention(self, theta: Theta, x: Float[Array, "T d"]) -> Float[Array, "T T"]:
        """The causal attention matrix: row `t` is the softmax of the scores of positions up to `t`."""
        past = jnp.tri(len(x), dtype=bool)
        return jax.nn.softmax(jnp.where(past, self.scores(theta, x), HIDDEN), axis=-1)

    def landscape(self, tokens: Tokens, cotangents: Tokens, radii: ByBlock) -> AttentionLandscape | None:
        """What branch and bound searches, where scores have few parameters."""
        return None

    def located(self, point: Float[Array, " k"], radii: ByBlock) -> Theta:
        """The head at a point of its landscape, without output if it has one to train."""
        return point


@final
class FullHeads(AbstractHeads):
    """Heads with all four matrices trained: scores `(x W_Q)(x W_K)^T / sqrt(d_k)`, output `W_V W_O`.

    The features do not change under `(W_Q R, W_K R^-T)` and `(W_V B, B^-1 W_O)`. They are linear in `W_V` and in `W_O`.
    """

    dim: int = eqx.field(static=True)
    key_dim: int = eqx.field(static=True)
    value_dim: int = eqx.field(static=True)

    @classmethod
    def sized(cls, dim: int, size: int) -> "FullHeads":
        """Heads on tokens of `dim` coordinates whose queries, keys and values have one size."""
        return cls(dim, size, size)

    def __check_init__(self):
        for name in ("dim", "key_dim", "value_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1; got {getattr(self, name)}.")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The blocks `query`, `key`, `value`, `output`."""
        d, k, v = self.dim, self.key_dim, self.value_dim
        return {"query": (d, k), "key": (d, k), "value": (d, v), "output": (v, d)}

    @property
    def linear(self) -> tuple[str, ...]:
        """Value and output."""
        return "value", "output"

    @property
    def factors(self) -> tuple[tuple[str, ...], ...]:
        """Value and output, one by one."""
        return ("value",), ("output",)

    def landscape(self, tokens: Tokens, cotangents: Tokens, radii: ByBlock) -> AttentionLandscape | None:
        """On tokens of two coordinates: `M = W_Q W_K^T / sqrt(d_k)` by its turns and reflections."""
        if not radii or self.dim != 2:
            return None
        outer = jnp.einsum("sua,kab,stb->stuk", tokens, jnp.asarray(TURNS / 2, tokens.dtype), cotangents)
        values = (radii["value"] * radii["output"]).astype(tokens.dtype) * outer
        # The nuclear norm of `M` is `2 max(|w|, |w'|)`, and its rank is one when `|w| = |w'|`.
        radius = radii["query"] * radii["key"] / self.key_dim**0.5 / 2
        member = np.repeat(np.eye(2), 2, axis=1)
        return AttentionLandscape.of(tokens, TURNS, values, member, radius, tied=self.key_dim == 1)

    def located(self, point: Float[Array, " k"], radii: ByBlock) -> Theta:
        """Queries and keys that are balanced as their radii are."""
        u, s, vt = jnp.linalg.svd(self.key_dim**0.5 * jnp.tensordot(point, jnp.asarray(TURNS, point.dtype), 1))
        roots = jnp.sqrt(s)[:, None] * jnp.eye(2, self.key_dim, dtype=s.dtype)
        balance = jnp.sqrt(radii["query"] / radii["key"]).astype(s.dtype)
        return self.fold({"query": balance * u @ roots, "key": vt.T @ roots / balance})

    def scores(self, theta: Theta, x: Float[Array, "T d"]) -> Float[Array, "T T"]:
        """Inner products of queries and keys over the root of their dimension."""
        blocks = self.unfold(theta)
        return (x @ blocks["query"]) @ (x @ blocks["key"]).T / jnp.sqrt(jnp.asarray(self.key_dim, x.dtype))

    def mix(self, theta: Theta, x: Float[Array, "T d"]) -> Float[Array, "T d"]:
        """Values first, which are short, then attention and the way back: `A (x W_V) W_O`."""
        blocks = self.unfold(theta)
        return self.attention(theta, x) @ (x @ blocks["value"]) @ blocks["output"]

    def gauge(self, theta: Theta) -> Float[Array, "g D"]:
        """The tangents `(W_Q A, -W_K A^T, 0, 0)` and `(0, 0, W_V B, -B W_O)` for all unit matrices `A` and `B`."""
        blocks = self.unfold(theta)

        def turn_scores(A):
            return self.fold({"query": blocks["query"] @ A, "key": -blocks["key"] @ A.T})

        return jnp.concatenate([jax.vmap(turn_scores)(_units(self.key_dim, theta.dtype)), _turns(self, theta)])

    def invariants(self, theta: Theta) -> Float[Array, " g"]:
        """The entries of `W_Q W_K^T / sqrt(d_k)` and of `W_V W_O`."""
        q, k, v, o = self.unfold(theta).values()
        return jnp.concatenate([(q @ k.T).ravel() / jnp.sqrt(jnp.asarray(self.key_dim, q.dtype)), (v @ o).ravel()])

    def balance(self, theta: Theta) -> tuple[Array, ...]:
        """What training conserves for each head: `W_Q^T W_Q - W_K^T W_K` and `W_V^T W_V - W_O W_O^T`."""
        q, k, v, o = self.unfold(theta).values()
        return q.T @ q - k.T @ k, v.T @ v - o @ o.T


@final
class ValueHeads(AbstractHeads):
    """Heads whose scores `x_t^T M x_u` are frozen: only `W_V` and `W_O` are trained."""

    form: Float[Array, "d d"]
    value_dim: int = eqx.field(static=True)

    def __init__(self, form: Numbers, value_dim: int):
        self.form, self.value_dim = checks.floating(form), value_dim

    @classmethod
    def sized(cls, dim: int, size: int) -> "ValueHeads":
        """Heads with the scores `<x_t, x_u>`, on tokens of `dim` coordinates, whose values have a size."""
        return cls(np.eye(dim), size)

    @property
    def dim(self) -> int:
        """The dimension of tokens."""
        return self.form.shape[0]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The blocks `value` and `output`."""
        return {"value": (self.dim, self.value_dim), "output": (self.value_dim, self.dim)}

    @property
    def linear(self) -> tuple[str, ...]:
        """Both blocks."""
        return "value", "output"

    @property
    def factors(self) -> tuple[tuple[str, ...], ...]:
        """Both blocks, one by one."""
        return ("value",), ("output",)

    def scores(self, theta: Theta, x: Float[Array, "T d"]) -> Float[Array, "T T"]:
        """The frozen bilinear form."""
        return x @ self.form.astype(x.dtype) @ x.T

    def mix(self, theta: Theta, x: Float[Array, "T d"]) -> Float[Array, "T d"]:
        """Values first, which are short, then attention and the way back: `A (x W_V) W_O`."""
        blocks = self.unfold(theta)
        return self.attention(theta, x) @ (x @ blocks["value"]) @ blocks["output"]

    def gauge(self, theta: Theta) -> Float[Array, "g D"]:
        """The tangents `(W_V B, -B W_O)` for all unit matrices `B`."""
        return _turns(self, theta)

    def invariants(self, theta: Theta) -> Float[Array, " g"]:
        """The entries of `W_V W_O`."""
        value, output = self.unfold(theta).values()
        return (value @ output).ravel()


@final
class ScoreHeads(AbstractHeads):
    """Heads whose output is frozen: scores `x_t^T M x_u` with `M = sum_k theta_k B_k`, features `A x U`.

    Without a basis every entry of `M` is trained. This is the quotient of the query-key part by its gauge group.
    """

    value: Float[Array, "d d"] = eqx.field(converter=checks.floating)
    basis: Float[Array, "k d d"]

    def __init__(self, value: Numbers, basis: Numbers | None = None):
        self.value = checks.floating(value)
        d = len(self.value)
        checks.shaped("value", self.value, (d, d), "It maps tokens to tokens.")
        self.basis = _units(d, self.value.dtype) if basis is None else checks.floating(basis)
        checks.shaped("basis", self.basis, ("k", d, d), "It lists matrices of the size of a token.")

    @classmethod
    def sized(cls, dim: int, size: int) -> "ScoreHeads":
        """Heads whose values are the tokens, of `dim` coordinates; all scores are trained, so that no size is left to choose."""
        return cls(np.eye(dim))

    @property
    def dim(self) -> int:
        """The dimension of tokens."""
        return self.value.shape[0]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The only block, `scores`."""
        return {"scores": (len(self.basis),)}

    def landscape(self, tokens: Tokens, cotangents: Tokens, radii: ByBlock) -> AttentionLandscape | None:
        """The parameters themselves, if they are few."""
        if not radii or self.size > PARAMETERS:
            return None
        values = -jnp.einsum("sua,ab,stb->stu", tokens, self.value.astype(tokens.dtype), cotangents)[..., None]
        return AttentionLandscape.of(tokens, self.basis, values, np.ones((1, self.size)), radii["scores"])

    def scores(self, theta: Theta, x: Float[Array, "T d"]) -> Float[Array, "T T"]:
        """The bilinear form of the tokens."""
        return x @ jnp.tensordot(theta, self.basis.astype(x.dtype), 1) @ x.T

    def mix(self, theta: Theta, x: Float[Array, "T d"]) -> Float[Array, "T d"]:
        """Attention to the frozen values."""
        return self.attention(theta, x) @ (x @ self.value.astype(x.dtype))

    def gauge(self, theta: Theta) -> Float[Array, "g D"]:
        """There is none."""
        return jnp.zeros((0, self.size), theta.dtype)

    def invariants(self, theta: Theta) -> Float[Array, " g"]:
        """The parameters themselves."""
        return theta


def _units(d: int, dtype) -> Float[Array, "dd d d"]:
    """The unit matrices of a square shape, row by row."""
    return jnp.eye(d * d, dtype=dtype).reshape(d * d, d, d)


def _turns(heads: FullHeads | ValueHeads, theta: Theta) -> Float[Array, "g D"]:
    blocks = heads.unfold(theta)

    def turn(B):
        return heads.fold({"value": blocks["value"] @ B, "output": -B @ blocks["output"]})

    return jax.vmap(turn)(_units(heads.value_dim, theta.dtype))
