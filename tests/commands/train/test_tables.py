"""Tables of data mean one thing, or are refused; any damage gets a sentence."""

import gzip
import warnings
from pathlib import Path

import numpy as np
import pytest

from measureflow.commands.train.tables import sheet_of
from measureflow.runs.command import command
from measureflow.words import InputError

RNG = np.random.default_rng(0)
ROWS = [[f"{x:.3f}" for x in RNG.normal(size=3)] + [str(k % 2)] for k in range(8)]
BODY = "".join(",".join(row) + "\n" for row in ROWS)
WORDS = "".join(",".join([*row[:3], "ab"[int(row[3])]]) + "\n" for row in ROWS)
INPUTS = np.array([row[:3] for row in ROWS], float)


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def sheet(file, **words):
    return sheet_of(command("train neurons").settings({"data": file} | words))


def written(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


MEANT = {
    "names": ("a,b,c,y\n" + BODY, {}, "y"),
    "numbers above a word": ("0,1,2,y\n" + BODY, {}, "y"),
    "the word is the target": ("0,1,2,y\n" + WORDS, {"target": "y"}, "y"),
    "said to have names": ("0,1,2,3\n" + BODY, {"header": "yes"}, "3"),
    "no names": (BODY, {}, "4"),
    "no names and words": (WORDS, {}, "4"),
    "a mark before names": ("\ufeffa,b,c,y\n" + BODY, {}, "y"),
    "a mark before numbers": ("\ufeff" + BODY, {}, "4"),
    "quoted": ('"a","b, too","c","y"\n' + BODY, {}, "y"),
}


@pytest.mark.parametrize("name", MEANT)
def test_every_row_and_column_is_read_as_it_is_meant(name):
    text, words, target = MEANT[name]
    found = sheet(written("a.csv", text), **words)
    assert found.target == target
    np.testing.assert_array_equal(found.inputs, INPUTS)
    kinds = (
        ["ab"[int(row[3])] for row in ROWS] if "a" in WORDS and text.endswith(WORDS) else [float(r[3]) for r in ROWS]
    )
    assert found.labels.tolist() == kinds


def test_a_target_in_the_middle_leaves_the_others():
    found = sheet(written("a.csv", "a,b,c,y\n" + BODY), target="b")
    assert found.inputs.tolist() == [[float(cell) for cell in (row[0], *row[2:])] for row in ROWS]
    np.testing.assert_array_equal(found.labels, INPUTS[:, 1])


REFUSED = {
    "numbers that count": ("0,1,2,3\n" + BODY, "may be names of columns or a datum: say `--header yes` or"),
    "a word above words": ("0,1,2,y\n" + WORDS, "may be names of columns or a datum"),
    "three of one name": ("x,x,x,y\n" + BODY, "has 'x' twice"),
    "a lost column": ("x,y,z,y\n" + BODY, "has 'y' twice"),
    "no name": (",b,c,y\n" + BODY, "column 1 of 'a.csv' has no name"),
    "a gap among labels": (BODY + "1,2,3,N/A\n", "has numbers and 'N/A'"),
    "an empty label": (WORDS + "1,2,3,\n", "has an empty cell"),
    "ragged": ("a,b,c,y\n" + BODY + "1,2,3\n", "line 10 of 'a.csv' has 3 columns, not 4"),
    "another split": (BODY.replace(",", ";"), "split by commas"),
    "empty": ("", "at least two columns"),
    "names alone": ("a,b\n", "at least 2 rows"),
    "a number of Python": ("a,b,c,y\n" + BODY + "1_000,2,3,1\n", "'1_000' in line 10, which is no number"),
    "not UTF-8": (b"a,y\n1,\xe9\n", "is not a text in UTF-8"),
    "an open quote": ('"a,b\n1,2\n', "is no table in CSV"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_clear_is_refused(name):
    text, words = REFUSED[name]
    with pytest.raises(InputError, match=words):
        sheet(written("a.csv", text))


ARRAYS = {
    "complex inputs": ({"x": INPUTS * 1j, "y": INPUTS[:, 0]}, "'x' of 'a.npz' is complex"),
    "complex labels": ({"x": INPUTS, "y": INPUTS[:, 0] * 1j}, "'y' of 'a.npz' is complex"),
    "one entry": ({"x": np.float64(1), "y": np.float64(2)}, "is one entry"),
    "ragged": ({"x": INPUTS, "y": INPUTS[1:, 0]}, "8 rows of inputs and 7 labels"),
    "no inputs": ({"x": INPUTS[:, :0], "y": INPUTS[:, 0]}, "at least 2 rows and an input"),
    "words as inputs": ({"x": INPUTS.astype(str), "y": INPUTS[:, 0]}, "which are no numbers"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_lose_something_are_refused(name):
    arrays, words = ARRAYS[name]
    np.savez("a.npz", **arrays)
    with pytest.raises(InputError, match=words):
        sheet("a.npz")


def test_packed_images_are_unpacked_up_to_the_size_that_they_say():
    huge = bytes([0, 0, 8, 3]) + np.full(3, 2**31 - 1, ">i4").tobytes()
    labels = bytes([0, 0, 8, 1]) + np.array([2], ">i4").tobytes() + b"\0\1"
    written("a-labels-idx1-ubyte.gz", gzip.compress(labels))
    with pytest.raises(InputError, match=r"would need about .* TB of memory"):
        sheet(written("a-images-idx3-ubyte.gz", gzip.compress(huge)))
    two = bytes([0, 0, 8, 3]) + np.array([2, 1, 1], ">i4").tobytes() + b"\x33\xff"
    packed = gzip.compress(two)
    np.testing.assert_allclose(sheet(written("a-images-idx3-ubyte.gz", packed)).inputs, [[0.2], [1.0]])
    for raw in (gzip.compress(two + b"\0"), gzip.compress(two[:-1]), packed[:-3], b"no", gzip.compress(b"")):
        with pytest.raises(InputError, match="no file of bytes in the format of MNIST"):
            sheet(written("a-images-idx3-ubyte.gz", raw))
    three = bytes([0, 0, 8, 1]) + np.array([3], ">i4").tobytes() + b"\0\1\1"
    written("a-labels-idx1-ubyte.gz", gzip.compress(three))
    with pytest.raises(InputError, match="2 rows of inputs and 3 labels"):
        sheet(written("a-images-idx3-ubyte.gz", packed))


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_any_table_is_read_or_refused_with_a_sentence(kind, foreign, tmp_path):
    said, read = [], 0
    for seed in range(150):
        file = foreign.TABLES[kind](np.random.default_rng(seed), tmp_path)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = sheet(str(file))
        except InputError as error:
            said.extend(error.sentences)
        else:
            read += 1
            assert np.isfinite(found.inputs).all(), seed
            assert len(found.inputs) == len(found.labels) >= 2, seed
    assert 0 < read < 150
    assert all(sentence.endswith(".") for sentence in said)
