"""A look at a pretrained transformer as a job: windows of text and what they would be by chance flow through all layers at once.

Four clouds flow side by side: the text, its tokens shuffled, random tokens, and the text under random weights of the same
spectrum. What is measured at a layer needs its weights and the tokens before it alone, so a frame is a layer, and the run stops,
resumes and is compared like any other. Tokens are not kept; what was seen of them is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import models
from measureflow.commands.inspect.settings import LAYERS, WINDOWS, Inspecting
from measureflow.diagnostics import hemisphere
from measureflow.fields import Beside, FactoredAttention, Packed
from measureflow.flows import Layers, Trajectory
from measureflow.measures import Particles
from measureflow.models import Model, ModelError, looking, steepness
from measureflow.models.continuing import continued
from measureflow.models.heads import HeadLook, atoms, gram, look_at_heads, temptations
from measureflow.models.imitations import IMITATIONS
from measureflow.models.nulls import scrambled
from measureflow.models.windows import Windows, image_windows, text_windows
from measureflow.runs.job import Beside as Stored
from measureflow.runs.job import Job, State
from measureflow.spaces import Euclidean
from measureflow.theory import bounds
from measureflow.words.series import Series, by_job
from measureflow.words.settings import InputError
from measureflow.words.vocabulary import MEASURES

KINDS = ("text", "shuffled", "random tokens", "random weights")
"""The text, and what figures would be by chance."""

STEEP, DRAWS, FEW = 8, 4, 64
"""Windows on which slopes are measured, clouds drawn of each imitation, and tokens of which one layer is continued."""

BEYOND = 4
"""A layer is continued to so many times the depth of the model."""

HEADS = HeadLook._fields
ARRAYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("overlap", "effective_rank", "energy", "size", "groups"), ("kind", "window")),
    "overlap_law": ("kind", "window", "bin"),
    "labels": ("window", "place"),
    "sink": ("window", "place"),
    "received": ("window", "place"),
    "hemisphere": ("window",),
    **dict.fromkeys(("entropy", "beta"), ("kind", "window", "head")),
    **{name: ("group",) if name.endswith("defect") else ("head",) for name in HEADS},
    "output_cosines": ("head", "other"),
    **dict.fromkeys(("slope", "slope_residual"), ("kind", "steep")),
    "slope_other_mask": ("steep",),
    "slope_of_head": ("head",),
    **dict.fromkeys(("slope_growing", "slope_placed"), ("steep", "length")),
    "slope_imitation": ("imitation", "draw", "length"),
    **dict.fromkeys(("slope_worst", "slope_sure", "bound", "bound_published"), ("length",)),
    "radius": (),
    "temptation_by_chance": ("head",),
    "between": ("window",),
    "worst_head": (),
    **dict.fromkeys(("continued", "continued_layers", "continued_groups"), ("depth",)),
    "continued_error": (),
}
"""What is stored of each layer, with the names of its dimensions; NaN where it was not measured."""


def lengths_of(n: int) -> np.ndarray:
    """Numbers of tokens at which slopes are measured: powers of two from 8, and all."""
    return np.unique([2**p for p in range(3, 32) if 2**p < n] + [n])


def depths_of(layers: int) -> np.ndarray:
    """Depths at which a layer that is continued is looked at."""
    return np.unique(np.linspace(0, BEYOND * layers, 25).round())


@dataclass(frozen=True, kw_only=True)
class InspectionJob(Job):
    """A model, its random double, and windows."""

    model: Model
    double: Model
    windows: Windows
    chosen: tuple[int, ...]
    config: Inspecting
    found: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)
    """What was seen at the layer in hand."""

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The sizes of all dimensions."""
        _, W, n, _ = self.windows.starts.shape
        one = self.model.attention(0)
        return {
            "kind": len(KINDS), "window": W, "place": n, "bin": looking.BINS, "head": len(one.query), "other": len(one.query),
            "group": len(one.key), "steep": min(W, STEEP), "length": len(lengths_of(n)), "imitation": len(IMITATIONS),
            "draw": DRAWS, "depth": len(depths_of(self.model.depth)),
        }  # fmt: skip

    def layout(self) -> dict[str, dict[str, int]]:
        """What is stored of a layer."""
        return {name: {dim: self.sizes[dim] for dim in dims} for name, dims in ARRAYS.items()}

    def watch(self, times: np.ndarray, measures: Any) -> dict[str, np.ndarray]:
        """What the text comes to, in the mean over windows."""
        each = [self._seen(int(t), points) for t, points in zip(times, measures.points, strict=True)]
        return {
            one.name: np.array([found[one.name.removeprefix("mean_")][0].mean() for found in each])
            for one in self.series
        }

    def stored(self, path: Trajectory) -> dict[str, np.ndarray]:
        """All that was seen."""
        times = np.asarray(path.times)
        each = [self._seen(int(t), points) for t, points in zip(times, path.measures.points, strict=True)]
        return {name: np.stack([found[name] for found in each]) for name in ARRAYS}

    def _seen(self, k: int, points: Float[Array, "m d"]) -> dict[str, np.ndarray]:
        if k not in self.found:
            self.found.clear()
            empty = {name: np.full([self.sizes[dim] for dim in dims], np.nan) for name, dims in ARRAYS.items()}
            clouds = points.reshape(len(KINDS), self.sizes["window"], self.sizes["place"], -1)
            self.found[k] = empty | {name: np.asarray(of) for name, of in self._looks(k, clouds)}
        return self.found[k]

    def _looks(self, k: int, clouds: Float[Array, "kind w n d"]) -> Iterator[tuple[str, Any]]:
        """Everything at one layer; behind the last there is no attention to look at."""
        inside = k < self.model.depth
        seen = self._attended(k, clouds) if inside else None
        looks = [] if seen is None else [
            looking.look_at_attention(model.attention(k), xs) for model, xs in zip(self._models, seen, strict=True)
        ]  # fmt: skip
        yield from self._tokens(clouds, [look.received for look in looks] or [None] * len(KINDS))
        if seen is None:
            return
        attention = self.model.attention(k)
        yield "entropy", np.stack([look.entropy for look in looks])
        yield "beta", np.stack([look.beta for look in looks])
        yield "received", looks[0].received
        yield from look_at_heads(attention)._asdict().items()
        yield "output_cosines", looking.output_cosines(attention, seen[0])
        yield "radius", float(jnp.linalg.norm(seen[0], axis=-1).max())
        yield (
            "temptation_by_chance",
            temptations(self.double.attention(k)) * float(jnp.linalg.norm(seen[3], axis=-1).max()) ** 2,
        )
        if k in self.chosen:
            yield from self._slopes(k, seen)
            yield from self._continued(k, clouds[0, 0])

    @property
    def _models(self) -> list[Model]:
        """The model that moves each kind of cloud."""
        return [self.model] * (len(KINDS) - 1) + [self.double]

    def _attended(self, k: int, clouds: Float[Array, "kind w n d"]) -> list[Float[Array, "w n d"]]:
        return [model.seen(k, cloud) for model, cloud in zip(self._models, clouds, strict=True)]

    def _tokens(self, clouds: Array, received: list[Array | None]) -> Iterator[tuple[str, Any]]:
        """How tokens are spread, which are sinks, and who is with whom."""
        kept = [~looking.sinks(cloud, got) for cloud, got in zip(clouds, received, strict=True)]
        beta = jnp.asarray(self.config.beta, clouds.dtype)
        looks = [looking.look_at_tokens(cloud, keep, beta) for cloud, keep in zip(clouds, kept, strict=True)]
        for name, part in zip(
            ("overlap", "overlap_law", "effective_rank", "energy", "size"), zip(*looks, strict=True), strict=True
        ):
            yield name, np.stack(part)
        held = np.asarray(clouds), [np.asarray(keep) for keep in kept]
        labels = [looking.groups(cloud, keep, self.config.tolerance) for cloud, keep in zip(*held, strict=True)]
        yield "groups", np.stack([each.max(1) + 1 for each in labels])
        yield "labels", labels[0]
        yield "sink", ~held[1][0]
        yield "between", looking.between(held[0][0], labels[0])
        rows = zip(held[0][0], held[1][0], strict=True)
        yield "hemisphere", [_margin(cloud[keep]) if keep.any() else np.nan for cloud, keep in rows]

    def _slopes(self, k: int, seen: list[Float[Array, "w n d"]]) -> Iterator[tuple[str, Any]]:
        """Slopes on the text and by chance, with few tokens and many, head by head, and at their worst."""
        some, attention = self.sizes["steep"], self.model.attention(k)
        text, lengths = seen[0][:some], lengths_of(self.sizes["place"])
        pairs = zip(self._models, seen, strict=True)
        own = steepness.slopes((model.attention(k), xs) for model, cloud in pairs for xs in cloud[:some])
        yield "slope", np.reshape([one.value for one in own], (len(KINDS), some))
        yield "slope_residual", np.reshape([one.residual for one in own], (len(KINDS), some))
        other = steepness.masked(attention, not attention.causal)
        yield "slope_other_mask", _values((other, xs) for xs in text)
        yield "slope_of_head", _values((attention.head(h), text[0]) for h in range(self.sizes["head"]))
        yield "slope_growing", _growing(attention, text, [np.arange(n) for n in lengths])
        spread = [steepness.some_places(int(n), text.shape[1]) for n in lengths]
        yield "slope_placed", _growing(attention, text, spread)
        yield "slope_imitation", self._imitated(k, float(jnp.median(jnp.linalg.norm(text, axis=-1))), lengths)
        yield from _at_worst(attention, float(jnp.linalg.norm(text, axis=-1).max()), text, lengths)

    def _imitated(self, k: int, size: float, lengths: np.ndarray) -> np.ndarray:
        """Slopes on clouds that imitate a text, as large as its tokens."""
        n, d = self.sizes["place"], self.model.dim
        clouds = [
            imitation(np.random.default_rng((self.config.seed, k, i, draw)), n, d) * size / np.sqrt(d)
            for i, imitation in enumerate(IMITATIONS.values())
            for draw in range(DRAWS)
        ]
        found = _growing(self.model.attention(k), jnp.asarray(clouds, jnp.float32), [np.arange(n) for n in lengths])
        return found.reshape(len(IMITATIONS), DRAWS, -1)

    def _continued(self, k: int, points: Float[Array, "n d"]) -> Iterator[tuple[str, Any]]:
        found = continued(self.model, k, points[:FEW], depths_of(self.model.depth), self.config.tolerance)
        names = "continued", "continued_layers", "continued_groups", "continued_error"
        yield from zip(names, found, strict=True)

    def finish(self, state: State) -> Stored:
        """What needs all layers: the heads of all of them, the proof that the model is itself, and its loss on the text."""
        if state.frames < self.frames:
            return {}
        cosines = gram([self.model.attention(k) for k in range(self.model.depth)])
        chance = gram([self.double.attention(k) for k in range(self.model.depth)])
        proof = self.model.prove(self.windows.ids[0]) if self.windows.ids is not None else None
        state.stats |= {
            "atoms": atoms(cosines), "atoms_by_chance": atoms(chance), "chosen": list(self.chosen),
            "causal": self.model.attention(0).causal, "discarded": _discarded(self.model, self.windows.starts[0]),
        }  # fmt: skip
        state.stats |= {} if proof is None else {"proof_heads": proof.heads, "proof_stack": proof.stack}
        if self.model.unembedding is not None and self.windows.ids is not None:
            state.stats |= {
                "loss": self._loss(self.windows.ids),
                "loss_shuffled": self._loss(self.windows.shuffled_ids),
            }
            state.stats["vocabulary"] = len(self.model.unembedding)
        return {"head_cosines": (("layer_head", "other_layer_head"), cosines.astype(np.float32))}

    def _loss(self, ids: np.ndarray | None) -> float:
        """The mean of `-log p` of the next token, over windows."""
        assert ids is not None
        return float(np.mean([self.model.loss(row) for row in ids]))


def _margin(points: np.ndarray) -> float:
    return hemisphere(Particles(Euclidean(points.shape[1]), points)).margin


def _values(cases: Iterable[tuple[FactoredAttention, Array]]) -> np.ndarray:
    return np.array([one.value for one in steepness.slopes(cases)])


def _growing(attention: FactoredAttention, clouds: Float[Array, "w n d"], places: list[np.ndarray]) -> np.ndarray:
    """Slopes of the tokens of each cloud at several sets of places."""
    cases = ((steepness.placed(attention, where), xs[where]) for xs in clouds for where in places)
    return _values(cases).reshape(len(clouds), len(places))


def _at_worst(
    attention: FactoredAttention, radius: float, text: Array, lengths: np.ndarray
) -> Iterator[tuple[str, Any]]:
    """Slopes of the head that can be tempted most, what it is sure to reach, and what no input passes."""
    worst = steepness.worst(attention)
    head = steepness.bare(attention, worst.head)
    clouds = [jnp.asarray(worst.tokens(n, radius), jnp.float32) for n in lengths.tolist()]
    yield "worst_head", worst.head
    yield "slope_worst", _values((head, cloud) for cloud in clouds)
    yield "slope_sure", worst.gain * np.asarray(bounds.adversarial_lipschitz(lengths, worst.temptation, radius))
    if (reach := steepness.reach(attention, text)) is not None:
        for name, bound in (("bound", bounds.finite_lipschitz), ("bound_published", bounds.published_finite_lipschitz)):
            yield name, [float(np.sum(bound(n, reach.value, reach.score, reach.radius))) for n in lengths.tolist()]


def _discarded(model: Model, starts: Float[Array, "w n d"]) -> list[float]:
    """The part of what attention adds, in the mean square at each layer, that the part of which theory speaks does not have."""
    at, found = model.run(model.particles(starts[0])), []
    for k in range(model.depth):
        seen = model.seen(k, at.at(k).points)
        found.append(float(looking.discarded(model.attention(k), seen)))
    return found


def job_of(config: Inspecting) -> InspectionJob:
    """The job that a configuration describes; what is wrong with it is said before anything is written."""
    try:
        model = models.load(config.model[0])
        windows = _windows(config, model)
    except (ModelError, ValueError) as error:
        raise InputError(str(error)) from None
    chosen = _chosen(config, model)
    double = scrambled(model, jax.random.key(config.seed))
    starts = jnp.concatenate([windows.starts, windows.starts[:1]])
    _, W, n, d = starts.shape
    part = W * n
    flow = Layers(
        Beside([Packed(model.stack, [n] * (3 * W)), Packed(double.stack, [n] * W)], [3 * part, part]),
        model.particles(starts.reshape(-1, d)),
        model.depth,
    )
    return InspectionJob(
        flow=flow,
        word=MEASURES["particles"],
        word_name="particles",
        series=(
            Series("mean_overlap", by_job, "mean overlap", ".4g", telling=True, host=True),
            Series("mean_effective_rank", by_job, "effective rank", ".4g", host=True),
            Series("mean_groups", by_job, f"groups within {config.tolerance:g} rad", ".4g", host=True),
            Series("mean_energy", by_job, "energy, part of its largest", ".4g", host=True),
        ),
        title=f"{model.name}: {model.depth} layers of {model.heads} heads on {W} windows of {n} tokens",
        frames_per_leg=1,
        command="inspect",
        settings=config,
        seed=config.seed,
        verify=False,
        keep=False,
        model=model,
        double=double,
        windows=windows,
        chosen=chosen,
        config=config,
    )


def _windows(config: Inspecting, model: Model) -> Windows:
    rng, place = np.random.default_rng(config.seed), config.model[0]
    if model.pictured != (config.images is not None):
        wanted, given = ("images", "text") if model.pictured else ("text", "images")
        raise InputError(f"{model.name} looks at {wanted}: give `{wanted}` instead of `{given}`.")
    if config.images is not None:
        return image_windows(model, place, config.pictures(), config.windows, WINDOWS, rng)
    assert config.text is not None
    try:
        text = Path(config.text).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"`text`: {config.text!r} cannot be read as text: {error}.") from None
    return text_windows(model, place, text, config.windows, config.length, WINDOWS, rng)


def _chosen(config: Inspecting, model: Model) -> tuple[int, ...]:
    if wrong := [k for k in config.layers if k >= model.depth]:
        raise InputError(f"`layers` are counted from 0 to {model.depth - 1} in {model.name}; got {wrong[0]}.")
    every = np.linspace(0, model.depth - 1, min(model.depth, LAYERS)).round().astype(int)
    return tuple(sorted(set(config.layers))) or tuple(every.tolist())
