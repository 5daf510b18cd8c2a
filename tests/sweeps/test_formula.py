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
    for text in ("10 ** 10 ** 10", "(9**99999)**99999", "9**300 * 9**300"):
        with pytest.raises(InputError, match=r"too large"):
            Formula("x", text)({})
    assert Formula("x", "2**1000 * 2**-1000 + (-1)**10**9 + 0**10**9")({}) == 2
    for text in ("word * 1000000000", "word % 3"):
        with pytest.raises(InputError, match=r"'word' is 'softmax', no number"):
            Formula("x", text)({"word": "softmax"})
    for text, value in (("(-1) ** 0.5", r"\(6.*j\)"), ("1e308 * 10", "inf")):
        with pytest.raises(InputError, match=f"has no value here: it is {value}"):
            Formula("x", text)({})


def test_what_is_nested_too_deeply_is_no_formula():
    for text in ("-" * 3000 + "1", "(" * 3000 + "1" + ")" * 3000, "+".join(["1"] * 20000), "\0"):
        with pytest.raises(InputError, match=r"is no formula|recursion"):
            Formula("x", text)({})
