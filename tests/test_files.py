"""Files of users are what they say, or are refused: nothing is lost, guessed or waited for."""

import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from measureflow import files


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused(read, words):
    with pytest.raises(ValueError, match=words) as caught:
        read()
    assert str(caught.value).endswith(".")


def test_arrays_come_back_as_they_were_saved():
    for value in (
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.float32(3),
        np.zeros((0, 2)),
        np.arange(3, dtype=">i4"),
        np.array(["a", "bc"]),
    ):
        np.save("a.npy", value)
        np.savez_compressed("a.npz", x=value, y=value)
        for found in (files.arrays("a.npy"), files.arrays("a.npz")["x"], files.arrays("a.npz")["y"]):
            np.testing.assert_array_equal(found, value)
            assert found.dtype == np.asarray(value).dtype


def test_every_truncation_and_every_wrong_size_is_noticed():
    """An npy has no checksum, so that its sizes are all that can be wrong; in an archive every flipped bit of data is."""
    np.save("a.npy", np.arange(6.0))
    np.savez("a.npz", x=np.arange(6.0))
    for name in ("a.npy", "a.npz"):
        raw = Path(name).read_bytes()
        for k in range(0, len(raw), 7):
            Path(f"b{name[1:]}").write_bytes(raw[:k])
            refused(lambda name=name: files.arrays(f"b{name[1:]}"), "cannot be read|does not begin")
    Path("b.npy").write_bytes(Path("a.npy").read_bytes() * 2)
    refused(lambda: files.arrays("b.npy"), r"should have 48 bytes by its shape \(6,\), and there are 224")
    raw = bytearray(Path("a.npz").read_bytes())
    raw[raw.index(struct.pack("<d", 3.0)) + 7] ^= 1
    Path("b.npz").write_bytes(raw)
    refused(lambda: files.arrays("b.npz"), "Bad CRC")


def test_a_header_that_promises_more_than_there_is_allocates_nothing():
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000000), }"
    Path("a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    refused(lambda: files.arrays("a.npy"), "should have 8000000000000000000 bytes")


def test_what_is_named_wrongly_or_stands_twice_is_refused():
    np.save("a.npy", np.arange(3))
    Path("a.npy").rename("a.npz")
    refused(lambda: files.arrays("a.npz"), "ends in .npz and is a file of the kind .npy")
    Path("b.npy").write_bytes(b"")
    refused(lambda: files.arrays("b.npy"), "does not begin like one")
    np.save("x.npy", np.arange(3))
    with zipfile.ZipFile("c.npz", "w") as archive:
        archive.write("x.npy")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.write("x.npy")
    refused(lambda: files.arrays("c.npz"), "has 'x.npy' twice")
    with zipfile.ZipFile("d.npz", "w") as archive:
        archive.writestr("notes.txt", "text")
    refused(lambda: files.arrays("d.npz"), "'notes.txt', which is no array")


def test_objects_are_never_read():
    np.save("a.npy", np.array([{}], object), allow_pickle=True)
    refused(lambda: files.arrays("a.npy"), "to read them is to run the program in them")


def test_places_that_are_no_files_are_refused_and_not_waited_for():
    os.mkfifo("pipe")
    Path("link").symlink_to("nowhere")
    for place, words in (("pipe", "a pipe"), (".", "a folder"), ("link", "No such file"), ("a\0b", "null byte")):
        refused(lambda place=place: files.plain(place), words)
    refused(lambda: files.plain("a" * 300), "too long")


def test_rows_are_split_as_tables_are_written():
    Path("a.csv").write_bytes('\ufeff"x, y",b\r\n1,"two\nlines"\r\n\r\n 3 ,4\r\n'.encode())
    assert [row.cells for row in files.rows("a.csv")] == [["x, y", "b"], ["1", "two\nlines"], ["3", "4"]]
    assert files.rows("a.csv")[-1].line == 5
    for raw, words in ((b"a,b\n1\n", "line 2 of"), (b'"a"b,c\n', "no table in CSV"), (b"\xe9,b\n", "UTF-8")):
        Path("b.csv").write_bytes(raw)
        refused(lambda: files.rows("b.csv"), words)


def test_numbers_are_those_that_tables_write():
    assert [files.number(cell) for cell in ("1", " -2e3 ", "inf", "1_000", "0x10", "one", "")] == [
        1.0, -2000.0, float("inf"), None, None, None, None,
    ]  # fmt: skip
