"""Every figure of the table can be drawn: its study or module is there, and so are its paper and its place in the documents."""

import importlib.util
from pathlib import Path

import pytest

from measureflow import studies
from measureflow.figures import FIGURES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_someone_who_draws_it(name):
    entry = FIGURES[name]
    if entry.study:
        assert entry.study in studies.names()
        assert studies.draws(entry.study)
        assert studies.Size(entry.size)
    else:
        found = importlib.util.find_spec(f"measureflow.figures.{name.replace('-', '_')}")
        assert found is not None
        assert "def figure(" in Path(str(found.origin)).read_text()


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_stands_in_the_documents_with_its_paper(name):
    entry = FIGURES[name]
    assert entry.reference in studies.references()
    part = PAGE.split(f"## {name}\n")[1].split("\n## ")[0]
    assert entry.reference in part
    assert entry.place in part
    assert not entry.study or f"`{entry.study}`" in part
    if f"images/figures/{name}.png" in part:
        assert (ROOT / "docs" / "images" / "figures" / f"{name}.png").is_file()


def test_every_module_of_a_figure_is_in_the_table():
    files = {file.stem.replace("_", "-") for file in (ROOT / "src" / "measureflow" / "figures").glob("*.py")}
    assert files - {"--init--", "catalogue"} == {name for name, entry in FIGURES.items() if not entry.study}
