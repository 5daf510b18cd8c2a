"""A pretrained transformer as a flow of the library: tokens of a text are particles, and its layers move them."""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.fields import Composed, FactoredAttention, Layered, MultiHead, SoftmaxAttention, Sublayer
from measureflow.fields.normalisation import AbstractNorm
from measureflow.flows import Trajectory, layers
from measureflow.measures import Particles
from measureflow.spaces import Euclidean


class Proof(NamedTuple):
    """How far a model is from itself put together again, relative to its size."""

    heads: float
    """The heads of each layer, added up, against its attention; the largest over layers."""
    stack: float
    """The layers one by one against the flow through all of them."""


@final
class Embedding(eqx.Module):
    """From numbers of tokens, or patches of an image, to points."""

    table: Float[Array, "v d"]
    positions: Float[Array, "p d"] | None = None
    shift: Float[Array, " d"] | None = None
    norm: AbstractNorm | None = None
    patched: bool = eqx.field(static=True, default=False)

    def __call__(self, ids: Int[Array, " n"]) -> Float[Array, "n d"]:
        """The points of a text."""
        return self.place(self.table[ids])

    def place(self, points: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Points with their positions, normalised where the model does so."""
        if self.positions is not None:
            if len(points) > len(self.positions):
                raise ValueError(
                    f"The model has {len(self.positions)} positions, and there are {len(points)} tokens; give shorter texts."
                )
            points = points + self.positions[: len(points)]
        if self.shift is not None:
            points = points + self.shift[None]
        return points if self.norm is None else jax.vmap(self.norm)(points)


@final
class Model(eqx.Module):
    """A transformer of a checkpoint.

    `run(ids)` is a `Trajectory` of the tokens through its layers, so that every diagnostic and picture works on it; `logits(ids)`
    are those of the model. `layer(k)` is one layer as a field and `attention(k)` its attention with the norm before it.
    """

    embedding: Embedding
    stack: Layered
    norm: AbstractNorm | None
    unembedding: Float[Array, "v d"] | None
    name: str = eqx.field(static=True)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.stack.count

    @property
    def dim(self) -> int:
        """The size of tokens."""
        return self.embedding.table.shape[1]

    @property
    def pictured(self) -> bool:
        """Whether its tokens are patches of an image."""
        return self.embedding.patched

    @property
    def heads(self) -> int:
        """The number of heads of a layer."""
        return self.attention(0).query.shape[0]

    def layer(self, k: int) -> Composed:
        """One layer, counted from zero, as a field: what it adds to the tokens."""
        if not 0 <= k < self.depth:
            raise ValueError(f"`k` must be a layer from 0 to {self.depth - 1}; got {k}.")
        found = self.stack.layer(k)
        assert isinstance(found, Composed)
        return found

    def attention(self, k: int) -> FactoredAttention:
        """The attention of a layer, which sees normalised tokens where the model is normalised before."""
        found = self.sublayer(k).field
        assert isinstance(found, FactoredAttention)
        return found

    def sublayer(self, k: int) -> Sublayer:
        """The attention of a layer with its residual and norms, as a field: what it adds to the tokens."""
        first = self.layer(k).steps[0]
        assert isinstance(first, Sublayer)
        return first

    def seen(self, k: int, points: Float[Array, "*w n d"]) -> Float[Array, "*w n d"]:
        """Tokens as the attention of a layer sees them: normalised, where the model is normalised before."""
        norm = self.sublayer(k).before
        return points if norm is None else jnp.vectorize(norm, signature="(d)->(d)")(points)

    def start(self, ids: Numbers) -> Particles:
        """The tokens of a text as particles."""
        found = jnp.asarray(ids)
        checks.shaped("ids", found, ("n",), "They are the numbers of the tokens of one text.")
        if not len(found):
            raise ValueError("`ids` are empty; a text needs at least one token.")
        if checks.concrete(found) and not (int(found.min()) >= 0 and int(found.max()) < len(self.embedding.table)):
            raise ValueError(
                f"`ids` must be from 0 to {len(self.embedding.table) - 1}; got {int(found.min())} to {int(found.max())}. Is the "
                "tokenizer that of the model?"
            )
        return self.particles(self.embedding(found))

    def particles(self, points: Float[Array, "n d"]) -> Particles:
        """Points as a measure of the model's space."""
        return Particles(Euclidean(self.dim), points)

    def run(self, start: Particles | Numbers) -> Trajectory[Particles]:
        """The tokens after each layer, before the last norm; of a text, or of particles."""
        mu = start if isinstance(start, Particles) else self.start(start)
        return layers(self.stack, mu, self.depth)

    def hidden(self, ids: Numbers) -> Float[Array, "n d"]:
        """The last hidden state."""
        points = self.run(ids).final.points
        return points if self.norm is None else jax.vmap(self.norm)(points)

    def logits(self, ids: Numbers) -> Float[Array, "n v"]:
        """The scores of all tokens to come next."""
        if self.unembedding is None:
            raise ValueError(f"{self.name} has no output over a vocabulary; `hidden` is what it gives.")
        return self.hidden(ids) @ self.unembedding.T

    def loss(self, ids: Numbers) -> Float[Array, ""]:
        """The mean of `-log p` of each token given those before it; `log` of the vocabulary for a model that knows nothing."""
        logits, following = self.logits(ids)[:-1], jnp.asarray(ids)[1:]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), following[:, None], 1).mean()

    def multihead(self, k: int) -> MultiHead:
        """The part of a layer's attention that theory speaks of: `A_h = s K_h^T Q_h` and `V_h`, without positions and biases."""
        query, key, value, output = self.attention(k).each()
        A = jnp.einsum("hke,hkd->hed", key, query)
        return MultiHead([SoftmaxAttention(A[h], value[h]) for h in range(len(A))], output)

    def prove(self, ids: Numbers) -> Proof:
        """Put the model together again, heads to attention and layers to the stack, and say how far it is from itself."""
        path = self.run(ids)
        heads, at = [], path.at(0)
        for k in range(self.depth):
            one, seen = self.attention(k), self.seen(k, at.points)
            mu = self.particles(seen)
            parts = one.by_head(seen, mu).sum(0)
            parts = parts if one.output_bias is None else parts + one.output_bias[None]
            heads.append(_apart(parts, one(0.0, seen, mu)))
            at = self.particles(at.points + self.layer(k)(0.0, at.points, at))
        return Proof(max(heads), _apart(at.points, path.final.points))


def _apart(a: Array, b: Array) -> float:
    return float(jnp.abs(a - b).max() / jnp.maximum(jnp.abs(b).max(), jnp.finfo(b.dtype).tiny))
