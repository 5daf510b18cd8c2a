"""Options of several processes, as a user types them."""

import pytest

from measureflow.cli import main
from measureflow.cli.run import without

WORDS = ["--n", "16", "--time", "1", "--frames", "5", "--beta", "4"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--processes", "3"], "must be a multiple of the 3 processes; got 16"),
        (["--coordinator", "a:1"], "go together: give all three in every process"),
        (["--coordinator", "a:1", "--process-id", "2", "--num-processes", "2"], "counts from 0"),
        (["--coordinator", "a:1", "--process-id", "0", "--num-processes", "2", "--processes", "2"], "give one"),
        (["--processes", "2", "--merge", "0.1"], "drop `layers`, `merge`, `mask` and `measure`"),
        (["--processes", "0"], "`processes`"),
    ],
)
def test_bad_input_is_a_sentence(words, sentence, capsys):
    assert main(["simulate", *WORDS, *words]) == 2
    assert sentence in capsys.readouterr().err


def test_words_without_an_option():
    assert without(["--n", "4", "--processes", "2", "--beta=3", "--processes=5"], "--processes") == [
        "--n",
        "4",
        "--beta=3",
    ]
