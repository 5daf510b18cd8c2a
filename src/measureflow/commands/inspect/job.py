"""The inspection of a pretrained transformer as a job: windows of text, and null models of them, flow through all layers at once.

Four clouds flow side by side: the text, its tokens shuffled, random tokens, and the text under random weights of the same
spectrum. The quantities of a layer (`models/quantities.py`) need its weights and the tokens before it alone, so a frame is a
layer, and the run stops, resumes and is compared like any other. Tokens are not kept; their quantities are.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import files, models
from measureflow.commands.inspect import bounds as bounds  # declares quantities
from measureflow.commands.inspect.settings import LAYERS, WINDOWS, Inspecting
from measureflow.fields import Packed, SideBySide
from measureflow.flows import Layers, Trajectory
from measureflow.models import Model, ModelError
from measureflow.models.attention_maps import discarded
from measureflow.models.head_matrices import effective_head_count, head_cosines
from measureflow.models.null_models import with_random_weights
from measureflow.models.quantities import QUANTITIES, InspectedLayer, Inspection, Quantity
from measureflow.models.windows import Windows, image_windows, text_windows
from measureflow.runs.job import ExtraArrays, Job, Progress
from measureflow.words.memory import ask
from measureflow.words.series import Series
from measureflow.words.settings import InputError
from measureflow.words.vocabulary import MEASURES


@dataclass(frozen=True, kw_only=True)
class InspectionJob(Job):
    """A model under inspection, and the windows that flow through it."""

    inspection: Inspection
    windows: Windows

    @property
    def stored_quantities(self) -> list[Quantity]:
        """The quantities that are arrays of a frame; the others are series."""
        return [one for one in QUANTITIES.values() if not one.watched]

    def layout(self) -> dict[str, dict[str, int]]:
        """The arrays of a layer, each with the names and sizes of its dimensions."""
        return {one.name: self.inspection.layout(one.name) for one in self.stored_quantities}

    @property
    def labels(self) -> dict[str, dict[str, Any]]:
        """The declarations of series and of quantities that have a label."""
        return super().labels | {one.name: one.attributes() for one in self.stored_quantities if one.label}

    def frames_of(self, path: Trajectory) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The series and the arrays of some layers."""
        pairs = zip(np.asarray(path.times), path.measures.points, strict=True)
        layers = [InspectedLayer(self.inspection, int(t), points) for t, points in pairs]
        values = {one.name: np.array([layer[one.name] for layer in layers]) for one in self.series}
        return values, {name: np.stack([layer[name] for layer in layers]) for name in self.layout()}

    def finish(self, state: Progress) -> ExtraArrays:
        """What needs all layers: cosines between all heads, how far the model is from its parts put together, and its loss."""
        if state.frames < self.frames:
            return {}
        model, null, ids = self.inspection.model, self.inspection.null, self.windows.ids
        cosines, chance = (head_cosines([one.attention(k) for k in range(one.depth)]) for one in (model, null))
        state.stats |= {
            "atoms": effective_head_count(cosines),
            "atoms_by_chance": effective_head_count(chance),
            "chosen": list(self.inspection.chosen),
            "causal": model.attention(0).causal,
            "discarded": _discarded(model, self.windows.starts[0]),
        }
        if ids is not None:
            proof = model.prove(ids[0])
            state.stats |= {"proof_heads": proof.heads, "proof_stack": proof.stack}
        if model.unembedding is not None and ids is not None:
            state.stats |= {"loss": self._loss(ids), "loss_shuffled": self._loss(self.windows.shuffled_ids)}
            state.stats["vocabulary"] = len(model.unembedding)
        return {"head_cosines": (("layer_head", "other_layer_head"), cosines.astype(np.float32))}

    def _loss(self, ids: np.ndarray | None) -> float:
        """The mean of `-log p` of the next token, over windows."""
        assert ids is not None
        return float(np.mean([self.inspection.model.loss(row) for row in ids]))


def _discarded(model: Model, starts: Float[Array, "w n d"]) -> list[float]:
    """The part of what attention adds, in the mean square at each layer, that the part of which theory speaks does not have."""
    at, found = model.run(model.particles(starts[0])), []
    for k in range(model.depth):
        seen = model.seen(k, at.at(k).points)
        found.append(float(discarded(model.attention(k), seen)))
    return found


def job_of(config: Inspecting) -> InspectionJob:
    """The job that a configuration describes; what is wrong with it is said before anything is written."""
    try:
        model = models.load(config.model[0])
        windows = _windows(config, model)
    except (ModelError, ValueError) as error:
        raise InputError(str(error)) from None
    _, W, n, _ = windows.starts.shape
    # Four clouds in about ten arrays, and the scores of one window in all heads; in float32.
    ask(4 * (40.0 * W * n * model.dim + 6.0 * model.heads * n**2), "This", "make `length` or `windows` smaller")
    null = with_random_weights(model, jax.random.key(config.seed))
    inspection = Inspection(model, null, W, n, _chosen(config, model), config.beta, config.tolerance, config.seed)
    return InspectionJob(
        flow=_flow(inspection, windows),
        word=MEASURES["particles"],
        word_name="particles",
        series=tuple(_series(inspection, one) for one in QUANTITIES.values() if one.watched),
        title=f"{model.name}: {model.depth} layers of {model.heads} heads on {W} windows of {n} tokens",
        frames_per_leg=1,
        command="inspect",
        settings=config,
        seed=config.seed,
        verify=False,
        keep=False,
        inspection=inspection,
        windows=windows,
    )


def _flow(inspection: Inspection, windows: Windows) -> Layers:
    """All clouds through all layers: three kinds of tokens through the model, and the text through that with random weights."""
    model, null, W, n = inspection.model, inspection.null, inspection.windows, inspection.length
    starts = jnp.concatenate([windows.starts, windows.starts[:1]])
    field = SideBySide([Packed(model.stack, [n] * (3 * W)), Packed(null.stack, [n] * W)], [3 * W * n, W * n])
    return Layers(field, model.particles(starts.reshape(-1, model.dim)), model.depth)


def _series(inspection: Inspection, one: Quantity) -> Series:
    """A quantity that is a number as a series, which is a function of the layer."""
    return Series(one.name, one.of, inspection.label(one.name), one.format, telling=one.telling, host=True)


def _windows(config: Inspecting, model: Model) -> Windows:
    rng, place = np.random.default_rng(config.seed), config.model[0]
    if model.pictured != (config.images is not None):
        wanted, given = ("images", "text") if model.pictured else ("text", "images")
        raise InputError(f"{model.name} looks at {wanted}: give `{wanted}` instead of `{given}`.")
    if config.images is not None:
        return image_windows(model, place, config.pictures(), config.windows, WINDOWS, rng)
    assert config.text is not None
    return text_windows(model, place, files.text(config.text), config.windows, config.length, WINDOWS, rng)


def _chosen(config: Inspecting, model: Model) -> tuple[int, ...]:
    if wrong := [k for k in config.layers if k >= model.depth]:
        raise InputError(f"`layers` are counted from 0 to {model.depth - 1} in {model.name}; got {wrong[0]}.")
    every = np.linspace(0, model.depth - 1, min(model.depth, LAYERS)).round().astype(int)
    return tuple(sorted(set(config.layers))) or tuple(every.tolist())
