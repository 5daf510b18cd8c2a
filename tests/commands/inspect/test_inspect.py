"""`measureflow inspect` on small checkpoints of real formats: what it finds, stores, shows, resumes and refuses."""

import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow import cli, models
from measureflow.commands.inspect import analysis
from measureflow.commands.inspect.findings import findings
from measureflow.models import lipschitz, token_geometry
from measureflow.models.lipschitz import lengths_of
from measureflow.models.quantities import DIMENSIONS, KINDS, QUANTITIES
from measureflow.models.windows import text_windows
from measureflow.runs.command import command
from measureflow.runs.executor import Interrupted, perform
from measureflow.runs.invocation import resume
from measureflow.runs.reader import open as open_run
from measureflow.runs.report import figure, save, table
from measureflow.words.settings import InputError

TEXT = "a measure in motion is what tokens are, and attention moves them; " * 8
WINDOWS, LENGTH = 3, 12


@pytest.fixture(scope="module")
def place(made, tmp_path_factory):
    """A causal model of two layers with a tokenizer of letters, and a text."""
    folder = made.alphabet(made.write(tmp_path_factory.mktemp("models") / "gpt2", *made.gpt2()))
    (folder / "text.txt").write_text(TEXT)
    return folder


def asked(place, **words):
    words = dict(windows=WINDOWS, length=LENGTH, layers=[1]) | words
    return command("inspect").settings({"model": [str(place)], "text": str(place / "text.txt")} | words)


@pytest.fixture(scope="module")
def done(place, tmp_path_factory):
    return perform(command("inspect").job(asked(place)), tmp_path_factory.mktemp("runs") / "one")


def windows_of(place, model):
    return text_windows(model, str(place), TEXT, WINDOWS, LENGTH, 16, np.random.default_rng(0))


def test_what_is_stored_is_what_the_model_does_to_the_text(place, done):
    model = models.load(place)
    windows, data = windows_of(place, model), done.data
    assert dict(data.sizes) | {"window": WINDOWS, "place": LENGTH, "time": model.depth + 1} == dict(data.sizes)
    for w, ids in enumerate(windows.ids):
        path = model.run(ids)
        for k in range(model.depth + 1):
            kept = ~data.sink.values[k, w].astype(bool)
            rows = np.asarray(path.at(k).points, float)[kept]
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            mean = (np.sum(rows @ rows.T) - len(rows)) / len(rows) / (len(rows) - 1)
            np.testing.assert_allclose(data.overlap.values[k, 0, w], mean, rtol=2e-4)  # in float32
    at = model.run(windows.ids[2]).at(1).points
    slope = lipschitz.slope(model.attention(1), model.seen(1, at)).value
    np.testing.assert_allclose(data.slope.values[1, 0, 2], slope, rtol=1e-3)
    # All tokens, at their own places, are the text itself.
    np.testing.assert_allclose(data.slope_growing.values[1, :, -1], data.slope.values[1, 0], rtol=1e-3)
    np.testing.assert_allclose(data.slope_placed.values[1, :, -1], data.slope.values[1, 0], rtol=1e-3)
    # The head that can be tempted most is one map, on the text as on its adversarial cloud.
    head = lipschitz.bilinear_head(model.attention(1), models.adversarial_cloud(model.attention(1)).head)
    same = [lipschitz.slope(head, model.seen(1, model.run(ids).at(1).points)).value for ids in windows.ids]
    np.testing.assert_allclose(data.slope_of_worst_head.values[1, :, -1], same, rtol=1e-3)
    assert np.isnan(data.slope.values[0]).all()  # not among the layers asked for
    assert np.isnan(data.entropy.values[-1]).all()  # behind the last layer there is no attention
    assert np.isfinite(data.entropy.values[:-1]).all()


def test_chance_is_its_own_flow(place, done):
    model = models.load(place)
    windows, data = windows_of(place, model), done.data
    double = models.with_random_weights(model, jax.random.key(0))
    for kind, (one, start) in {
        "shuffled": (model, windows.starts[1, 0]),
        "random tokens": (model, windows.starts[2, 0]),
        "random weights": (double, windows.starts[0, 0]),
    }.items():
        points = one.run(one.particles(start)).final.points[None]
        look = token_geometry.token_statistics(
            points, ~token_geometry.sinks(points, None), jnp.asarray(1.0, jnp.float32)
        )
        found = data.effective_rank.values[-1, KINDS.index(kind), 0]
        np.testing.assert_allclose(found, look.rank[0], rtol=2e-4, err_msg=kind)


def test_the_model_proves_itself_and_predicts(place, done):
    stats, model = done.stats, models.load(place)
    assert max(stats["proof_heads"], stats["proof_stack"]) < 2e-6
    ids = windows_of(place, model).ids
    logits = np.asarray(model.logits(ids[0]), float)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    by_hand = -np.log(p[np.arange(LENGTH - 1), ids[0, 1:]]).mean()
    np.testing.assert_allclose(model.loss(ids[0]), by_hand, rtol=1e-4)
    np.testing.assert_allclose(stats["loss"], np.mean([model.loss(row) for row in ids]), rtol=1e-5)
    assert len(stats["discarded"]) == model.depth
    assert 0 < stats["atoms"] <= model.depth * model.heads


def test_tables_pictures_and_page_come_from_the_folder_alone(done):
    found = open_run(done.path)
    told = dict(table(found).rows)
    for word in ("mean overlap", "is itself", "next token", "effective β", "R²γ", "growth with n", "different heads"):
        assert word in told
    assert re.fullmatch(r"[\d.]+ \[[\d.]+, [\d.]+\]; shuffled .*, random weights [\d.]+", told["overlap, last layer"])
    assert {"consensus", "good triples", "upper bound of slopes", "collapse"} <= set(told)
    written = save(found)
    page = written["report"].read_text()
    assert "http" not in page
    assert page.count("data:image/png;base64,") == 4
    assert "What theory says" in page
    titles = [ax.get_title() for ax in figure(found).axes]
    assert "one layer for ever" in titles


def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(place, done, tmp_path):
    def stop(job, state):
        if state.frames == 2:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        perform(command("inspect").job(asked(place)), tmp_path / "two", watch=stop)
    half = open_run(tmp_path / "two")
    assert half.frames == 2
    assert "goes on" in half.outcome
    assert "mean overlap" in dict(table(half).rows)
    save(half)
    whole = resume(tmp_path / "two")
    assert whole.finished
    for name in done.data.variables:
        np.testing.assert_array_equal(whole.data[name].values, done.data[name].values, err_msg=str(name))


def test_intervals_are_those_of_windows():
    values = np.random.default_rng(0).normal(3.0, 1.0, 400)
    found = analysis.interval(values)
    assert found.low < values.mean() < found.high
    # Half a width of 1.96 standard errors, known from 1000 resamples within a tenth.
    np.testing.assert_allclose(found.high - found.low, 2 * 1.96 * values.std() / 20, rtol=0.1)
    assert analysis.interval(np.full(5, 2.0)) == (2.0, 2.0, 2.0)


def test_exponents_are_fitted_window_by_window(done):
    found = analysis.Inspected(done)
    lengths, values = lengths_of(LENGTH), found["slope_growing"][1]
    assert lengths.tolist() == [8, 12]
    slopes = np.log(values[:, 1] / values[:, 0]) / np.log(12 / 8)
    np.testing.assert_allclose(found.exponents("slope_growing")[0], slopes, rtol=1e-6)
    assert lengths_of(128).tolist() == [8, 16, 32, 64, 128]


def test_verdicts_say_yes_where_theory_holds(done):
    found = {one.name: one for one in findings(analysis.Inspected(done))}
    assert found["upper bound of slopes"].seen.startswith("yes")
    assert found["lower bound of slopes"].seen.startswith("yes")
    assert found["consensus"].holds == "no"  # values are not the identity
    assert found["good triples"].seen.startswith("not decidable")


class Imagined:
    """A model that is what theory speaks of, or not."""

    depth, layers, chosen = 2, np.arange(2), np.arange(0)
    run = SimpleNamespace(data=SimpleNamespace(sizes={"place": 100}))

    def __init__(self, alike, margin, overlap, symmetric, energy, between=0.5):
        one = np.ones((2, 3))
        self.arrays = {
            "like_identity": alike * one, "hemisphere": np.full((3, 2), margin), "overlap": np.full((3, 4, 2), overlap),
            "symmetric": symmetric * one, "aligned": one, "lead": one, "lead_score": one, "entropy": 0.5 * np.ones((3, 4, 2, 3)),
        }  # fmt: skip
        self.arrays |= {"beta": 10.0 * np.ones((3, 4, 2, 3)), "between": np.full((3, 2), between)}
        self.regrouped = np.zeros((2, 2)), np.full((2, 2), 1 - overlap)
        self.energy_rises = np.diff(np.broadcast_to(np.asarray(energy)[:, None], (3, 2)), axis=0) > 0
        self.sharpness = np.array([[1.0, 2.0, 3.0]] * 2), np.array([1.5, 1.5])

    def __getitem__(self, name):
        return self.arrays[name]


def test_verdicts_follow_their_numbers():
    good = {one.name: one for one in findings(Imagined(1.0, 0.3, 0.999, 1.0, [1, 2, 3]))}
    bad = {one.name: one for one in findings(Imagined(0.2, 0.3, 0.4, 0.6, [1, 3, 2]))}
    assert (good["consensus"].holds, bad["consensus"].holds) == ("yes", "no")
    assert good["consensus"].seen.startswith("yes")
    assert bad["consensus"].seen.startswith("no")
    assert (good["energy"].holds, bad["energy"].holds) == ("yes", "no")
    assert good["energy"].seen.startswith("yes")
    assert bad["energy"].seen.startswith("no, at 50%")
    assert findings(Imagined(1.0, -0.1, 0.999, 1.0, [1, 2, 3]))[1].holds == "no"
    assert good["good triples"].holds == "yes"
    close = findings(Imagined(1.0, 0.3, 0.4, 1.0, [1, 2, 3], between=0.6))[4]
    assert (good["metastability"].holds, close.holds) == ("yes", "no")  # 10 (1 - 0.5) > log 100 > 10 (1 - 0.6)
    assert good["metastability"].seen.startswith("yes, 0.1%")
    assert close.seen.startswith("no, 60.0%")
    assert good["long context"].holds == "no"
    assert "67% of heads" in good["long context"].numbers


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (dict(text=None), r"`text` \(or `images`"),
        (dict(length=600), "too few for 3 windows of 600"),
        (dict(windows=200), "too few for 200 windows"),
        (dict(length=17), "16 positions"),
        (dict(layers=[2]), "`layers` are counted from 0 to 1"),
        (dict(model=["nothing"]), "not a folder with a model"),
        (dict(model=["a", "b"]), "`model` must be one; got 2"),
        (dict(tolerance=4.0), "`tolerance`"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(place, words, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        perform(command("inspect").job(asked(place, **words)), tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_tokenizers_of_other_models_are_noticed(place, made, tmp_path):
    config, tensors = made.gpt2()
    tensors["wte.weight"] = tensors["wte.weight"][:20]
    folder = made.alphabet(made.write(tmp_path / "small", config, tensors))
    with pytest.raises(InputError, match="28 tokens, and the model knows 20"):
        command("inspect").job(asked(folder, text=str(place / "text.txt")))
    (folder / "empty.txt").write_text("")
    with pytest.raises(InputError, match="`text` is empty"):
        command("inspect").job(asked(place, text=str(folder / "empty.txt")))


def test_images_are_texts_of_patches_and_models_are_compared(place, made, done, tmp_path, capsys, monkeypatch):
    from PIL import Image

    folder = made.write(tmp_path / "vit", *made.vit())
    rng = np.random.default_rng(0)
    for i in range(2):
        Image.fromarray(rng.integers(0, 255, (12, 12, 3), dtype=np.uint8)).save(tmp_path / f"{i}.png")
    model = models.load(folder)
    job = command("inspect").job(
        command("inspect").settings({"model": [str(folder)], "images": str(tmp_path), "layers": [0]})
    )
    assert job.windows.starts.shape == (3, 2, 10, made.D)
    # A patch is a convolution with stride four: by hand for the last one of the first image.
    pixels = (np.asarray(Image.open(tmp_path / "0.png"), np.float32) / 255 - 0.5) / 0.5
    kernel = np.asarray(model.embedding.table[1:]).T.reshape(made.D, 3, 4, 4)
    last = np.einsum("dcij,ijc->d", kernel, pixels[8:, 8:])
    np.testing.assert_allclose(job.windows.starts[0, 0, -1], last + model.embedding.positions[9], atol=1e-5)
    found = perform(job, tmp_path / "run")
    assert "next token" not in dict(table(found).rows)
    monkeypatch.chdir(tmp_path)  # two models side by side
    assert cli.main(["compare", str(done.path), str(found.path)]) == 0
    assert "mean overlap" in capsys.readouterr().out
    assert (tmp_path / "compare.png").is_file()
    with pytest.raises(InputError, match="looks at images"):
        command("inspect").job(asked(folder, text=str(folder / "config.json")))


MINE = """
import numpy as np

import measureflow as mf

mf.models.dimension("quarter", 4)


@mf.models.quantity("longest", ("kind", "window"), label="longest token", format=".2f")
def longest(layer):
    return np.linalg.norm(np.asarray(layer.clouds), axis=-1).max(-1)


@mf.models.quantity("longest_by_quarter", ("window", "quarter"), needs="attention")
def longest_by_quarter(layer):
    norms = np.linalg.norm(np.asarray(layer.seen[0]), axis=-1)
    return norms.reshape(len(norms), 4, -1).max(-1)


@mf.models.quantity("mean_longest", label="mean longest", watched=True)
def mean_longest(layer):
    return layer["longest"][0].mean()
"""


@pytest.fixture
def declarations():
    """Forget what a test declares."""
    known = [(one, dict(one)) for one in (QUANTITIES, DIMENSIONS)]
    yield
    for one, was in known:
        one.clear()
        one.update(was)


def test_a_file_of_the_user_adds_quantities(place, tmp_path, capsys, declarations):
    file, out = tmp_path / "mine.py", tmp_path / "run"
    file.write_text(MINE)
    words = ["--windows", str(WINDOWS), "--length", str(LENGTH), "--layers", "1", "--use", str(file), "--out", str(out)]
    assert cli.main(["inspect", str(place), "--text", str(place / "text.txt"), *words]) == 0
    assert "longest token, last layer" in capsys.readouterr().out
    found = open_run(out)
    assert found.data.longest.dims == ("time", "kind", "window")
    assert found.data.longest_by_quarter.dims == ("time", "window", "quarter")
    assert np.isnan(found.data.longest_by_quarter.values[-1]).all()  # behind the last layer there is no attention
    np.testing.assert_allclose(found.series["mean_longest"].values, found.data.longest.values[:, 0].mean(1))
    for name in ("longest", "mean_longest", "longest_by_quarter"):
        del QUANTITIES[name]
    told = dict(table(found).rows)  # the folder knows its labels
    assert re.fullmatch(r"\d+\.\d\d \[\d+\.\d\d, \d+\.\d\d\]; shuffled .*", told["longest token, last layer"])


def test_declarations_that_cannot_be_are_refused(declarations):
    with pytest.raises(ValueError, match="'overlap' is declared already"):
        models.quantity("overlap")
    with pytest.raises(ValueError, match="'colour' is not declared"):
        models.quantity("mine", ("colour",))
    with pytest.raises(ValueError, match="'head' is declared already"):
        models.dimension("head", 3)


def test_quantities_have_the_shape_they_declare(place, declarations):
    models.quantity("mine", ("window",))(lambda layer: np.zeros(WINDOWS + 1))
    job = command("inspect").job(asked(place))
    with pytest.raises(ValueError, match=r"'mine' was declared with the shape \(3,\); got \(4,\)"):
        job.frames_of(job.flow.run())
