"""Checksums: what a file holds is known by its name, also while it is replaced, and after a kill in between."""

import json

import pytest

from measureflow.runs.checksums import NAME, Checksums, broken, checksum, parsed, sealed, unsealed
from measureflow.words import InputError


def test_a_checksum_is_that_of_the_bytes():
    assert checksum(b"abc") == "ba7816bf8f01cfea414140de5dae2223"  # FIPS 180-2, the first half
    assert checksum(None) == "-"


def test_words_that_were_sealed_come_back_and_changed_ones_do_not():
    words = {"run": "7", "time": 0.1, "speed": None, "stats": {"steps": 3, "bad": float("nan")}}
    text = json.dumps(sealed(words))
    assert repr(parsed(text)) == repr(words)
    for place in range(len(text)):
        try:
            again = parsed(text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :])
        except ValueError:
            continue
        assert repr(again) == repr(words) or "run" not in again, place
    for wrong in ([], {}, {"run": "7"}, {"checksum": "7"}):
        with pytest.raises(ValueError, match="its checksum is not that of what it holds"):
            unsealed(wrong)
    assert parsed('{"format": 2}') == {"format": 2}


@pytest.fixture
def written(tmp_path):
    """Two files with their checksums, and what a marker says of them."""
    known = Checksums(tmp_path)
    for name in ("a", "b"):
        known.note(name, name.encode())
        (tmp_path / name).write_bytes(name.encode())
    return known, known.counted()


def test_what_was_written_is_read_in_its_place_alone(written, tmp_path):
    known, counted = written
    assert counted["bytes"] == (tmp_path / NAME).stat().st_size
    again = Checksums.read(tmp_path, counted)
    assert set(again) == {"a", "b"} == set(known)
    assert again.data("a") == b"a"
    assert "c" not in again
    (tmp_path / "a").write_bytes(b"b")  # what another file holds
    with pytest.raises(InputError, match="is a run that is broken: a: its checksum is not the one"):
        again.data("a")
    (tmp_path / "b").unlink()
    with pytest.raises(InputError, match="b: it is missing"):
        again.data("b")


@pytest.mark.parametrize("after", ["the line", "the file"])
@pytest.mark.parametrize("new", [b"new", None])
def test_a_kill_while_a_file_is_replaced_leaves_what_one_of_two_lines_describes(written, tmp_path, after, new):
    known, counted = written
    known.note("a", new)
    if after == "the file":
        (tmp_path / "a").unlink() if new is None else (tmp_path / "a").write_bytes(new)
    with open(tmp_path / NAME, "ab") as file:
        file.write(b"half a li")
    found = Checksums.read(tmp_path, counted)
    assert found.data("a") == (b"a" if after == "the line" else new or b"")
    found.reopen()
    again = Checksums.read(tmp_path, found.counted())
    assert again.data("a") == found.data("a")
    assert ("a" in list(again)) is (new is not None or after == "the line")
    if after == "the line" and new is not None:
        (tmp_path / "a").write_bytes(new)  # which was never counted
        with pytest.raises(InputError, match="a: its checksum"):
            again.data("a")


def test_a_file_that_a_kill_left_half_written_does_not_count(written, tmp_path):
    known, counted = written
    known.note("c", b"whole")
    known.counted()  # its line is on the disk, and the marker is not
    (tmp_path / "c").write_bytes(b"wh")
    found = Checksums.read(tmp_path, counted)
    found.reopen()
    with pytest.raises(InputError, match="c: its checksum"):
        found.data("c")
    found.note("c", b"whole")
    (tmp_path / "c").write_bytes(b"whole")
    assert Checksums.read(tmp_path, found.counted()).data("c") == b"whole"


def test_a_counted_file_that_was_being_replaced_and_is_neither_is_refused(written, tmp_path):
    known, counted = written
    known.note("a", b"new")
    (tmp_path / "a").write_bytes(b"ne?")
    with pytest.raises(InputError, match="a: it is neither what it was nor what was to replace it"):
        Checksums.read(tmp_path, counted).reopen()


def test_a_reader_learns_what_a_run_under_way_replaces(written, tmp_path):
    known, counted = written
    reader = Checksums.read(tmp_path, counted)
    known.note("a", b"new")
    (tmp_path / "a").write_bytes(b"new")
    assert reader.data("a") == b"new"


def test_damaged_lines_and_names_of_two_lines_are_refused(written, tmp_path):
    known, counted = written
    with pytest.raises(InputError, match=r"must be one line; got 'a.nb'"):
        known.note("a\nb", b"")
    held = (tmp_path / NAME).read_bytes()
    for wrong in (held[:-1], b"f" + held[1:], b""):
        (tmp_path / NAME).write_bytes(wrong)
        with pytest.raises(InputError, match=r"checksums: its own checksum is not the one in commit.json"):
            Checksums.read(tmp_path, counted)
    with pytest.raises(InputError, match="checksums: no 'bytes'"):
        Checksums.read(tmp_path, {})


def test_a_sentence_is_said_once(tmp_path):
    said = broken(tmp_path, "a", ValueError("b"))
    assert broken(tmp_path, "c", said) is said
