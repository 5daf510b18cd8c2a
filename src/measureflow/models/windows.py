"""A text, or images, as windows of equally many tokens, from which a model starts."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import memory
from measureflow.models.architectures import number
from measureflow.models.files import ModelError, read_json
from measureflow.models.loading import located
from measureflow.models.model import Model
from measureflow.models.null_models import random_tokens, shuffled_tokens
from measureflow.models.tokens import tokenizer
from measureflow.precision import keep_all

PICTURES = (".png", ".jpg", ".jpeg")
"""Kinds of files that hold an image."""


class Windows(NamedTuple):
    """Windows and what they would be by chance, as points from which a model starts; `ids` are those of a text."""

    starts: Float[Array, "kinds w n d"]
    """Of the text itself, of its tokens shuffled, and of random tokens."""
    ids: np.ndarray | None = None
    shuffled_ids: np.ndarray | None = None


def text_windows(
    model: Model, place: str, text: str, count: int | None, length: int, most: int, rng: np.random.Generator
) -> Windows:
    """Windows of a text, spread over it without overlap, each with the tokens that mark its ends.

    As many as were asked for, or as there are, up to `most`.
    """
    words = tokenizer(place)
    if words.size > len(model.embedding.table):
        raise ModelError(
            f"The tokenizer of {place!r} has {words.size} tokens, and the model knows {len(model.embedding.table)}: they do not "
            "belong together."
        )
    ids, ends = words.encode(text, special=False), words.ends
    inside = length - len(ends[0]) - len(ends[1])
    there = len(ids) // inside if inside > 1 else 0
    if there < (count or 1):
        asked = f"{count} windows of {length}" if count else f"one window of {length}"
        raise ModelError(
            f"`text` has {len(ids)} tokens, too few for {asked}; give a longer text, or a smaller `length` or fewer `windows`."
        )
    chosen = np.linspace(0, there - 1, count or min(there, most)).round().astype(int)
    rows = [np.concatenate([ends[0], ids[i * inside : (i + 1) * inside], ends[1]]) for i in chosen]
    windows, fixed = np.stack(rows), (len(ends[0]), len(ends[1]))
    mixed, chance = shuffled_tokens(windows, rng, fixed), random_tokens(windows, rng, words.size, fixed)
    starts = jnp.stack([jax.vmap(model.embedding)(jnp.asarray(ids)) for ids in (windows, mixed, chance)])
    return Windows(starts, windows, mixed)


def image_windows(
    model: Model, place: str, files: list[Path], count: int | None, most: int, rng: np.random.Generator
) -> Windows:
    """Images as windows of patches; by chance the patches of all images are shuffled, or noise of the same mean and spread."""
    if not files:
        raise ModelError(f"`images` names no image; known are {', '.join(PICTURES)}.")
    if count is not None and count > len(files):
        raise ModelError(f"`windows` {count} are more than the {len(files)} `images` that there are.")
    chosen = files[: count or most]
    pixels = np.stack([_pixels(file, located(place)) for file in chosen])
    table, side = model.embedding.table, _side(model, pixels)
    patches = _cut(pixels, side)
    mixed = shuffled_tokens(patches, rng)
    noise = (patches.mean() + patches.std() * rng.normal(size=patches.shape)).astype(np.float32)
    inside = jnp.stack([jnp.asarray(part) @ table[1:] for part in (patches, mixed, noise)])
    first = jnp.broadcast_to(table[:1], (*inside.shape[:2], 1, inside.shape[3]))
    return Windows(jax.vmap(jax.vmap(model.embedding.place))(jnp.concatenate([first, inside], axis=2)))


def _cut(pixels: np.ndarray, side: int) -> np.ndarray:
    """Images `(w, height, width, channels)` as rows of patches, channel by channel, as a convolution reads them."""
    w, high, wide, channels = pixels.shape
    rows = pixels.reshape(w, high // side, side, wide // side, side, channels)
    return rows.transpose(0, 1, 3, 5, 2, 4).reshape(w, -1, channels * side**2)


def _side(model: Model, pixels: np.ndarray) -> int:
    numbers, (_, high, wide, channels) = len(model.embedding.table) - 1, pixels.shape
    side = round((numbers / channels) ** 0.5)
    if side**2 * channels != numbers or high % side or wide % side:
        raise ModelError(
            f"Images of {high} x {wide} pixels cannot be cut into the patches of {numbers} numbers of the model."
        )
    return side


def _pixels(file: Path, folder: Path) -> np.ndarray:
    """An image at the size of the model, with the mean and spread that its preprocessor asks for."""
    from PIL import Image

    side = number({"image_size": 224} | read_json(folder / "config.json"), "image_size")
    said = folder / "preprocessor_config.json"
    facts = read_json(said) if said.is_file() else {}
    mean, spread = (_channels(facts, name) for name in ("image_mean", "image_std"))
    try:
        memory.ask(30.0 * side**2, f"An image of `image_size` {side}", "take a smaller one")
        image = Image.open(file).convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
    except Exception as error:  # of whichever reader of its kind of image
        raise ModelError(f"{str(file)!r} is no image that can be read: {str(error).rstrip('.')}.") from None
    return (np.asarray(image, np.float32) / 255 - mean) / spread


def _channels(facts: dict[str, Any], name: str) -> np.ndarray:
    """Three numbers of the preprocessor, those of a spread above zero."""
    said = facts.get(name, [0.5] * 3)
    fine = isinstance(said, list) and len(said) == 3 and all(type(value) in (int, float) for value in said)
    if not fine or not np.isfinite(said).all() or (name == "image_std" and min(said) <= 0):
        raise ModelError(f"`{name}` of the preprocessor must be three numbers; got {str(said)[:50]}.")
    return np.asarray(said, np.float32)


keep_all(globals())
