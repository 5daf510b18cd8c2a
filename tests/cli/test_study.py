"""Studies are found by paper, theme, expectation and words, and shown with all that is known of them."""

import pytest

from measureflow import studies
from measureflow.cli import main


def listed(capsys, *words):
    assert main(["study", "list", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    return {line.strip() for line in lines if line.startswith("  ") and not line.startswith("   ")}, lines[-1]


def test_all_studies_are_listed_unless_some_are_asked_for(capsys):
    names, count = listed(capsys)
    assert names == set(studies.names())
    assert count == f"{len(names)} of {len(names)} studies."


@pytest.mark.parametrize(
    ("words", "meets"),
    [
        (("--paper", "castin:24"), lambda claim: "castin:24" in claim.reference.split(", ")),
        (("--topic", "gaussians"), lambda claim: claim.topic == "gaussians"),
        (("--differs",), lambda claim: claim.name.endswith("-as-published")),
        (("--draws", "--topic", "energy"), lambda claim: claim.topic == "energy" and studies.draws(claim.name)),
    ],
)
def test_studies_are_found_by_paper_theme_and_expectation(words, meets, capsys):
    wanted = {name for name in studies.names() if meets(studies.claim(name))}
    assert wanted
    assert listed(capsys, *words)[0] == wanted


def test_a_word_is_looked_for_in_names_statements_and_papers(capsys):
    assert "two-tokens-tanh" in listed(capsys, "--search", "TANH")[0]
    by_author = listed(capsys, "--search", "Polyanskiy")[0]
    assert {name for name in studies.names() if studies.claim(name).reference == "karagodin:24"} <= by_author
    assert listed(capsys, "--search", "no such word at all")[1].startswith("0 of ")


def test_an_unknown_paper_suggests_the_nearest(capsys):
    assert main(["study", "list", "--paper", "castin:2"]) == 2
    assert "did you mean 'castin:2" in capsys.readouterr().err


def test_a_study_is_shown_with_its_paper_and_what_would_make_it_fail(capsys):
    assert main(["study", "show", "unnormalised-energy-without-half-as-published"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "statement As published: the same velocity is the gradient flow",
        "paper Mean-field neural networks and transformers. 2025",
        "[deck:25] formula The interaction energy of the deck lacks a factor one half",
        "setting Measure how much faster than attention",
        "fails if ratio is two, {where} is not 2.0 within 1e-12",
        "as printed ratio of velocities, {where} is not 1.0 within 1e-12 (Exact identities, so the tolerance",
        "energy/unnormalised_energy_without_half_as_published.py",
    ):
        assert words in shown


def test_a_study_that_is_not_there_suggests_the_nearest(capsys):
    assert main(["study", "show", "two-token-tanh"]) == 2
    assert "two-tokens-tanh" in capsys.readouterr().err
