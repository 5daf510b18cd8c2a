"""Numbers from files of users, and sentences for files that have none."""

import numpy as np
import pytest

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
    held = numbers_in("a.npz")
    assert held.keys() == {"points", "weights"}
    for found in (held["points"], numbers_in("a.npy"), numbers_in("a.csv"), numbers_in("a.txt")):
        np.testing.assert_array_equal(found, values)
        assert found.dtype == np.float64


def test_files_without_numbers_get_a_sentence(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "words.csv").write_text("a,b\n1,2\n")
    (tmp_path / "text.npz").write_text("no archive")
    np.savez("complex.npz", points=np.eye(3) * 1j)
    np.savez("things.npz", points=np.array([{}], object))
    for file in ("empty.csv", "words.csv", "text.npz", "things.npz", "nowhere.npy"):
        with pytest.raises(InputError, match=f"Cannot read numbers from '{file}': .*[^.][.]$"):
            numbers_in(file)
    with pytest.raises(InputError, match="points is complex and would lose its imaginary part"):
        numbers_in("complex.npz")


def test_an_archive_that_expands_beyond_memory_is_refused_unread(monkeypatch):
    np.savez_compressed("zeros.npz", points=np.zeros((10**5, 3)))
    monkeypatch.setattr("measureflow.words.files.available", lambda: 1e6)
    with pytest.raises(InputError, match=r"it holds 2.4 MB, more than the 1 MB of memory that are free"):
        numbers_in("zeros.npz")


def test_a_digest_is_that_of_the_content(tmp_path):
    for name, text in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / name).write_text(text)
    assert digest("a") == digest("b") != digest("c")
