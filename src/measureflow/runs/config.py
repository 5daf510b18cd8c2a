"""The configuration of a simulation: one schema for the command line, TOML files and run folders.

Every field is an option `--name` and a TOML key; its description is the help text. Nothing here needs JAX, so that the
command line can answer `--help` and refuse bad input at once.
"""

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

LAWS = ("uniform", "gaussian", "clusters", "ripples")
FIXED_STEP = ("euler", "heun", "rk4")
FILES = (".npz", ".npy", ".csv", ".txt")

FLAT, ROUND = ("gaussian", "mixture"), ("circle", "sphere")
"""The limits in Euclidean space, and those that are densities on a sphere."""
USUAL: dict[str, dict[str, Any]] = {
    "gaussian": {"space": "euclidean", "dim": 2, "init": "gaussian", "beta": 1.0, "time": 1.0},
    "mixture": {"space": "euclidean", "dim": 2, "init": "clusters", "beta": 1.0, "time": 1.0},
    "circle": {"dim": 2, "init": "ripples", "modes": 256},
    "sphere": {"dim": 3, "init": "ripples", "modes": 32},
}
"""What a measure other than particles takes unless given: flat limits grow fast, and densities need a number of modes."""

Positive = Annotated[FiniteFloat, Field(gt=0)]
Schema = TypeVar("Schema", bound=BaseModel)


class InputError(ValueError):
    """Bad input, with one sentence for each thing that is wrong."""

    def __init__(self, *sentences: str):
        super().__init__("\n".join(sentences))
        self.sentences = sentences


class Simulation(BaseModel):
    """Simulate tokens under attention and keep the result: data, table and picture."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    n: PositiveInt = Field(512, description="number of tokens")
    dim: PositiveInt = Field(3, description="ambient coordinates; the circle is the sphere with dim 2")
    space: Literal["sphere", "euclidean"] = Field("sphere", description="where tokens live")
    measure: Literal["particles", "gaussian", "mixture", "circle", "sphere"] = Field(
        "particles",
        description="what moves: tokens, or their limit as a gaussian or mixture (plane, beta 1, time 1 unless given) "
        "or as a density on the circle or sphere",
    )
    modes: PositiveInt | None = Field(
        None, description="moments of a circle density (256 unless given), or degree of a sphere density (32)"
    )
    closure: bool = Field(False, description="for attention that does not keep Gaussians: the nearest flow that does")
    attention: Literal["softmax", "unnormalised", "l2", "sinkhorn", "sigmoid", "linear", "relu", "hardmax"] = Field(
        "softmax", description="the attention variant"
    )
    beta: FiniteFloat = Field(9.0, description="inverse temperature: scores are beta <x, y>")
    matrices: str | None = Field(None, description="npz file with A, or Q and K, and optionally V, in place of beta")
    weights: Literal["identity", "gaussian", "goe", "wigner"] = Field(
        "identity", description="ensemble of A / beta and V, drawn with the seed"
    )
    heads: PositiveInt = Field(1, description="number of heads, which share the velocity equally; needs random weights")
    mask: Literal["none", "causal"] = Field("none", description="what a token may see: all tokens, or those before it")
    alibi: FiniteFloat | None = Field(
        None, description="penalty on the distance of positions in [0, 1], for the causal mask"
    )
    norm: Literal["none", "post", "pre", "peri", "mix", "ngpt", "sqrt"] = Field(
        "none", description="normalisation scheme; pre, peri and mix let radii grow and need the euclidean space"
    )
    alpha: Positive = Field(1.0, description="step of the ngpt scheme")
    switch: Positive | None = Field(
        None, description="when the mix scheme turns from post to pre; half the time unless given"
    )
    mlp: NonNegativeInt = Field(0, description="hidden units of a random perceptron added to attention")
    schedule: Literal["constant", "resampled", "periodic", "oscillating", "wandering"] = Field(
        "constant",
        description="how weights change in time: drawn anew, in turns, as a cosine, as an Ornstein-Uhlenbeck path",
    )
    period: Positive = Field(1.0, description="time scale of the schedule")
    noise: Positive | None = Field(None, description="temperature of Brownian noise; needs the euler solver")
    layers: NonNegativeInt = Field(
        0, description="run as a residual network of this depth instead of the continuous flow"
    )
    init: str = Field(
        "uniform",
        description=f"initial law ({', '.join(LAWS)}) or a file ({', '.join(FILES)}) of tokens, "
        "of mean and cov, of weights, means and covs, or of a density",
    )
    project: bool = Field(False, description="divide the tokens of a file by their norms")
    time: Positive = Field(20.0, description="final time")
    seed: NonNegativeInt = Field(0, description="seed of the initial law")
    solver: Literal["adaptive", "stiff", "euler", "heun", "rk4"] = Field("adaptive", description="time stepping")
    rtol: Positive | None = Field(None, description="tolerance of the adaptive solvers; 1e-8 unless given")
    dt: Positive | None = Field(None, description="step of the fixed-step solvers")
    merge: Positive | None = Field(
        None, description="tokens that have met within this distance go on as one; for long times"
    )
    frames: int = Field(121, ge=2, description="number of frames to keep")
    frames_per_leg: PositiveInt = Field(11, description="frames computed and saved at once; part of what is computed")
    tolerance: Positive = Field(0.1, description="tokens closer than this, in geodesic distance, share a cluster")
    verify: bool = Field(True, description="run again with longer steps to estimate the error")
    movie: bool = Field(False, description="also write movie.gif")
    out: str | None = Field(None, description="run folder to write; a new one under runs/ unless given")
    force: bool = Field(False, description="replace the run folder if it exists")

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, words: Any) -> Any:
        """What a limit takes unless given; a file brings its own size, and matrices their own scale."""
        if not isinstance(words, dict):
            return words
        measure = str(words.get("measure"))
        from_file = words.get("init", LAWS[0]) not in LAWS
        brought = {"beta"} if words.get("matrices") is not None else set()
        brought |= (
            {"gaussian": {"dim"}, "mixture": {"dim"}, "circle": {"modes"}}.get(measure, set()) if from_file else set()
        )
        return {name: value for name, value in USUAL.get(measure, {}).items() if name not in brought} | words

    @field_validator("init")
    @classmethod
    def _law_or_file(cls, init: str) -> str:
        if init in LAWS or (Path(init).suffix in FILES and Path(init).is_file()):
            return init
        if Path(init).suffix in FILES:
            raise ValueError(f"there is no file {init!r}")
        raise ValueError(
            f"must be one of {', '.join(LAWS)} or a file ending in {', '.join(FILES)}{nearest(init, LAWS)}"
        )

    @field_validator("matrices")
    @classmethod
    def _file(cls, matrices: str | None) -> str | None:
        if matrices is not None and not Path(matrices).is_file():
            raise ValueError(f"there is no file {matrices!r}")
        return matrices

    @model_validator(mode="after")
    def _agree(self) -> "Simulation":
        for broken, sentence in self._rules():
            if broken:
                raise ValueError(sentence)
        return self

    def _rules(self) -> list[tuple[bool, str]]:
        """What must not be, each with the sentence that says so."""
        fixed = self.solver in FIXED_STEP
        radial = self.norm in ("pre", "peri", "mix")
        drawn = self.weights != "identity"
        given = self.model_fields_set
        return [
            (
                self.space == "sphere" and self.dim < 2,
                "`dim` counts ambient coordinates, so a sphere needs at least 2; the circle is dim 2",
            ),
            (
                not self.layers and fixed and self.dt is None,
                f"`solver` {self.solver!r} takes fixed steps: give their length with `dt`, such as 0.1",
            ),
            (
                fixed and self.rtol is not None,
                f"`rtol` is for the adaptive solvers; {self.solver!r} takes its step from `dt`",
            ),
            (
                not fixed and self.dt is not None,
                f"`dt` is for the solvers {', '.join(FIXED_STEP)}; {self.solver!r} takes `rtol`",
            ),
            (
                self.matrices is not None and bool({"beta", "weights", "heads"} & given),
                "`beta`, `weights` and `heads` set what `matrices` also sets: give one of them",
            ),
            (
                self.heads > 1 and not drawn,
                "`heads` above 1 would all be equal: choose random `weights`, such as gaussian",
            ),
            (self.alibi is not None and self.mask != "causal", "`alibi` is a bias of the past: add `mask` causal"),
            (radial and self.space == "sphere", f"`norm` {self.norm!r} lets radii grow: choose `space` euclidean"),
            ("alpha" in given and self.norm != "ngpt", "`alpha` is for `norm` ngpt"),
            ("switch" in given and self.norm != "mix", "`switch` is for `norm` mix"),
            (
                self.schedule in ("resampled", "periodic", "wandering") and not drawn,
                f"`schedule` {self.schedule!r} draws weights again: choose random `weights`, such as gaussian",
            ),
            (
                self.measure == "particles" and self.noise is not None and self.solver != "euler",
                "`noise` needs fixed Euler steps: `solver` euler and `dt`",
            ),
            (
                bool(self.layers) and bool({"solver", "rtol", "dt", "noise", "frames"} & given),
                "`layers` sets the steps itself, one frame a layer: drop `solver`, `rtol`, `dt`, `noise` and `frames`",
            ),
            (
                self.merge is not None and (self.noise is not None or self.mask == "causal" or bool(self.layers)),
                "`merge` needs a continuous flow in which tokens that have met see the same: drop `noise`, `mask` and `layers`",
            ),
            (
                self.attention == "sinkhorn" and self.mask == "causal",
                "`attention` sinkhorn needs every token to see every other: drop `mask`",
            ),
            (
                self.init == "ripples" and (self.space != "sphere" or self.dim > 3),
                "`init` ripples is a law on the circle or the usual sphere: `space` sphere and `dim` 2 or 3",
            ),
            *self._limit_rules(),
        ]

    def _limit_rules(self) -> list[tuple[bool, str]]:
        """What a limit must not be asked for, and what only limits have."""
        given, kind = self.model_fields_set, f"`measure` {self.measure}"
        limit, flat, density = self.measure != "particles", self.measure in FLAT, self.measure in ROUND
        tokens = {
            "n": "n" in given,
            "project": self.project,
            "tolerance": "tolerance" in given,
            "mask": self.mask != "none",
            "norm": self.norm != "none",
            "layers": bool(self.layers),
            "merge": self.merge is not None,
            "movie": self.movie,
        }
        asked = [f"`{name}`" for name, is_asked in tokens.items() if is_asked]
        return [
            (limit and bool(asked), f"{kind} has no tokens, which {' and '.join(asked)} would need: drop that"),
            (
                limit and self.attention == "hardmax",
                "`attention` hardmax picks a token, so it needs `measure` particles",
            ),
            (flat and self.space != "euclidean", f"{kind} lives in euclidean space: drop `space`"),
            (density and self.space != "sphere", f"{kind} is a density on a sphere: drop `space`"),
            (self.measure == "circle" and self.dim != 2, f"{kind} has `dim` 2: drop `dim`, or choose `measure` sphere"),
            (self.measure == "sphere" and self.dim != 3, f"{kind} has `dim` 3: drop `dim`, or choose `measure` circle"),
            (
                flat and self.init in ("uniform", "ripples"),
                f"{kind} cannot have the `init` {self.init!r}: take gaussian",
            ),
            (
                self.measure == "gaussian" and self.init == "clusters",
                f"{kind} has no clusters: choose `measure` mixture",
            ),
            (not density and self.modes is not None, "`modes` is for `measure` circle and sphere"),
            (
                self.measure == "circle" and self.init not in LAWS and self.modes is not None,
                "`modes` is half the number of values in the file of `init`: drop `modes`",
            ),
            (self.measure != "gaussian" and self.closure, "`closure` is for `measure` gaussian"),
        ]

    @property
    def frame_count(self) -> int:
        """How many frames a run keeps: those asked for, or one a layer and the start."""
        return self.layers + 1 if self.layers else self.frames

    def to_toml(self) -> str:
        """The configuration as a TOML text that `--config` reads; where to write is not part of it."""
        sizes = {"n", "dim"} if self.init in LAWS and self.measure == "particles" else set()
        asked = self.model_fields_set | sizes | {"beta", "time", "seed"}
        values = {name: value for name, value in self.model_dump(exclude_none=True).items() if name in asked}
        for name in ("out", "force", *(("beta",) if self.matrices is not None else ())):
            values.pop(name, None)
        return as_toml(values)


def read(schema: type[Schema], words: dict[str, Any], file: str | None = None) -> Schema:
    """A configuration from a TOML file and words that override it; all errors at once."""
    try:
        return schema.model_validate((_load(file) if file is not None else {}) | words)
    except ValidationError as error:
        raise InputError(*(_sentence(problem, schema) for problem in error.errors(include_url=False))) from None


def nearest(word: Any, known: tuple[str, ...] | list[str]) -> str:
    """A suggestion in words, if one of the known words is close."""
    close = difflib.get_close_matches(str(word), known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _load(file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(file).read_text())
    except OSError as error:
        raise InputError(f"`config`: cannot read {file!r}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"`config`: {file!r} is not a TOML file: {error}.") from None


def _sentence(problem: Any, schema: type[BaseModel]) -> str:
    name = ".".join(map(str, problem["loc"]))
    got = problem["input"]
    match problem["type"]:
        case "extra_forbidden":
            return f"`{name}` is not an option{nearest(name, list(schema.model_fields))}."
        case "literal_error":
            known = get_args(schema.model_fields[name].annotation)
            return f"`{name}` must be one of {', '.join(known)}; got {got!r}{nearest(got, known)}."
        case "value_error":
            text = str(problem["ctx"]["error"])
            return f"`{name}`: {text}." if name else f"{text[0].upper()}{text[1:]}."
        case _:
            return f"`{name}`: {problem['msg'][0].lower()}{problem['msg'][1:]}; got {got!r}."


def as_toml(values: dict[str, Any]) -> str:
    """Names and values as lines of a TOML file."""
    return "".join(f"{name} = {_word(value)}\n" for name, value in values.items())


def _word(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case _:
            return repr(value)
