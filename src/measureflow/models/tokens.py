"""Texts as numbers of tokens, as the model was trained with, and back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import numpy as np

from measureflow import files
from measureflow.models import quantised
from measureflow.models.files import ModelError
from measureflow.models.loading import located
from measureflow.precision import keep_all

DIGITS = {"gpt-2": False, "smollm": True}
"""Kinds of splitting that are those of GPT-2, and whether they take every digit by itself."""


@final
class Tokenizer:
    """From texts to numbers of tokens and back; `size` is that of its vocabulary."""

    def __init__(self, backend: Any):
        self._backend = backend

    @property
    def size(self) -> int:
        """One more than the largest number of a token."""
        return 1 + max(self._backend.get_vocab().values(), default=-1)

    def encode(self, text: str, *, special: bool = True) -> np.ndarray:
        """The numbers of the tokens of a text, with those that mark its ends where the model has them."""
        if not text:
            raise ValueError("`text` is empty; there is nothing to look at.")
        return np.asarray(self._backend.encode(text, add_special_tokens=special).ids)

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The tokens that mark the beginning and the end of every text; none where the model has none."""
        plain, marked = (self.encode("a", special=special) for special in (False, True))
        places = (i for i in range(len(marked) + 1) if np.array_equal(marked[i : i + len(plain)], plain))
        first = next(places, None)
        if first is None:
            raise ModelError("The tokenizer changes a text between the tokens that mark its ends; it is damaged.")
        return marked[:first], marked[first + len(plain) :]

    def decode(self, ids: Any) -> str:
        """The text of tokens."""
        return self._backend.decode([int(i) for i in np.asarray(ids)])

    def words(self, ids: Any) -> list[str]:
        """Each token by itself."""
        return [self.decode([i]) for i in np.asarray(ids)]


def tokenizer(place: str | Path) -> Tokenizer:
    """The tokenizer of a model: tokenizer.json of its folder, or that in its file of GGUF."""
    try:
        import tokenizers  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ModelError("A tokenizer needs the package tokenizers: pip install 'measureflow[models]'.") from None
    path = located(str(place))
    if path.suffix == ".gguf" and path.is_file():
        return Tokenizer(_quantised(tokenizers, path))
    file = path / "tokenizer.json"
    if not file.is_file():
        raise ModelError(f"{str(place)!r} has no tokenizer.json; give the numbers of tokens instead of a text.")
    backend = _made(lambda: tokenizers.Tokenizer.from_str(files.text(file)), str(file))
    backend.no_padding()
    backend.no_truncation()
    return Tokenizer(backend)


def _made(make: Callable[[], Any], place: str) -> Any:
    """What the package makes of a file; where that is damaged it may also panic, which is no usual exception."""
    try:
        return make()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise ModelError(f"{place!r} is no tokenizer: {str(error).rstrip('.')}.") from None


def _quantised(tokenizers: Any, path: Path) -> Any:
    """Pairs of bytes, as files of GGUF list them."""
    facts = quantised.facts(path, ("model", "pre", "tokens", "merges"))
    if facts["model"] != "gpt2" or facts["pre"] not in DIGITS:
        raise ModelError(
            f"The tokenizer of {str(path)!r}, {facts['model']} {facts['pre']}, is not known here; give numbers of tokens."
        )
    tokens, pairs = (_words(path, facts, name) for name in ("tokens", "merges"))
    vocabulary = {token: i for i, token in enumerate(tokens)}
    merges = [tuple(pair.split(" ", 1)) for pair in pairs]
    if len(vocabulary) < len(tokens) or not all(len(pair) == 2 and set(pair) <= vocabulary.keys() for pair in merges):
        raise ModelError(f"The tokenizer of {str(path)!r} has a token twice, or merges what are no tokens.")
    backend = _made(lambda: tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=merges)), str(path))
    split = tokenizers.pre_tokenizers
    bytes_ = split.ByteLevel(add_prefix_space=False)
    digits = [split.Digits(individual_digits=True)] if DIGITS[facts["pre"]] else []
    backend.pre_tokenizer = split.Sequence([*digits, bytes_])
    backend.decoder = tokenizers.decoders.ByteLevel()
    marks = [token for token in tokens if token.startswith("<|") and token.endswith("|>")]
    backend.add_special_tokens(marks)
    return backend


def _words(path: Path, facts: dict[str, Any], name: str) -> list[str]:
    found = facts[name]
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise ModelError(f"The tokenizer of {str(path)!r} has no list of {name}; give numbers of tokens.")
    return found


keep_all(globals())
