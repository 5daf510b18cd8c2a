"""Every recipe of the contributing guide, tried from outside the package and run from the command line."""

from pathlib import Path

import numpy as np
import pytest

import measureflow as mf
from measureflow import sums
from measureflow.cli import main
from measureflow.runs.catalogue import COMMANDS
from measureflow.words import vocabulary

HEAD = """
import abc
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import measureflow as mf
from measureflow.words import Series, Word
from measureflow.words import vocabulary
"""

SPACE = """
from measureflow.spaces import AbstractSpace


class Cube(AbstractSpace):
    dim: int = eqx.field(static=True)

    def project(self, x):
        return jnp.clip(x, -1.0, 1.0)

    def tangent(self, x, v):
        return jnp.where((jnp.abs(x) >= 1) & (x * v > 0), 0.0, v)

    def exp(self, x, v):
        return self.project(x + v)

    def distance(self, x, y):
        return jnp.linalg.norm(x - y)

    def chord(self, distance):
        return distance

    def sample(self, key):
        return jax.random.uniform(key, (self.dim,), minval=-1.0, maxval=1.0)

    def check(self, points):
        assert np.abs(points).max() <= 1


vocabulary.SPACES.add("cube", Word("a cube", Cube))
"""

MEASURE = """
from measureflow.measures import AbstractCloud
from measureflow.words.measures.tokens import AbstractTokens
from measureflow.words.initial_laws import tokens
from measureflow.words.spaces import space_of


class Charged(AbstractCloud):
    tokens: mf.Particles
    charges: jax.Array

    space = property(lambda self: self.tokens.space)
    points = property(lambda self: self.tokens.points)
    log_weights = property(lambda self: self.tokens.log_weights)
    engine = property(lambda self: self.tokens.engine)


class ChargedTokens(AbstractTokens):
    help = "tokens with charges"
    kind = "measureflow_words_mine:Charged"

    def start(self, config):
        held = tokens(config, "points", "weights")
        return Charged(mf.Particles(held["space"], held["points"]), jnp.arange(float(len(held["points"]))))

    def fixed(self, mu):
        return super().fixed(mu) | {"charges": ("token", np.asarray(mu.charges))}

    def restored(self, facts, arrays):
        plain = mf.Particles(space_of(facts["space"]), arrays["points"], arrays["weights"])
        return Charged(plain, jnp.asarray(arrays["charges"]))


vocabulary.MEASURES.add("charged", ChargedTokens())
"""

FIELD = """
from measureflow.fields import AbstractAttention


class Uniform(AbstractAttention):
    exponential = False
    interaction: jax.Array
    value: jax.Array

    def __call__(self, t, xs, mu):
        return jnp.broadcast_to(mu.expect(lambda y: y) @ self.value.T, xs.shape)


vocabulary.ATTENTIONS.add("uniform", Word("the mean of all tokens", Uniform))
"""

ENERGY = """
from measureflow.energies import AbstractEnergy


class Height(AbstractEnergy):
    def __call__(self, mu):
        return mu.expect(lambda x: x[-1])

    def variation(self, mu, xs):
        return xs[:, -1]


vocabulary.ENERGIES.add("height", Word("the mean height", Height))
"""

NOISE = """
from measureflow.flows import AbstractNoise, Langevin


class Half(AbstractNoise):
    temperature: float

    def method(self, mu, times, solver, key):
        return Langevin(self.temperature / 2).method(mu, times, solver, key)


vocabulary.NOISES.add("half", Word("half as warm as asked", Half))
"""

ENGINE = """
@mf.sums.register
class Borrowed(mf.sums.AbstractEngine):
    exact = True
    batches = False

    def attend(self, covectors, sources, log_weights):
        return mf.sums.Dense().attend(covectors, sources, log_weights)

    def rows(self, row, sources, *queries):
        return jax.vmap(row)(*queries)
"""

DIAGNOSTIC = """
vocabulary.SERIES.add("lowest", Series("lowest", lambda mu: mu.points[:, 0].min(), "lowest coordinate", telling=True))
"""

RISK = """
def one_label():
    heads = mf.training.FullHeads(2, 1, 1)
    tokens = jax.random.normal(jax.random.key(0), (2, 3, 2))
    return mf.training.HeadRisk(tokens, np.zeros((2, 3), int), np.eye(2), heads)


vocabulary.RISKS.add("one-label", Word("one label throughout", one_label))
"""

OPTIMISER = """
from measureflow.fields import AbstractField
from measureflow.words import Option, OptimiserWord


class Signed(mf.training.AbstractTransformation):
    vectors = 2
    field: AbstractField
    span: jax.Array = eqx.field(converter=jnp.asarray)

    def rates(self, g, theta, m):
        return jnp.tanh(m), (g - m) / self.span


span = Option(vocabulary.Positive, 0.1, "time over which gradients are averaged")
vocabulary.OPTIMISERS.add("signed", OptimiserWord("bounded momentum", Signed, {"span": span}))
"""

LOSS = """
from measureflow.words import Option


class PseudoHuber(mf.training.AbstractLoss):
    width: jax.Array = eqx.field(converter=jnp.asarray)

    def __call__(self, z, y):
        return self.width**2 * jnp.sum(jnp.sqrt(1 + ((z - y) / self.width) ** 2) - 1, -1)

    @property
    def smoothness(self):
        return 1.0


width = Option(vocabulary.Positive, 1.0, "errors above it count by their size alone")
vocabulary.LOSSES.add("huber", Word("the distance, smoothed near zero", PseudoHuber, {"width": width}))
"""

FAMILY = """
class AveragingHeads(mf.training.AbstractHeads):
    dim: int = eqx.field(static=True)
    head_dim: int = eqx.field(static=True)

    shapes = property(lambda self: {"output": (self.dim, self.dim)})

    def scores(self, theta, x):
        return jnp.zeros((len(x), len(x)), x.dtype)

    def mix(self, theta, x):
        return self.attention(theta, x) @ x @ self.unfold(theta)["output"]

    def gauge(self, theta):
        return jnp.zeros((0, self.size), theta.dtype)

    def invariants(self, theta):
        return theta


vocabulary.HEAD_FAMILIES.add("averaging", Word("the output, with equal attention to the past", AveragingHeads))
"""

SOLVER = """
from measureflow.flows.solvers import AbstractFixedStep
from measureflow.flows.stepping import RungeKutta, Tableau

MIDPOINT = Tableau(a=((), (0.5,)), b=(0.0, 1.0), c=(0.0, 0.5))


class Midpoint(AbstractFixedStep):
    order = 2
    dt: jax.Array = eqx.field(converter=jnp.asarray)

    def method(self):
        return RungeKutta(MIDPOINT)


vocabulary.SOLVERS.add("midpoint", Word("order 2, by the middle of the step", Midpoint, vocabulary.STEP))
"""

COMMAND = """
from dataclasses import replace

from pydantic import Field, PositiveInt

from measureflow.runs.catalogue import COMMANDS, Entry
from measureflow.runs.command import AbstractCommand
from measureflow.runs.recorder import job_for
from measureflow.words.settings import Settings


class Falling(Settings):
    \"\"\"Tokens that fall at speed one.\"\"\"

    n: PositiveInt = Field(3, description="number of tokens")


class Fall(AbstractCommand):
    name = "fall"

    def schema(self, words):
        return Falling

    def job(self, settings):
        start = mf.Particles(mf.Euclidean(1), np.zeros((settings.n, 1)))
        flow = mf.Flow(mf.GradientFlow(mf.Energy(lambda mu: mu.expect(lambda x: x[0]))), start, [0.0, 1.0, 2.0])
        return replace(job_for(flow), command="fall", settings=settings, title="falling tokens")


COMMANDS["fall"] = Entry("let tokens fall", Fall)
"""

SMALL = ["--n", "6", "--dim", "2", "--time", "0.5", "--frames", "3", "--no-verify"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """An empty folder, and tables as they were when the test is over."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tables = (*vocabulary.TABLES, *vocabulary.TRAINING_TABLES, vocabulary.LAWS, vocabulary.SERIES, vocabulary.RISKS)
    before = [dict(table) for table in tables]
    yield
    for table, words in zip(tables, before, strict=True):
        table.clear()
        table.update(words)
    if "borrowed" in sums.names():
        sums.forget("borrowed")


def run(words, *options, command=("simulate",)):
    Path("mine.py").write_text(HEAD + words)
    assert main([*command, *options, "--use", "mine.py", "--out", "run"]) == 0
    return mf.runs.open("run")


def test_a_space_of_ones_own():
    found = run(SPACE, *SMALL, "--space", "cube", "--beta", "4")
    assert type(found.final.space).__name__ == "Cube"
    assert np.abs(found.data.points).max() <= 1
    assert (Path("run") / "figure.png").is_file()


def test_a_measure_of_ones_own():
    found = run(MEASURE, *SMALL, "--measure", "charged")
    np.testing.assert_array_equal(found.final.charges, np.arange(6.0))
    plain = mf.runs.run("simulate", n=6, dim=2, time=0.5, frames=3, verify=False, out="plain")
    np.testing.assert_array_equal(found.data.points, plain.data.points)


def test_a_field_of_ones_own():
    found = run(FIELD, *SMALL, "--attention", "uniform", "--space", "euclidean", "--rtol", "1e-10")
    mean = found.data.points.values[0].mean(0)
    # x' = m and m' = m, so x(t) = x + (e^t - 1) m.
    np.testing.assert_allclose(found.data.points[-1], found.data.points[0] + (np.exp(0.5) - 1) * mean, atol=1e-9)


def test_an_energy_of_ones_own():
    found = run(ENERGY, *SMALL, "--energy", "height", "--space", "euclidean")
    np.testing.assert_allclose(found.data.points[-1, :, 1], found.data.points[0, :, 1] - 0.5, atol=1e-9)
    np.testing.assert_allclose(found.series["energy"].values, found.data.points[:, :, 1].mean("token"), atol=1e-12)


def test_a_noise_of_ones_own():
    noisy = [*SMALL, "--solver", "euler", "--dt", "0.1"]
    found = run(NOISE, *noisy, "--noise", "0.2", "--noise-law", "half")
    words = {"n": 6, "dim": 2, "time": 0.5, "frames": 3, "verify": False, "solver": "euler", "dt": 0.1, "noise": 0.1}
    plain = mf.runs.run("simulate", **words, out="plain")
    np.testing.assert_array_equal(found.data.points, plain.data.points)


def test_a_solver_of_ones_own():
    one = ["--n", "1", "--dim", "2", "--space", "euclidean", "--time", "1", "--frames", "3"]
    found = run(SOLVER, *one, "--solver", "midpoint", "--dt", "0.25")
    # One token alone follows x' = x, of which a step of order two is 1 + h + h^2/2.
    growth = (1 + 0.25 + 0.25**2 / 2) ** 4
    np.testing.assert_allclose(found.data.points[-1], growth * found.data.points[0], rtol=1e-12)
    # The error estimate by doubled steps is the true error to leading order; the next order is about a step of 0.25 more.
    error = float(np.abs((np.e - growth) * found.points[0]).max())
    assert found.stats["error"] == pytest.approx(error, rel=0.3)


def test_a_command_of_ones_own(capsys):
    exec(HEAD + COMMAND, {})
    try:
        assert main(["fall", "--n", "4", "--out", "run"]) == 0
        found = mf.runs.open("run")
        np.testing.assert_allclose(found.points[-1], -2.0, atol=1e-9)
        assert found.config.n == 4
        assert (Path("run") / "figure.png").is_file()
        assert main(["rerun", "run", "--out", "again"]) == 0
        assert "the same to the bit" in capsys.readouterr().out
        assert main(["fall", "--n", "none", "--out", "other"]) == 2
    finally:
        del COMMANDS["fall"]


def test_an_engine_of_ones_own():
    found = run(ENGINE, *SMALL, "--engine", "borrowed")
    assert found.info["engine"] == "borrowed"
    assert main(["simulate", "--engine", "borowed", "--out", "other"]) == 2


def test_a_diagnostic_of_ones_own(capsys):
    found = run(DIAGNOSTIC, *SMALL)
    np.testing.assert_allclose(found.series["lowest"].values, found.data.points[:, :, 0].min("token"), atol=1e-12)
    assert "lowest coordinate" in capsys.readouterr().out
    assert "lowest coordinate" in [ax.get_ylabel() for ax in found.figure.axes]


def test_a_risk_of_ones_own():
    few = ["--data", "one-label", "--heads", "2", "--time", "0.02", "--frames", "3"]
    found = run(RISK, *few, command=("train", "heads"))
    assert found.series["risk"].values[-1] < found.series["risk"].values[0]


class Broken(BaseException):
    """What ends a run in the middle, as a kill would."""


def test_an_optimiser_of_ones_own_trains_and_resumes(capsys):
    few = ["--data", "f2", "--heads", "3", "--time", "0.04", "--frames", "5", "--frames-per-leg", "2", "--span", "0.05"]
    found = run(OPTIMISER, *few, "--optimiser", "signed", command=("train", "heads"))
    assert found.data.points.shape == (5, 3, 2 * 4)
    assert found.series["risk"].values[-1] < found.series["risk"].values[0]

    def stop(job, state):
        if state.frames >= 3:
            raise Broken

    words = {"data": "f2", "heads": 3, "time": 0.04, "frames": 5, "frames_per_leg": 2, "span": 0.05}
    with pytest.raises(Broken):
        mf.runs.run("train heads", stop, **words, optimiser="signed", use="mine.py", out="broken")
    again = mf.runs.resume("broken")
    np.testing.assert_array_equal(again.data.points, found.data.points)
    capsys.readouterr()
    assert main(["train", "heads", "--use", "mine.py", "--span", "2"]) == 2
    assert "`span` is for `optimiser` signed" in capsys.readouterr().err


def test_a_loss_of_ones_own():
    np.savez("table.npz", inputs=np.arange(16.0).reshape(8, 2), labels=np.arange(8.0) ** 2)
    few = ["--data", "table.npz", "--neurons", "4", "--time", "0.04", "--frames", "3", "--width", "0.5"]
    found = run(LOSS, *few, "--loss", "huber", command=("train", "neurons"))
    assert found.series["risk"].values[-1] < found.series["risk"].values[0]
    assert "loss saved" in dict(found.table.rows)
    assert (Path("run") / "figure.png").is_file()


def test_a_family_of_heads_of_ones_own():
    Path("text.txt").write_text("to be or not to be\n" * 20)
    sizes = ["--dim", "3", "--length", "4", "--windows", "4", "--heads", "3", "--time", "0.02", "--frames", "3"]
    found = run(FAMILY, "--data", "text.txt", *sizes, "--family", "averaging", command=("train", "heads"))
    assert found.data.points.shape == (3, 3, 9)
    assert np.isfinite(found.series["risk"].values).all()


def test_a_file_that_fails_or_repeats_a_word_is_a_sentence(capsys):
    Path("broken.py").write_text("1 / 0")
    assert main(["simulate", "--use", "broken.py"]) == 2
    assert "`use`: 'broken.py' fails: ZeroDivisionError: division by zero." in capsys.readouterr().err
    Path("again.py").write_text(
        "from measureflow.words import Word, vocabulary\nvocabulary.ATTENTIONS.add('softmax', Word('mine'))"
    )
    assert main(["simulate", "--use", "again.py"]) == 2
    assert "`attention` 'softmax' is a word already" in capsys.readouterr().err
