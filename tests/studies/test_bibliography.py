"""The bibliography is read as sentences, and every claim is in it."""

from measureflow import studies
from measureflow.studies import bibliography as module

BIB = r"""
@misc{one:25,
  author = {Cl{\'e}ment, L{\'e}na{\"i}c and M{\"u}ller, Fran{\c{c}}ois},
  title  = {Is {Attention} all?},
  note   = {arXiv 0000.00001},
  year   = {2025},
}

@book{two:26,
  title = {A \emph--dash, \o re \& more},
  year  = {2026},
}
"""


def test_entries_are_sentences_without_the_marks_of_tex(tmp_path, monkeypatch):
    (tmp_path / "references.bib").write_text(BIB, encoding="utf-8")
    monkeypatch.setattr(module, "HERE", tmp_path)
    module.references.cache_clear()
    found = module.references()
    monkeypatch.undo()
    module.references.cache_clear()
    assert str(found["one:25"]) == "Clément, Lénaïc; Müller, François: Is Attention all? 2025, arXiv 0000.00001"
    assert str(found["two:26"]).startswith("A \\emph–dash, øre & more. 2026")


def test_every_paper_of_a_claim_has_a_title_and_a_year_and_no_marks_of_tex():
    cited = {key for name in studies.names() for key in studies.claim(name).reference.split(", ")}
    for key in cited:
        entry = studies.references()[key]
        assert entry.title, key
        assert entry.year.isdigit(), key
        assert not set("{}\\") & set(str(entry)), str(entry)
