"""Words for optimisers: which options go to the field, which to samples and noise."""

from types import SimpleNamespace

from measureflow.words import Option, Word
from measureflow.words.optimisers import OptimiserWord

FRICTION = Option(float, 1.0, "friction")


def test_a_word_without_a_maker_leaves_the_descent_as_it_is():
    assert OptimiserWord("plain descent").field(SimpleNamespace(), "descent") == "descent"


def test_options_of_samples_and_of_noise_do_not_reach_the_field():
    made = lambda descent, **options: (descent, options)  # noqa: E731
    noise = Word("thermal", takes=("beta",))
    brings = {
        "friction": FRICTION,
        "batch": Option(int, 1, "samples"),
        "beta": Option(float, 1.0, "inverse temperature"),
    }
    word = OptimiserWord("all of it", made, brings, noise=noise)
    config = SimpleNamespace(friction=2.0, batch=4, beta=8.0)
    assert word.samples
    assert word.field(config, "descent") == ("descent", {"friction": 2.0})


def test_a_word_without_batches_trains_on_all_data():
    assert not OptimiserWord("descent", brings={"friction": FRICTION}).samples
