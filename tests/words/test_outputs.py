"""Files that commands write: what cannot be written is said before any work is done."""

import json

import pytest

from measureflow.words import InputError
from measureflow.words.outputs import Picture, Words, check_writable, numbers_beside, positional, write_numbers
from measureflow.words.settings import read


class Drawn(Words):
    """A command with a picture."""

    runs: tuple[str, ...] = positional("RUN", "run folders")
    out: Picture = "picture.png"


def test_a_file_in_a_folder_that_is_not_there_is_refused(tmp_path):
    assert check_writable(str(tmp_path / "new.png")) == str(tmp_path / "new.png")
    with pytest.raises(ValueError, match="there is no folder"):
        check_writable(str(tmp_path / "nowhere" / "new.png"))
    with pytest.raises(ValueError, match="is a folder"):
        check_writable(str(tmp_path))


def test_a_picture_has_a_known_ending_and_runs_must_be_named(tmp_path):
    assert read(Drawn, {"runs": ("a",), "out": str(tmp_path / "a.pdf")}).runs == ("a",)
    with pytest.raises(InputError, match=r"must end in \.png, \.pdf, \.svg"):
        read(Drawn, {"runs": ("a",), "out": "a.doc"})
    with pytest.raises(InputError, match="`runs` is needed"):
        read(Drawn, {})


def test_numbers_beside_a_picture_are_written_over_those_of_the_same_command_alone(tmp_path):
    picture = tmp_path / "package.svg"
    file = numbers_beside(picture, "measureflow smooth")
    assert file == tmp_path / "package.json"
    for _ in range(2):
        write_numbers(numbers_beside(picture, "measureflow smooth"), "measureflow smooth", {"rate": 0.5})
    assert json.loads(file.read_text()) == {"made by": "measureflow smooth", "rate": 0.5}
    foreign = '{"name": "years of work"}'
    for held in (foreign, "[1]", "no JSON", '{"made by": "measureflow train budget"}'):
        file.write_text(held)
        with pytest.raises(InputError, match=r"go into '.*package.json', which is there and was not written by"):
            numbers_beside(picture, "measureflow smooth")
        assert file.read_text() == held
    file.unlink()
    file.symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="choose another name"):
        numbers_beside(picture, "measureflow smooth")
