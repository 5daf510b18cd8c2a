"""The tables of words: what a configuration may name. A new object is its class and one line here.

Measures have a file each, in `words/measures`; everything else is a line. `use` reads words of one's own from a Python file,
which adds them with `vocabulary.ATTENTIONS.add("mine", Word("what it is", MyAttention))`, and so on.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Annotated

from pydantic import Field, FiniteFloat, PositiveInt

from measureflow.words import measures
from measureflow.words.optimisers import OptimiserWord
from measureflow.words.table import Option, Table, Word

Positive = Annotated[FiniteFloat, Field(gt=0)]

ATTENTIONS = Table(
    "attention",
    {
        "softmax": Word(
            "exponential scores, normalised", "measureflow.fields:SoftmaxAttention", traits=("averages", "climbs")
        ),
        "unnormalised": Word(
            "exponential scores as they are", "measureflow.fields:UnnormalisedAttention", traits=("climbs",)
        ),
        "l2": Word(
            "scores by distance",
            "measureflow.fields:L2Attention.bilinear",
            split="measureflow.fields:L2Attention",
            traits=("averages", "reweighs"),
        ),
        "sinkhorn": Word(
            "doubly stochastic", "measureflow.fields:SinkhornAttention", traits=("averages", "whole", "reweighs")
        ),
        "sigmoid": Word("sigmoid of the score", "measureflow.fields:SigmoidAttention"),
        "linear": Word("the score itself", "measureflow.fields:LinearAttention"),
        "relu": Word("its positive part", "measureflow.fields:ReLUAttention"),
        "hardmax": Word(
            "the token of largest score", "measureflow.fields:HardmaxAttention", traits=("averages", "picks")
        ),
    },
)
"""Made from `A` and `V`, or by `split` from `Q`, `K` and `V`. `picks`: picks a token; `whole`: all tokens must see all;
`averages`: values are averaged, so tokens grow like `e^{tV}` at most; `climbs`: raises the interaction energy; `reweighs`: by a
quadratic potential, which a Gaussian finds from all pairs of directions."""

SPACES = Table(
    "space",
    {
        "sphere": Word("the unit sphere", "measureflow.spaces:Sphere"),
        "euclidean": Word("flat space", "measureflow.spaces:Euclidean"),
        "ball": Word("a ball", "measureflow.spaces:Ball", {"radius": Option(Positive, 1.0, "radius of the ball")}),
        "product": Word(
            "spaces side by side",
            "measureflow.words.initial_laws:product",
            {"factors": Option(str, "sphere:2 euclidean:1", "spaces of a product with their dim (and radius)")},
            traits=("own size",),
        ),
    },
)
"""Made from `dim`. `own size`: it follows from the options of the word."""

ENSEMBLES = Table(
    "weights",
    {
        "identity": Word("the identity"),
        "gaussian": Word("independent entries", "measureflow.fields.ensembles:gaussian", traits=("drawn",)),
        "goe": Word("orthogonal ensemble", "measureflow.fields.ensembles:goe", traits=("drawn",)),
        "wigner": Word("symmetric signs", "measureflow.fields.ensembles:wigner", traits=("drawn",)),
    },
)
"""Made from a key and `dim`."""

MASKS = Table(
    "mask",
    {
        "none": Word("all tokens"),
        "causal": Word(
            "those before it",
            "measureflow.words.fields:causal",
            {
                "alibi": Option(
                    FiniteFloat | None, None, "penalty on the distance of positions in [0, 1], for the causal mask"
                )
            },
            traits=("ordered",),
        ),
    },
)
"""Made from the field that is masked. `ordered`: each token sees its own past."""

NORMS = Table(
    "norm",
    {
        "none": Word("none"),
        "post": Word("after the residual", "measureflow.fields:PostNorm"),
        "pre": Word("before attention", "measureflow.fields:PreNorm", traits=("radial",)),
        "peri": Word("before and after", "measureflow.fields:PeriNorm", traits=("radial",)),
        "mix": Word(
            "post, then pre",
            "measureflow.words.fields:mix",
            {
                "switch": Option(
                    Positive | None, None, "when the mix scheme turns from post to pre; half the time unless given"
                )
            },
            takes=("time",),
            traits=("radial",),
        ),
        "ngpt": Word(
            "normalised transformer",
            "measureflow.fields:NGPT",
            {"alpha": Option(Positive, 1.0, "step of the ngpt scheme")},
        ),
        "sqrt": Word("slowed by the root of depth", "measureflow.fields:SqrtDepth"),
    },
)
"""`radial`: lets radii grow, so tokens live in flat space and are seen by their directions."""

PERIOD = {"period": Option(Positive, 1.0, "time scale of the schedule")}
SCHEDULES = Table(
    "schedule",
    {
        "constant": Word("never", "measureflow.words.fields:constant"),
        "resampled": Word("drawn anew", "measureflow.words.fields:resampled", PERIOD, ("time",), traits=("draws",)),
        "periodic": Word("in turns", "measureflow.words.fields:periodic", PERIOD, ("time",), traits=("draws",)),
        "oscillating": Word("as a cosine", "measureflow.words.fields:oscillating", PERIOD),
        "wandering": Word(
            "as an Ornstein-Uhlenbeck path",
            "measureflow.words.fields:wandering",
            PERIOD,
            ("time", "seed"),
            traits=("draws",),
        ),
    },
)
"""Made from the heads of a turn and what makes a field of them. `draws`: only random weights can be drawn again."""

FRAMES = Table(
    "frame",
    {
        "fixed": Word("tokens as they are"),
        "rescaled": Word("z = exp(-tV) x, which stays bounded", "measureflow.fields:Rescaled", traits=("flat",)),
    },
)
"""Made from an attention. `flat`: only tokens in flat space can be rescaled."""

ENERGIES = Table(
    "energy",
    {
        "none": Word("attention moves tokens"),
        "interaction": Word(
            "interaction at beta, so tokens flee each other", "measureflow.energies:InteractionEnergy", takes=("beta",)
        ),
    },
)
"""Energies that tokens descend instead of following attention."""

RISKS = Table(
    "data",
    {
        "f1": Word("the first fixture of the theory", "measureflow.training.fixtures:f1"),
        "f2": Word("the second fixture", "measureflow.training.fixtures:f2"),
    },
)
"""Risks of heads that are trained; `data` also takes a text file."""

TABLES_OF_DATA = Table(
    "data",
    {
        "digits": Word("handwritten digits of 8 x 8 pixels, ten classes", "sklearn.datasets:load_digits"),
        "iris": Word("three kinds of iris", "sklearn.datasets:load_iris"),
        "wine": Word("three kinds of wine", "sklearn.datasets:load_wine"),
        "breast-cancer": Word("tumours, benign or not", "sklearn.datasets:load_breast_cancer"),
        "diabetes": Word("how diabetes progresses, a number", "sklearn.datasets:load_diabetes"),
    },
)
"""Data for neurons that come with scikit-learn; `data` also takes a CSV or npz file."""

ACTIVATIONS = Table(
    "activation",
    {
        "relu": Word("the positive part", "jax.nn:relu", traits=("kinked",)),
        "tanh": Word("the hyperbolic tangent", "jax.numpy:tanh"),
        "sigmoid": Word("between 0 and 1", "jax.nn:sigmoid"),
        "gelu": Word("z times the chance of a normal number below z", "measureflow.training.activations:GELU"),
        "leaky": Word("a leaky positive part", "measureflow.training.activations:LeakyReLU", traits=("kinked",)),
        "softplus": Word("a smooth positive part", "jax.nn:softplus"),
        "erf": Word("the error function", "jax.scipy.special:erf"),
        "sin": Word("the sine", "jax.numpy:sin"),
        "cos": Word("the cosine", "jax.numpy:cos"),
    },
)
"""What neurons do with a number. `kinked`: its slope jumps."""

HEAD_FAMILIES = Table(
    "family",
    {
        "full": Word("queries, keys, values and outputs", "measureflow.training:FullHeads.sized"),
        "value": Word("values and outputs, with scores <x, y>", "measureflow.training:ValueHeads.sized"),
        "score": Word("all entries of the scores, with the tokens as values", "measureflow.training:ScoreHeads.sized"),
    },
)
"""What is trained of a head. Made from the number of coordinates of a token and the size of queries, keys and values."""

LOSSES = Table(
    "loss",
    {
        "auto": Word("cross-entropy for classes and square for numbers"),
        "square": Word("the squared distance to numbers", "measureflow.training:Square"),
        "logistic": Word("that of two classes by the sign of one number", "measureflow.training:Logistic"),
        "cross-entropy": Word("that of classes by one number for each", "measureflow.training:CrossEntropy"),
    },
)
"""Losses of neurons. `kinked`: the slope of the loss jumps."""

PROFILES = Table(
    "profile",
    {
        "constant": Word("1", "measureflow.training:Constant", traits=("steady",)),
        "inverse": Word("1 / (1 + t/2)", "measureflow.training:InverseTime"),
    },
)
"""How the learning rate changes over time. `steady`: it does not."""

OPTIMISERS = Table(
    "optimiser",
    {
        "flow": OptimiserWord("gradient flow", solver=None),
        "descent": OptimiserWord("descent on all data"),
        "sgd": OptimiserWord(
            "descent on samples", brings={"batch": Option(PositiveInt, 1, "data drawn at each step, shared by all")}
        ),
        "momentum": OptimiserWord(
            "the heavy ball",
            "measureflow.training:HeavyBall",
            {"friction": Option(Positive, 1.0, "friction of momentum")},
        ),
        "adam": OptimiserWord(
            "Adam",
            "measureflow.training:Adam.over",
            {"memory": Option(Positive, 0.1, "time over which Adam averages gradients; ten times it for squares")},
        ),
        "langevin": OptimiserWord(
            "descent with noise",
            brings={"beta": Option(Positive, 100.0, "inverse temperature of langevin")},
            noise=Word("thermal noise", "measureflow.training:langevin", takes=("beta",)),
        ),
    },
)
"""How particles are trained. Made from the descent of their energy."""

TOLERANCE = {
    "rtol": Option(Positive | None, None, "tolerance of the adaptive solvers; 1e-8 unless given"),
    "most_steps": Option(PositiveInt, 100_000, "steps between two frames after which a run is given up"),
}
STEP = {"dt": Option(Positive | None, None, "step of the fixed-step solvers")}
SOLVERS = Table(
    "solver",
    {
        "adaptive": Word("order 5, adaptive", "measureflow.flows:Adaptive", TOLERANCE),
        "stiff": Word("implicit, order 5, adaptive", "measureflow.flows:Stiff", TOLERANCE),
        "euler": Word("order 1", "measureflow.flows:Euler", STEP),
        "heun": Word("order 2", "measureflow.flows:Heun", STEP),
        "rk4": Word("order 4", "measureflow.flows:RK4", STEP),
    },
)

NOISES = Table("noise_law", {"langevin": Word("Brownian motion inside the space", "measureflow.flows:Langevin")})
"""Made from a temperature."""

LAWS = Table(
    "init",
    {
        "uniform": Word(
            "the reference law of the space; a cube in flat space", "measureflow.words.initial_laws:Uniform"
        ),
        "gaussian": Word("a standard normal; one blob on a sphere", "measureflow.words.initial_laws:Normal"),
        "clusters": Word("equal blobs around drawn centres", "measureflow.words.initial_laws:Blobs"),
        "ripples": Word(
            "nearly uniform on the circle or sphere", "measureflow.words.initial_laws:Ripples", traits=("round",)
        ),
        "tilted": Word(
            "denser at one pole of a sphere", "measureflow.words.initial_laws:Tilted", traits=("spherical",)
        ),
        "equiangular": Word(
            "unit vectors with the overlap 1/2, at least as many coordinates as tokens",
            "measureflow.words.initial_laws:Equiangular",
            traits=("own coordinates",),
        ),
    },
)
"""`round`: a law on the circle or the usual sphere alone; `spherical`: on spheres; `own coordinates`: each token needs one."""

MEASURES = Table("measure", measures.found())
SERIES = Table("series", {})
"""Diagnostics of one's own, which every run watches where they make sense: a `Series` by its name."""

WATCHES = Table(
    "series",
    {
        "met": Word(
            "the share of pairs of tokens with an overlap above 0.999", "measureflow.words.measures.tokens:met"
        ),
        "overlap": Word("the mean overlap of two tokens", "measureflow.words.measures.tokens:overlap"),
    },
)
"""What a run watches beside if it is asked to: each makes a `Series`."""

TABLES = (ATTENTIONS, SPACES, MEASURES, ENSEMBLES, MASKS, NORMS, SCHEDULES, FRAMES, ENERGIES, SOLVERS, NOISES)
"""The tables of simulations whose options take one of their words; `init` also takes a file."""

TRAINING_TABLES = (OPTIMISERS, PROFILES, HEAD_FAMILIES, LOSSES, ACTIVATIONS)
"""The tables of training whose options take one of their words; `data` also takes a file."""


def source(file: str) -> bytes:
    """What a Python file that adds words holds."""
    if not Path(file).is_file() or Path(file).suffix != ".py":
        raise ValueError(f"`use` needs a Python file that adds words; there is no {file!r}")
    return Path(file).read_bytes()


def is_used(file: str) -> bool:
    """Whether a file has added its words to this process."""
    path = Path(file).resolve()
    module = sys.modules.get(_name(path))
    return module is not None and module.__file__ == str(path)


def use(file: str, held: bytes | None = None) -> None:
    """Run a Python file that adds words of its own, or what it `held`; once, however often it is asked for."""
    if is_used(file):
        return
    held, path = source(file) if held is None else held, Path(file).resolve()
    spec = importlib.util.spec_from_file_location(_name(path), path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        exec(compile(held, path, "exec"), module.__dict__)  # an import could take compiled code from beside the file
    except Exception as error:
        del sys.modules[spec.name]
        raise ValueError(f"`use`: {file!r} fails: {type(error).__name__}: {error}") from error


def _name(path: Path) -> str:
    return f"measureflow_words_{path.stem}"
