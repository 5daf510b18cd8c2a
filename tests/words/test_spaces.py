"""Spaces as plain values, and back."""

import json

import pytest

import measureflow as mf
from measureflow.words.spaces import facts_of, space_of


def test_every_space_comes_back_from_its_facts(space):
    again = space_of(json.loads(json.dumps(facts_of(space))))
    assert type(again) is type(space)
    assert repr(again) == repr(space)
    assert facts_of(again) == facts_of(space)


def test_facts_are_the_word_the_size_and_the_numbers():
    assert facts_of(mf.Sphere(3)) == {"word": "sphere", "dim": 3}
    assert facts_of(mf.Ball(2, 1.5)) == {"word": "ball", "dim": 2, "radius": 1.5}
    product = facts_of(mf.Product(mf.Sphere(2), mf.Euclidean(1)))
    assert product == {"word": "product", "parts": [{"word": "sphere", "dim": 2}, {"word": "euclidean", "dim": 1}]}


def test_a_space_that_is_no_word_here_is_a_sentence():
    with pytest.raises(ValueError, match=r"`space` 'torus' is no word here; add it with `use`, as the run did"):
        space_of({"word": "torus", "dim": 2})
