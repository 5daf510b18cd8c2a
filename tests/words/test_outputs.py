"""Files that commands write: what cannot be written is said before any work is done."""

import pytest

from measureflow.words import InputError
from measureflow.words.outputs import Picture, Words, check_writable, positional
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
