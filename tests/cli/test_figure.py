"""Figures are drawn by name, into the file or folder that was asked for."""

from pathlib import Path

import pytest
from PIL import Image

from measureflow.cli import figure, main
from measureflow.figures import FIGURES
from measureflow.plotting import panels


@pytest.fixture(autouse=True)
def drawn(tmp_path, monkeypatch):
    """The names that were drawn, each as an empty panel."""
    names = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figure, "prepare_jax", lambda: None)
    monkeypatch.setattr(figure, "draw", lambda name: (names.append(name), panels()[0])[1])
    return names


def test_the_list_names_every_figure_with_its_paper(capsys):
    assert main(["figure", "list"]) == 0
    said = capsys.readouterr().out
    for name, entry in FIGURES.items():
        assert f"{name}\n    {entry.shows}\n" in said
        assert f"{entry.place} [{entry.reference}]" in said


def test_a_figure_goes_where_it_was_asked(drawn, capsys):
    assert main(["figure", "polytope"]) == 0
    assert main(["figure", "cone", "--out", "other.pdf"]) == 0
    assert main(["figure", "cone", "variants", "--out", "folder"]) == 0
    assert drawn == ["polytope", "cone", "cone", "variants"]
    assert {str(file) for file in Path().rglob("*.p??")} == {
        "polytope.png", "other.pdf", "folder/cone.png", "folder/variants.png"
    }  # fmt: skip
    with Image.open("polytope.png") as picture:
        assert min(picture.size) > 300
    assert "polytope: polytope.png" in capsys.readouterr().out


def test_all_figures_go_to_a_folder(drawn):
    assert main(["figure", "all", "--out", "folder"]) == 0
    assert drawn == list(FIGURES)
    assert {file.stem for file in Path("folder").iterdir()} == set(FIGURES)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["polytop"], "There is no figure 'polytop' (did you mean 'polytope'?)"),
        (["cone", "--out", "cone.gif"], "`out` must end in .png, .pdf, .svg or be a folder"),
        (["cone", "variants", "--out", "two.png"], "`out` must be a folder for 2 figures"),
        (["cone", "--out", "nowhere/cone.png"], "`out`: there is no folder 'nowhere'"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_the_work(words, sentence, drawn, capsys):
    assert main(["figure", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not drawn


def test_a_figure_that_cannot_be_drawn_says_why_and_the_next_one_is(monkeypatch, capsys):
    def draw(name):
        if name == "cone":
            raise ValueError("no files")
        return panels()[0]

    monkeypatch.setattr(figure, "draw", draw)
    assert main(["figure", "cone", "variants"]) == 1
    assert "'cone' could not be drawn: no files" in capsys.readouterr().err
    assert Path("variants.png").is_file()
