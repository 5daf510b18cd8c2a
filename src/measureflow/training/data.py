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

from measureflow import checks, files
from measureflow.annotations import RandomKey
from measureflow.measures import Particles
from measureflow.measures.cloud import as_key
from measureflow.training import head_sums
from measureflow.training.head_families import AbstractHeads
from measureflow.training.head_risk import HeadRisk
from measureflow.training.losses import entropy
from measureflow.training.risk import Baselines

CHARACTER = 100.0
"""Bytes of memory for each byte of a text, whose characters are numbers in a list and then in an array."""


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

    `text` is the text itself or a path to it. Embeddings have norm about one, positions are sines of half that size. The share
    `held_out` of the text, at its end, is not trained on, if it has a window and leaves one.
    """

    codes: Int[Array, " n"]
    rest: Int[Array, " m"]
    embedding: Float[Array, "V d"]
    positions: Float[Array, "T d"]
    unembedding: Float[Array, "d V"]
    heads: AbstractHeads
    alphabet: str = eqx.field(static=True)

    def __init__(
        self,
        text: str | Path,
        length: int,
        heads: AbstractHeads,
        *,
        held_out: float = 0.0,
        key: RandomKey = 0,
    ):
        words = _read(text) if isinstance(text, Path) else text
        if len(words) < 2:
            raise ValueError(f"`text` must have at least 2 characters, one of which comes next; it has {len(words)}.")
        if not 1 <= length < len(words):
            raise ValueError(f"`length` must be between 1 and {len(words) - 1}, less than the text has; got {length}.")
        self.alphabet = "".join(sorted(set(words)))
        index = {c: i for i, c in enumerate(self.alphabet)}
        kept = _kept(len(words), length, held_out)
        codes = jnp.asarray([index[c] for c in words])
        self.codes, self.rest = codes[:kept], codes[kept:]
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
        return self._risk(self.codes, jax.random.randint(key, (size,), 0, len(self.codes) - self.length))

    def windows(self, count: int | None = None) -> HeadRisk:
        """The risk of the first windows that do not overlap; all of them unless a count is given."""
        return self._windows(self.codes, count)

    def held_out(self, count: int | None = None) -> HeadRisk | None:
        """The risk of the first windows of what is not trained on, if there is any."""
        return self._windows(self.rest, count) if len(self.rest) else None

    def embed(self, codes: Int[ArrayLike, "S T"]) -> Float[Array, "S T d"]:
        """The tokens of characters given by their codes."""
        return self.embedding[jnp.asarray(codes)] + self.positions[None]

    def baselines(self) -> Baselines:
        """What the training text tells without heads: the entropies of its characters, alone and after the one before."""
        V = len(self.alphabet)
        pairs = np.zeros((V, V))
        np.add.at(pairs, (np.asarray(self.codes[:-1]), np.asarray(self.codes[1:])), 1.0)
        after, before = entropy(pairs.sum(0)), entropy(pairs.sum(1))
        return Baselines(float(np.log(V)), after, entropy(pairs) - before)

    def prompt(self) -> str:
        """A window to go on from: the first one that is not trained on, or the last one that is."""
        codes = self.rest[: self.length] if len(self.rest) else self.codes[-self.length :]
        return "".join(self.alphabet[code] for code in np.asarray(codes))

    def write(self, mu: Particles, prompt: str, count: int, *, key: RandomKey = 0) -> str:
        """Characters drawn one after the other as heads predict them after a prompt, of which they see the last window."""
        unknown = set(prompt) - set(self.alphabet)
        if unknown or not prompt:
            what = f"{min(unknown)!r} is none" if unknown else "it is empty"
            raise ValueError(f"`prompt` must consist of characters of the text, at least one; {what}.")
        checks.count("count", count, 1)
        seen = np.array([self.alphabet.index(c) for c in prompt[-self.length :]])
        window = jnp.zeros(self.length, self.codes.dtype).at[: len(seen)].set(seen)
        written = _written(self, mu, window, jnp.asarray(len(seen)), jax.random.split(as_key(key), count))
        return "".join(self.alphabet[code] for code in np.asarray(written))

    def logits(self, mu: Particles, window: Int[Array, " T"]) -> Float[Array, "T V"]:
        """What heads predict at each position of a window."""
        mixed = head_sums.total(self.heads, mu.points, mu.weights, self.embed(window[None]).astype(mu.points.dtype))
        return mixed[0] @ self.unembedding.astype(mixed.dtype)

    def _windows(self, codes: Int[Array, " n"], count: int | None) -> HeadRisk:
        most = (len(codes) - 1) // self.length
        return self._risk(codes, self.length * jnp.arange(most if count is None else min(count, most)))

    def _risk(self, text: Int[Array, " n"], starts: Int[Array, " S"]) -> HeadRisk:
        places = starts[:, None] + jnp.arange(self.length + 1)[None, :]
        codes = text[places]
        return HeadRisk(self.embed(codes[:, :-1]), codes[:, 1:], self.unembedding, self.heads, reduction="mean")


@eqx.filter_jit
def _written(
    text: Text, mu: Particles, window: Int[Array, " T"], seen: Int[Array, ""], keys: Array
) -> Int[Array, " n"]:
    """Codes drawn one a key, from a window of which the first `seen` are there; a full one moves on by one character."""
    T = text.length

    def step(state, key):
        window, seen = state
        code = jax.random.categorical(key, text.logits(mu, window)[seen - 1]).astype(window.dtype)
        moved = jnp.where(seen < T, window, jnp.roll(window, -1))
        return (moved.at[jnp.minimum(seen, T - 1)].set(code), jnp.minimum(seen + 1, T)), code

    return jax.lax.scan(step, (window, seen), keys)[1]


def _kept(count: int, length: int, held_out: float) -> int:
    """How many characters are trained on."""
    if not 0 <= held_out < 1:
        raise ValueError(f"`held_out` is a share of the text, at least 0 and less than 1; got {held_out:g}.")
    rest = int(count * held_out)
    return count - rest if min(rest, count - rest) > length else count


def _read(file: Path) -> str:
    try:
        return files.text(file, CHARACTER)
    except ValueError as error:
        raise ValueError(f"`text`: {error}") from None
