"""The configuration of a simulation: what moves, under which attention, from where, and how it is solved.

Options that belong to words (the modes of a density, the step of a norm) come from the tables of `vocabulary`, and so do the
rules that follow from them; here are the others. Needs no JAX.
"""

from pathlib import Path
from typing import Any, ClassVar

from pydantic import (
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    field_validator,
    model_validator,
)

from measureflow.words import vocabulary as v
from measureflow.words.settings import Seed, Settings, file_there
from measureflow.words.table import Table, nearest

FILES = (".npz", ".npy", ".csv", ".txt")
"""Kinds of files that hold tokens or matrices."""


class Simulation(Settings):
    """Simulate tokens under attention and keep the result: data, table and picture."""

    tables: ClassVar[tuple[Table, ...]] = v.TABLES
    shown: ClassVar[tuple[str, ...]] = ("beta", "time", "seed")
    looked_at: ClassVar[tuple[str, ...]] = ("tolerance", "frames_per_leg", "rtol")

    aside: ClassVar[tuple[str, ...]] = ("out", "force", "processes", "coordinator", "process_id", "num_processes")

    n: PositiveInt = Field(512, description="number of tokens")
    dim: PositiveInt = Field(3, description="ambient coordinates; the circle is the sphere with dim 2")
    space: str = Field("sphere", description="where tokens live")
    measure: str = Field("particles", description="what moves: tokens, or the limit of infinitely many")
    attention: str = Field("softmax", description="the attention variant")
    beta: FiniteFloat = Field(9.0, description="inverse temperature: scores are beta <x, y>")
    matrices: str | None = Field(None, description="npz file with A, or Q and K, and optionally V, in place of beta")
    weights: str = Field("identity", description="ensemble of A / beta and V, drawn with the seed")
    heads: PositiveInt = Field(1, description="number of heads, which share the velocity equally; needs random weights")
    mask: str = Field("none", description="what a token may see: all tokens, or those before it")
    norm: str = Field(
        "none", description="normalisation scheme; pre, peri and mix let radii grow and need the euclidean space"
    )
    mlp: NonNegativeInt = Field(0, description="hidden units of a random perceptron added to attention")
    schedule: str = Field("constant", description="how weights change in time")
    frame: str = Field(
        "fixed", description="tokens as they are, or rescaled by exp(-tV), as growing ones are drawn anyhow"
    )
    energy: str = Field("none", description="an energy that tokens descend instead")
    noise: v.Positive | None = Field(None, description="temperature of Brownian noise; tokens need the euler solver")
    noise_law: str = Field("langevin", description="what the noise is")
    layers: NonNegativeInt = Field(
        0, description="run as a residual network of this depth instead of the continuous flow"
    )
    init: str = Field(
        "uniform",
        description=f"initial law ({', '.join(v.LAWS)}) or a file ({', '.join(FILES)}) of what the measure holds",
    )
    project: bool = Field(False, description="put the tokens of a file on the space")
    time: v.Positive = Field(20.0, description="final time")
    seed: Seed = Field(0, description="seed of the initial law, of weights and of noise")
    solver: str = Field("adaptive", description="time stepping")
    merge: v.Positive | None = Field(
        None, description="tokens that have met within this distance go on as one; for long times"
    )
    engine: str = Field("auto", description="how kernel sums are computed; `measureflow bench` lists the engines")
    frames: int = Field(121, ge=2, description="number of frames to keep")
    frames_per_leg: PositiveInt = Field(11, description="frames computed and saved at once; part of what is computed")
    tolerance: v.Positive | None = Field(
        None,
        description="tokens closer than this share a cluster; by default clusters are what stands out from the cloud",
    )
    series: tuple[str, ...] = Field((), description=f"what to watch beside: {', '.join(v.WATCHES)}")
    verify: bool = Field(True, description="run again with other steps, and less resolution, to estimate the error")
    movie: bool = Field(False, description="also write movie.gif")
    processes: PositiveInt = Field(1, description="processes of this machine that share the tokens")
    coordinator: str | None = Field(
        None, description="address HOST:PORT at which the processes of several machines meet: that of process 0"
    )
    process_id: NonNegativeInt | None = Field(None, description="which of those processes this is")
    num_processes: PositiveInt | None = Field(None, description="how many there are")

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, words: Any) -> Any:
        """What a measure takes unless given; a file brings its own sizes, and matrices their own scale."""
        if not isinstance(words, dict) or words.get("measure", "particles") not in v.MEASURES:
            return words
        word = v.MEASURES[words.get("measure", "particles")]
        brought = {"beta"} if words.get("matrices") is not None else set()
        brought |= set(word.in_file) if words.get("init", "uniform") not in v.LAWS else set()
        return {name: value for name, value in word.usual.items() if name not in brought} | words

    @field_validator("series")
    @classmethod
    def _watches(cls, series: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(v.WATCHES.check(word) for word in series)

    @field_validator("init")
    @classmethod
    def _law_or_file(cls, init: str, info: Any) -> str:
        if init in v.LAWS or (Path(init).suffix in FILES and file_there(init, info)):
            return init
        if Path(init).suffix in FILES:
            raise ValueError(f"there is no file {init!r}")
        raise ValueError(
            f"must be one of {', '.join(v.LAWS)} or a file ending in {', '.join(FILES)}{nearest(init, list(v.LAWS))}"
        )

    @field_validator("matrices")
    @classmethod
    def _file(cls, matrices: str | None, info: Any) -> str | None:
        if matrices is not None and not file_there(matrices, info):
            raise ValueError(f"there is no file {matrices!r}")
        return matrices

    @property
    def frame_count(self) -> int:
        """How many frames a run keeps: those asked for, or one a layer and the start."""
        return self.layers + 1 if self.layers else self.frames

    @property
    def from_file(self) -> bool:
        """Whether the start is read from a file."""
        return self.init not in v.LAWS

    @property
    def seen_by_directions(self) -> bool:
        """Whether tokens are looked at by their directions, because a norm leaves radii free."""
        return self.norm != "none" and self.space == "euclidean"

    def inputs(self) -> tuple[str, ...]:
        """The files that the run reads."""
        files = (self.init if self.from_file else None, self.matrices, self.use)
        return tuple(file for file in files if file is not None)

    def numbers(self) -> float:
        """Those of the measure, of the weights and their turns, and of the times."""
        word = v.MEASURES.choose(self)
        turns = 1 + 10 * self.time / self.period if self.schedule != "constant" else 1
        weights = 10.0 * self.dim**2 * self.heads * turns if self.has("drawn") or self.space == "euclidean" else 0.0
        return (
            word.numbers(self) + weights + 4.0 * self.mlp * self.dim + 10.0 * max(self.frame_count, self.frames_per_leg)
        )

    def sizes(self) -> tuple[str, ...]:
        """The options of the measure, and those of its weights."""
        other = {
            "heads": self.heads > 1,
            "mlp": self.mlp > 0,
            "frames": self.frames > 10**6,
            "frames_per_leg": self.frames_per_leg > 10**6,
            "layers": self.layers > 10**6,
        }
        other["time"] = self.schedule != "constant"
        own = v.MEASURES.choose(self).sizes
        return (*own, *(name for name, counts in other.items() if counts and name not in own))

    def to_toml(self) -> str:
        """The configuration as a TOML text that `--config` reads; where to write is not part of it."""
        sizes = set() if self.from_file or not self.has("tokens") else {"n", "dim"}
        asked = self.model_fields_set | sizes | set(self.shown)
        left_out = set(self.aside) | ({"beta"} if self.matrices is not None else set())
        return self.toml_of(asked - left_out)

    def rules(self) -> list[tuple[bool, str]]:
        """What must not be, each with the sentence that says so."""
        return [
            *self.misplaced(),
            *self._space_rules(),
            *self._field_rules(),
            *self._solver_rules(),
            *self._measure_rules(),
            *self._process_rules(),
        ]

    def _space_rules(self) -> list[tuple[bool, str]]:
        given = self.model_fields_set
        return [
            (
                self.space == "sphere" and self.dim < 2,
                "`dim` counts ambient coordinates, so a sphere needs at least 2; the circle is dim 2",
            ),
            (
                "own size" in v.SPACES.choose(self).traits and "dim" in given,
                f"`dim` follows from the options of `space` {self.space}: drop `dim`",
            ),
            (
                not self.from_file
                and "round" in v.LAWS[self.init].traits
                and not (self.space == "sphere" and self.dim <= 3),
                f"`init` {self.init} is a law on the circle or the usual sphere: `space` sphere and `dim` 2 or 3",
            ),
            (
                not self.from_file and "spherical" in v.LAWS[self.init].traits and self.space != "sphere",
                f"`init` {self.init} is a law on spheres: `space` sphere",
            ),
            (
                not self.from_file
                and "own coordinates" in v.LAWS[self.init].traits
                and (self.dim < self.n or self.space not in ("sphere", "euclidean")),
                f"`init` {self.init} gives each token its own coordinate: `space` sphere or euclidean, and `dim` at least `n`",
            ),
            (self.project and not self.from_file, "`project` is for tokens of a file; a law is on its space already"),
        ]

    def _field_rules(self) -> list[tuple[bool, str]]:
        given, drawn = self.model_fields_set, self.has("drawn")
        attending = {"attention", "matrices", "weights", "heads", "mask", "norm", "mlp", "schedule", "frame"} & given
        busy = [name for name in ("mask", "norm", "schedule") if getattr(self, name) not in ("none", "constant")]
        return [
            (
                self.matrices is not None and bool({"beta", "weights", "heads"} & given),
                "`beta`, `weights` and `heads` set what `matrices` also sets: give one of them",
            ),
            (
                self.energy != "none" and bool(attending),
                f"`energy` {self.energy} moves tokens by itself: drop {' and '.join(f'`{name}`' for name in sorted(attending))}",
            ),
            (
                self.heads > 1 and not drawn,
                "`heads` above 1 would all be equal: choose random `weights`, such as gaussian",
            ),
            (
                "radial" in v.NORMS.choose(self).traits and self.space != "euclidean",
                f"`norm` {self.norm!r} lets radii grow: choose `space` euclidean",
            ),
            (
                "draws" in v.SCHEDULES.choose(self).traits and not drawn,
                f"`schedule` {self.schedule!r} draws weights again: choose random `weights`, such as gaussian",
            ),
            (
                "whole" in v.ATTENTIONS.choose(self).traits and self.has("ordered"),
                f"`attention` {self.attention} needs every token to see every other: drop `mask`",
            ),
            (
                self.frame != "fixed"
                and (self.attention != "softmax" or self.heads > 1 or bool(self.mlp) or bool(busy)),
                f"`frame` {self.frame} is for one head of softmax attention alone: drop the rest",
            ),
            (
                self.frame != "fixed" and self.space != "euclidean",
                f"`frame` {self.frame} is for tokens that grow: choose `space` euclidean",
            ),
        ]

    def _solver_rules(self) -> list[tuple[bool, str]]:
        given, fixed = self.model_fields_set, "dt" in v.SOLVERS.choose(self).brings
        return [
            (
                not self.layers and fixed and self.dt is None,
                f"`solver` {self.solver!r} takes fixed steps: give their length with `dt`, such as 0.1",
            ),
            (
                self.has("tokens") and self.noise is not None and self.solver != "euler",
                "`noise` needs fixed Euler steps: `solver` euler and `dt`",
            ),
            (
                "noise_law" in given and self.noise is None,
                "`noise_law` says what noise is: give its temperature with `noise`",
            ),
            (
                bool(self.layers) and bool({"solver", "rtol", "dt", "noise", "frames"} & given),
                "`layers` sets the steps itself, one frame a layer: drop `solver`, `rtol`, `dt`, `noise` and `frames`",
            ),
            (
                self.merge is not None and (self.noise is not None or self.has("ordered") or bool(self.layers)),
                "`merge` needs a continuous flow in which tokens that have met see the same: drop `noise`, `mask` and `layers`",
            ),
        ]

    def _process_rules(self) -> list[tuple[bool, str]]:
        """What belongs together where several processes share a run."""
        given = [getattr(self, name) is not None for name in ("coordinator", "process_id", "num_processes")]
        several = self.processes > 1 or self.coordinator is not None
        return [
            (
                any(given) and not all(given),
                "`coordinator`, `process_id` and `num_processes` go together: give all three in every process",
            ),
            (all(given) and self.processes > 1, "`processes` starts them here and `coordinator` joins them: give one"),
            (
                self.process_id is not None
                and self.num_processes is not None
                and self.process_id >= self.num_processes,
                f"`process_id` counts from 0, so it is below `num_processes`; got {self.process_id} of {self.num_processes}",
            ),
            (
                several and bool(self.layers or self.merge or self.mask != "none" or not self.has("tokens")),
                "`processes` share the tokens of a continuous flow: drop `layers`, `merge`, `mask` and `measure`",
            ),
            (
                several and not self.from_file and self.n % (self.num_processes or self.processes) != 0,
                f"`n` must be a multiple of the {self.num_processes or self.processes} processes; got {self.n}",
            ),
        ]

    def _measure_rules(self) -> list[tuple[bool, str]]:
        """What a measure without tokens must not be asked for, and what the measure itself says."""
        word, given = v.MEASURES.choose(self), self.model_fields_set
        asked = {name: name in given for name in ("n", "tolerance", "engine")}
        asked |= {name: bool(getattr(self, name)) for name in ("project", "layers", "movie")}
        asked |= {name: getattr(self, name) != "none" for name in ("mask", "norm")}
        asked |= {"merge": self.merge is not None, "frame": self.frame != "fixed"}
        needing = [f"`{name}`" for name, is_asked in asked.items() if is_asked]
        limit = "tokens" not in word.traits
        return [
            (
                limit and bool(needing),
                f"`measure` {self.measure} has no tokens, which {' and '.join(needing)} would need: drop that",
            ),
            (
                limit and "picks" in v.ATTENTIONS.choose(self).traits,
                f"`attention` {self.attention} picks a token, so it needs `measure` particles",
            ),
            *word.rules(self),
        ]
