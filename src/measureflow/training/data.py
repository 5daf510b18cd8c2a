"""Where sequences come from when they are not one array: streams of samples, and texts.

A source has `draw(key, size)`, the risk of a random batch, like a `HeadRisk` itself. A text is read character by
character; its characters have fixed random embeddings, to which the position in the window is added.
"""

from collections.abc import Callable
from pathlib import Path
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PRNGKeyArray

from measureflow import checks
from measureflow.measures.cloud import as_key
from measureflow.training.heads import AbstractHeads
from measureflow.training.risk import HeadRisk


@final
class Stream(eqx.Module):
    """Endless data: `sample(key)` gives the tokens `(T, d)` and the labels `(T,)` of one sequence."""

    sample: Callable[[PRNGKeyArray], tuple[Array, Array]]
    unembedding: Float[Array, "d V"] = eqx.field(converter=checks.floating)
    heads: AbstractHeads

    def draw(self, key: PRNGKeyArray, size: int) -> HeadRisk:
        """The risk of a batch of new sequences."""
        tokens, labels = jax.vmap(self.sample)(jax.random.split(key, size))
        return HeadRisk(tokens, labels, self.unembedding, self.heads)


@final
class Text(eqx.Module):
    """A text as windows of characters, each labelled with the next one.

    `text` is the text itself or a path to it. Embeddings have norm about one, positions are sines of half that size.
    """

    codes: Int[Array, " n"]
    embedding: Float[Array, "V d"]
    positions: Float[Array, "T d"]
    unembedding: Float[Array, "d V"]
    heads: AbstractHeads
    alphabet: str = eqx.field(static=True)

    def __init__(self, text: str | Path, length: int, heads: AbstractHeads, *, key: PRNGKeyArray | int = 0):
        words = _read(text) if isinstance(text, Path) else text
        if len(words) < 2:
            raise ValueError(f"`text` must have at least 2 characters, one of which comes next; it has {len(words)}.")
        if not 1 <= length < len(words):
            raise ValueError(f"`length` must be between 1 and {len(words) - 1}, less than the text has; got {length}.")
        self.alphabet = "".join(sorted(set(words)))
        index = {c: i for i, c in enumerate(self.alphabet)}
        self.codes = jnp.asarray([index[c] for c in words])
        d, V = heads.dim, len(self.alphabet)
        words_key, out_key = jax.random.split(as_key(key))
        self.embedding = jax.random.normal(words_key, (V, d)) / np.sqrt(d)
        self.unembedding = jax.random.normal(out_key, (d, V))
        angle = np.arange(length)[:, None] / 10000.0 ** (np.arange(d)[None, :] // 2 * 2 / d)
        self.positions = jnp.asarray(np.where(np.arange(d) % 2 == 0, np.sin(angle), np.cos(angle)) / np.sqrt(2 * d))
        self.heads = heads

    @property
    def length(self) -> int:
        """The number of characters in a window."""
        return len(self.positions)

    def draw(self, key: PRNGKeyArray, size: int) -> HeadRisk:
        """The risk of windows at random places, as a mean over positions."""
        return self._risk(jax.random.randint(key, (size,), 0, len(self.codes) - self.length))

    def windows(self, count: int | None = None) -> HeadRisk:
        """The risk of the first windows that do not overlap; all of them unless a count is given."""
        most = (len(self.codes) - 1) // self.length
        return self._risk(self.length * jnp.arange(most if count is None else min(count, most)))

    def embed(self, codes: Int[ArrayLike, "S T"]) -> Float[Array, "S T d"]:
        """The tokens of characters given by their codes."""
        return self.embedding[jnp.asarray(codes)] + self.positions[None]

    def _risk(self, starts: Int[Array, " S"]) -> HeadRisk:
        places = starts[:, None] + jnp.arange(self.length + 1)[None, :]
        codes = self.codes[places]
        return HeadRisk(self.embed(codes[:, :-1]), codes[:, 1:], self.unembedding, self.heads, reduction="mean")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`text`: {str(file)!r} is not a text in UTF-8: {error.reason} at byte {error.start}."
        ) from None
