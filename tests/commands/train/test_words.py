"""Every word of training makes what it names, and words of one's own train as those of the package do."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import training
from measureflow.commands.train.data import of_heads, of_neurons
from measureflow.commands.train.job import built
from measureflow.fields import AbstractField
from measureflow.runs.command import command
from measureflow.words import InputError, OptimiserWord, Option, Word, vocabulary

LABELS = {"square": np.arange(8.0) / 3, "logistic": np.arange(8) % 2, "cross-entropy": np.arange(8) % 3}
VECTORS = {"momentum": 2, "adam": 3}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """An empty folder with a text and a table, and tables of words as they were when the test is over."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("to be or not to be\n" * 20)
    before = [dict(table) for table in vocabulary.TRAINING_TABLES]
    yield
    for table, words in zip(vocabulary.TRAINING_TABLES, before, strict=True):
        table.clear()
        table.update(words)


def heads(**words):
    """The problem and the flow of a few heads on the second fixture for one step."""
    config = command("train heads").settings({"data": "f2", "heads": 2, "time": 0.01, "frames": 2} | words)
    return built(config, of_heads(config))


@pytest.mark.parametrize("optimiser", vocabulary.OPTIMISERS)
def test_every_optimiser_moves_particles_with_what_it_remembers_of_them(optimiser):
    problem, flow = heads(optimiser=optimiser)
    vectors = VECTORS.get(optimiser, 1)
    assert problem.optimiser.vectors == vectors
    final = flow.run().final
    assert final.points.shape == (2, 4 * vectors)
    assert np.isfinite(final.points).all()
    assert (np.asarray(final.points) != np.asarray(flow.start.points)).any()
    assert problem.particles(final).points.shape == (2, 4)


@pytest.mark.parametrize("optimiser", [name for name in vocabulary.OPTIMISERS if name != "adam"])
def test_optimisers_with_a_known_limit_refuse_longer_steps(optimiser):
    problem, flow = heads(optimiser=optimiser)
    limit = problem.optimiser.step_limit(flow.start)
    assert 0 < limit < np.inf
    with pytest.raises(ValueError, match="is beyond the stability limit"):
        problem.optimiser.check_step(flow.start, 1.01 * limit)


@pytest.mark.parametrize("loss", LABELS)
def test_every_loss_says_what_it_needs_of_labels(loss):
    np.savez("table.npz", inputs=np.arange(16.0).reshape(8, 2), labels=LABELS[loss])
    found = of_neurons(command("train neurons").settings({"data": "table.npz", "loss": loss, "held_out": 0.0}))
    assert type(found.risk.criterion) is getattr(training, {"cross-entropy": "CrossEntropy"}.get(loss, loss.title()))
    assert found.risk.criterion.standardised == (loss == "square")
    config = command("train neurons").settings({"data": "table.npz", "neurons": 3, "loss": loss, "frames": 2})
    problem, _ = built(config, found)
    assert np.isfinite(problem.energy(problem.risk.family.gaussian(3, key=0)))


@pytest.mark.parametrize(("family", "size"), {"full": 4 * 3 * 2, "value": 2 * 3 * 2, "score": 9}.items())
def test_every_family_trains_on_text(family, size):
    words = {"data": "text.txt", "family": family, "dim": 3, "head_dim": 2, "length": 4, "windows": 2}
    problem, flow = heads(**words)
    assert problem.risk.family.size == size
    assert np.isfinite(flow.run().final.points).all()


def test_options_of_words_are_refused_with_words_that_do_not_bring_them():
    with pytest.raises(InputError, match="`friction` is for `optimiser` momentum"):
        command("train heads").settings({"friction": 2.0})
    with pytest.raises(InputError, match="`batch` is for `optimiser` sgd"):
        command("train neurons").settings({"optimiser": "adam", "batch": 8})
    with pytest.raises(
        InputError, match="`step` is for `optimiser` descent and sgd and momentum and adam and langevin"
    ):
        command("train heads").settings({"optimiser": "flow", "step": 0.1})
    with pytest.raises(InputError, match="`family` is for text"):
        command("train heads").settings({"family": "score"})
    with pytest.raises(InputError, match=r"did you mean 'cross-entropy'"):
        command("train neurons").settings({"loss": "crossentropy"})


class Slowed(training.AbstractTransformation):
    """A descent whose speed is bounded, for one vector a particle."""

    field: AbstractField
    top: jax.Array = eqx.field(converter=jnp.asarray)

    def rates(self, g, *vectors):
        return (g * jnp.minimum(1.0, self.top / jnp.linalg.norm(g, axis=-1, keepdims=True)),)


def test_an_optimiser_of_ones_own_is_a_class_and_a_line_and_may_use_samples():
    top = Option(vocabulary.Positive, 1.0, "greatest speed")
    vocabulary.OPTIMISERS.add("slowed", OptimiserWord("descent of bounded speed", Slowed, {"top": top}))
    batch = {"batch": Option(int, 2, "data drawn at each step")}
    vocabulary.OPTIMISERS.add("sampled", OptimiserWord("the same on samples", Slowed, {"top": top, **batch}))
    for optimiser in ("slowed", "sampled"):
        problem, flow = heads(optimiser=optimiser, top=0.01)
        moved = np.linalg.norm(np.asarray(flow.run().final.points - flow.start.points), axis=-1)
        np.testing.assert_allclose(moved, 0.01 * 0.01, rtol=1e-9)  # one step at the greatest speed
        assert problem.optimiser.descent.energy is problem.energy
    assert isinstance(flow.field.field, training.StochasticDescent)


class Smoothed(training.AbstractLoss):
    """The distance, smoothed near zero."""

    width: jax.Array = eqx.field(converter=jnp.asarray)

    def __call__(self, z, y):
        return self.width**2 * jnp.sum(jnp.sqrt(1 + ((z - y) / self.width) ** 2) - 1, -1)

    @property
    def smoothness(self):
        return 1.0


def test_a_loss_of_ones_own_needs_its_function_and_its_smoothness():
    width = Option(vocabulary.Positive, 1.0, "where the distance is smoothed")
    vocabulary.LOSSES.add("smoothed", Word("the smoothed distance", Smoothed, {"width": width}))
    np.savez("table.npz", inputs=np.arange(16.0).reshape(8, 2), labels=np.arange(8.0) / 3)
    words = {"data": "table.npz", "loss": "smoothed", "width": 0.5, "held_out": 0.0, "standardise": False}
    found = of_neurons(command("train neurons").settings(words))
    loss, y = found.risk.criterion, np.asarray(found.risk.targets)
    assert float(loss.width) == 0.5
    z = jnp.zeros_like(found.risk.targets)
    slope = -(0.5**2) * (y / 0.5**2) / np.sqrt(1 + (y / 0.5) ** 2)
    np.testing.assert_allclose(loss.residual(z, found.risk.targets), slope, atol=1e-12)
    np.testing.assert_allclose(loss.curved(z, found.risk.targets, z + 1), (1 + (y / 0.5) ** 2) ** -1.5, atol=1e-12)
    assert float(loss.judged(z, found.risk.targets, found.risk.shares)) == pytest.approx(0)
    # The best constant is better than every fixed one.
    others = [float(np.mean(loss(z + c, found.risk.targets))) for c in (0.5, 1.0, 1.5)]
    assert found.risk.baselines().unigram <= min(others) + 1e-9
    run = mf.runs.run("train neurons", **words, neurons=3, time=0.02, frames=3, out="run")
    assert "loss saved" in dict(run.table.rows)
