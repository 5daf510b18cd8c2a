"""Numbers from files of users, and sentences for files that have none."""

import os

import numpy as np
import pytest

from measureflow import memory
from measureflow.words import InputError
from measureflow.words.files import digest, numbers_in


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_kind_of_file_has_its_numbers_in_float64(tmp_path):
    values = np.array([[1, 2], [3, 4]], np.float32)
    np.savez("a.npz", points=values, weights=values[0])
    np.save("a.npy", values)
    np.savetxt("a.csv", values, delimiter=",")
    np.savetxt("a.txt", values)
    held = numbers_in("a.npz", "init")
    assert held.keys() == {"points", "weights"}
    for found in (
        held["points"],
        numbers_in("a.npy", "init"),
        numbers_in("a.csv", "init"),
        numbers_in("a.txt", "init"),
    ):
        np.testing.assert_array_equal(found, values)
        assert found.dtype == np.float64


def test_files_without_numbers_get_a_sentence(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "words.csv").write_text("a,b\n1,2\n")
    (tmp_path / "text.npz").write_text("no archive")
    np.savez("things.npz", points=np.array([{}], object))
    np.save("entry.npy", np.array("1"))
    os.mkfifo("pipe.csv")  # to open it would wait for ever
    for file in ("empty.csv", "words.csv", "text.npz", "things.npz", "nowhere.npy", "entry.npy", "pipe.csv"):
        with pytest.raises(InputError, match=f"^`init`: '{file}' .*[^.][.]$"):
            numbers_in(file, "init")
    with pytest.raises(InputError, match=r"'pipe\.csv' is a pipe or a device, not a file"):
        numbers_in("pipe.csv", "init")


def test_an_archive_that_expands_beyond_memory_is_refused_unread(monkeypatch):
    np.savez_compressed("zeros.npz", points=np.zeros((10**5, 3)))
    monkeypatch.setattr(memory, "available", lambda: 1e6)
    with pytest.raises(InputError, match=r"would need about 4.8 MB of memory, and 1 MB are free: take a smaller file"):
        numbers_in("zeros.npz", "init")


def test_numbers_that_would_lose_something_are_refused():
    np.savez("complex.npz", points=np.eye(3) * 1j)
    np.savez("long.npz", points=np.full((2, 2), 2**53 + 1))
    np.savez("dates.npz", points=np.zeros(3, "M8[s]"))
    for file, words in (("complex", "imaginary part"), ("long", "beyond 2.53"), ("dates", "which are no numbers")):
        with pytest.raises(InputError, match=f"'points' of '{file}.npz' .*{words}"):
            numbers_in(f"{file}.npz", "init")
    np.savez("short.npz", points=np.full((2, 2), 2**53))
    assert numbers_in("short.npz", "init")["points"][0, 0] == 2.0**53


def test_a_digest_is_that_of_the_content(tmp_path):
    for name, text in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / name).write_text(text)
    assert digest("a") == digest("b") != digest("c")
