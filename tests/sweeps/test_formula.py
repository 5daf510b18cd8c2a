"""Formulas: arithmetic of names and numbers, and sentences for everything else."""

import math

import pytest

from measureflow.sweeps.formula import Formula
from measureflow.words import InputError


def test_a_formula_has_the_value_and_the_names_of_its_text():
    formula = Formula("beta", "gamma * log(n) + round(2.6) - floor(-0.5)")
    assert formula.names == {"gamma", "n"}
    assert formula({"gamma": 2.0, "n": 7, "other": "word"}) == 2.0 * math.log(7) + 3 + 1
    assert Formula("x", "-2 ** 2 + max(7 % 4, 7 // 4) / 2")({}) == -4 + 3 / 2


def test_what_is_no_formula_or_has_no_value_is_a_sentence():
    for text in ("__import__('os')", "n.real", "[n]", "n if n else 1", "'a' * 3", "log(x=1)", "lambda: 1"):
        with pytest.raises(InputError, match=r"may have numbers, names"):
            Formula("x", text)({"n": 1})
    with pytest.raises(InputError, match=r"is no formula"):
        Formula("x", "2 *")
    with pytest.raises(InputError, match=r"'gama' has no value here .did you mean 'gamma'"):
        Formula("x", "gama")({"gamma": 1.0})
    with pytest.raises(InputError, match=r"has no value here: .*division by zero"):
        Formula("x", "1 / n")({"n": 0})
    with pytest.raises(InputError, match=r"too large"):
        Formula("x", "10 ** 10 ** 10")({})
