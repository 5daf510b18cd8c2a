"""Texts: what their characters tell without heads, what is held out, and what heads write."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow import training
from measureflow.training import fixtures

HEADS = training.FullHeads(6, 2, 2)
TEXT = training.Text("to be or not to be, that is the question " * 5, 4, HEADS, held_out=0.2)
MU = HEADS.gaussian(3, 2.0, key=1)


def test_baselines_of_texts_that_can_be_counted():
    found = training.Text("ab" * 50 + "a", 4, HEADS).baselines()
    # Both letters come next equally often, and each after the other alone.
    assert found == pytest.approx((np.log(2), np.log(2), 0.0), abs=1e-15)
    # After `a` come `a` and `b` equally often, after `b` only `a`: 40 and 40 of the pairs, and 40.
    mixed = training.Text("aab" * 40 + "a", 4, HEADS).baselines()
    assert mixed.unigram == pytest.approx(np.log(3) - 2 / 3 * np.log(2), abs=1e-15)
    assert mixed.bigram == pytest.approx(2 / 3 * np.log(2), abs=1e-15)


def test_baselines_of_labels_are_risks_of_logits_that_do_not_look():
    risk = fixtures.f1()
    found = risk.baselines()
    counts = np.asarray(risk.targets).sum((0, 1))
    assert found.bigram is None
    assert found.uniform == pytest.approx(float(risk.loss(jnp.zeros(risk.targets.shape))), rel=1e-14)
    constant = jnp.broadcast_to(jnp.log(counts / counts.sum()), risk.targets.shape)
    assert found.unigram == pytest.approx(float(risk.loss(constant)), rel=1e-14)


def test_accuracy_counts_the_positions_whose_label_is_likeliest():
    risk = TEXT.windows()
    hits = np.argmax(np.asarray(risk.logits(MU)), -1) == np.argmax(np.asarray(risk.targets), -1)
    assert 0 < hits.mean() < 1
    assert float(risk.judged(MU)) == pytest.approx(hits.mean(), rel=1e-14)


def test_what_is_held_out_is_the_end_and_is_not_drawn():
    whole = training.Text("to be or not to be, that is the question " * 5, 4, HEADS)
    assert len(whole.rest) == 0
    assert whole.held_out() is None
    np.testing.assert_array_equal(jnp.concatenate([TEXT.codes, TEXT.rest]), whole.codes)
    assert len(TEXT.rest) == 41  # a fifth of 205
    unseen = TEXT.held_out()
    assert unseen is not None
    assert unseen.tokens.shape == (10, 4, 6)
    np.testing.assert_array_equal(np.argmax(unseen.targets, -1).ravel(), TEXT.rest[1:])
    other = training.Text("aaaa" * 20 + "b" * 20, 4, HEADS, held_out=0.2)
    assert (np.argmax(other.draw(jax.random.key(0), 500).targets, -1) == 0).all()
    assert other.prompt() == "bbbb"
    short = training.Text("to be or not", 4, HEADS, held_out=0.2)
    assert len(short.codes) == 12  # two characters are no window
    assert short.prompt() == " not"
    with pytest.raises(ValueError, match="`held_out` is a share of the text"):
        training.Text("to be or not", 4, HEADS, held_out=1.0)


def test_writing_draws_what_heads_predict_after_all_they_can_see():
    key, prompt = jax.random.key(3), "to"
    expected = prompt
    for k in jax.random.split(key, 6):
        codes = jnp.asarray([TEXT.alphabet.index(c) for c in expected[-4:]])
        # The part of a window that is there, without what comes after.
        tokens = TEXT.embedding[codes] + TEXT.positions[: len(codes)]
        mixed = jnp.mean(jnp.stack([HEADS.mix(theta, tokens) for theta in MU.points]), 0)
        expected += TEXT.alphabet[int(jax.random.categorical(k, (mixed @ TEXT.unembedding)[-1]))]
    assert prompt + TEXT.write(MU, prompt, 6, key=key) == expected
    with pytest.raises(ValueError, match="characters of the text, at least one; 'z' is none"):
        TEXT.write(MU, "zoo", 3)
    with pytest.raises(ValueError, match="it is empty"):
        TEXT.write(MU, "", 3)
