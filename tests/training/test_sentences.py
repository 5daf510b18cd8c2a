"""Certificates say in words what they found, and do not say what they did not find."""

import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import training
from measureflow.training import fixtures
from measureflow.training.certificates import raised
from measureflow.training.glossary import GLOSSARY
from measureflow.training.perturbation import Stability, spectra_row

RISK = fixtures.f1()
BALLS = RISK.heads.balls(query=2.0, key=2.0, value=1.0, output=1.0)
SEARCH = {"starts": 8, "steps": 40}
LARGE = mf.Particles(RISK.heads.space, 10 * fixtures.f1_heads(1))


@pytest.fixture(scope="module")
def useless():
    """Large balls, in which the bound of far heads is below zero."""
    return training.duality_gap(RISK, LARGE, RISK.heads.hull(LARGE.points), **SEARCH)


@pytest.fixture(scope="module")
def at_rest():
    risk = fixtures.f2()
    rest = training.perturbation.rest_point(risk + training.Ridge(0.3), jnp.array([-0.3, 0.1, -0.1, -0.5]))
    return training.examine(risk, mf.Particles(risk.heads.space, rest[None]), decay=0.3, rounds=2, **SEARCH)


def test_heads_outside_the_set_are_refused_with_what_sticks_out():
    for bound in (training.duality_gap, training.certify):
        with pytest.raises(ValueError, match=r"`query` has norm [67]\.\d+ > 2, .*`heads.hull"):
            bound(RISK, LARGE, BALLS)
    with pytest.raises(ValueError, match=r"outside `space`.*ball of radius 1 must have at most that norm"):
        training.duality_gap(RISK, LARGE, mf.Ball(24, 1.0))
    radii = [float(ball.radius) for ball in RISK.heads.hull(LARGE.points).spaces]
    blocks = np.split(np.asarray(LARGE.points[0]), 4)
    assert radii == pytest.approx([np.linalg.norm(block) for block in blocks], rel=1e-15)


def test_a_bound_that_says_nothing_is_called_that_with_a_remedy(useless):
    assert useless.lower_bound == useless.floor == 0
    assert not useless.useful
    rows = dict(useless.report.rows)
    assert rows["gap"].startswith("no useful lower bound was found; to get one, train on")
    assert "--rounds 20" in rows["gap"]
    assert rows["lower bound of the risk"].startswith("0, the floor of the loss")
    assert repr(useless) == f"not optimal: no useful lower bound was found for the risk {useless.risk:.4g}"


def test_a_better_bound_from_elsewhere_is_taken_and_a_worse_one_is_not(useless):
    better = raised(useless, 3.9)
    assert better.useful
    assert better.gap == pytest.approx(useless.risk - 3.9)
    assert dict(better.report.rows)["lower bound of the risk"] == "3.9"
    assert raised(better, 1.0).lower_bound == pytest.approx(3.9)
    assert raised(useless, useless.risk - 1e-6).optimal


def test_rounding_is_shown_as_zero(useless):
    noisy = useless._replace(gap=1e-17, lower_bound=useless.risk, spread=3e-17, dissipation=1e-33, average=-1e-17)
    rows = dict(noisy.report.rows)
    assert rows["gap"].startswith("at most 0, among heads of the set (heuristic-LMO)")
    assert rows["spread of Ψ on the heads"] == rows["dissipation"] == "0"
    assert rows["offender"].endswith(", 0 on average over the heads")
    assert rows["offender"].startswith("Ψ is ")
    alike = dict(noisy._replace(least=-3e-17).report.rows)["offender"]
    assert alike.startswith("none, the best one is no better: Ψ is 0 there")
    still = Stability("marginal", 6e-17, np.zeros((1, 2)), np.array([-3e-17, 1.0]), np.array([2e-17, 2.0]), 1)
    assert repr(still) == "marginal: smallest eigenvalue 0 of H; neither growth nor decay to first order"
    assert spectra_row(np.array([-3e-17, 1.0]), np.array([0.5]))[1].startswith("0 of H (")
    assert spectra_row(np.array([-3e-17, 1e-15]), np.array([1e-15]))[1].startswith("-3e-17 of H")


def test_an_examination_is_one_line_in_a_shell_and_a_table_in_a_notebook(at_rest):
    stable = "stable: smallest eigenvalue 0.2329 of H; decay at rate 0.4657"
    assert repr(at_rest).startswith(f"{stable}; optimal: gap ")
    assert repr(at_rest).endswith("of risk 4.867 (heuristic-LMO)")
    assert repr(at_rest.stability) == stable
    shown = at_rest._repr_html_()
    for word in ("H", "H_tr", "Ψ", "gauge", "offender", "gap", "dissipation"):
        assert f"<summary><b>{word}</b>: {GLOSSARY[word].line}</summary>" in shown
    for part in (
        "<td>at rest</td><td>yes",
        "0.2329 of H (apart), 0.3135 of H_tr",
        "<td>norms up to 0.5554 (scores)",
    ):
        assert part in shown
    for found in (at_rest.certificate, at_rest.stability, at_rest.optimum):
        assert found._repr_html_().startswith("<table>")
        assert "\n" not in repr(found)


def test_frank_wolfe_says_how_far_from_the_least_risk_it_can_be(at_rest):
    found = at_rest.optimum
    heads = len(found.measure.points)
    assert repr(found).startswith(f"risk {found.risk:.8g} with {heads} heads after 2 rounds, at most ")
    assert dict(at_rest.report.rows)["Frank-Wolfe"] == repr(found)
    nothing = found._replace(lower_bound=0.0)
    assert repr(nothing).endswith("after 2 rounds: no useful lower bound was found")
    assert at_rest.certificate.lower_bound >= found.lower_bound


def test_every_word_has_a_line_that_fits_and_a_paragraph():
    for word, note in GLOSSARY.items():
        assert len(f"{word}: {note.line}") <= 80, word
        assert len(note.paragraph) > len(note.line)
