"""Rates are read where a decay is a law, with what they may be off."""

import numpy as np
import pytest

from measureflow.diagnostics import decay

T = np.linspace(0.0, 20.0, 201)


def test_a_clean_exponential_is_read_exactly():
    found = decay(T, 3 * np.exp(-0.7 * T))
    assert found.rate == pytest.approx(0.7, rel=1e-12)
    assert found.window == (0.0, 20.0)


def test_the_window_leaves_out_the_beginning_and_the_rounding():
    values = np.exp(-2 * T) + 5 * np.exp(-6 * T)
    noisy = values + 1e-14 * np.abs(np.sin(1e5 * T))
    found = decay(T, noisy)
    assert found.low <= 2 <= found.high
    assert found.rate == pytest.approx(2, rel=0.01)
    assert found.window[0] > 0.1
    assert found.window[1] < 14.5  # e^{-28} is 1e-12


def test_a_power_is_told_from_an_exponential():
    t = np.geomspace(1.0, 1e4, 101)
    found = decay(t, 1 / (1 + t) ** 2, law="power")
    assert found.low <= 2 <= found.high
    assert found.rate == pytest.approx(2, rel=0.02)


def test_the_interval_covers_noise():
    rng = np.random.default_rng(0)
    rates = [decay(T, np.exp(-0.3 * T + 0.02 * rng.normal(size=len(T)))) for _ in range(200)]
    # Two standard errors and the difference of the halves: far more than 95 of 100.
    assert np.mean([found.low <= 0.3 <= found.high for found in rates]) > 0.97


def test_what_has_no_rate_gets_a_sentence():
    with pytest.raises(ValueError, match="two lists of one length"):
        decay(T, T[:-1])
    with pytest.raises(ValueError, match="`law` must be"):
        decay(T, T + 1, law="linear")
    with pytest.raises(ValueError, match="needs at least 8"):
        decay(T, np.where(T > 0.5, 0.0, 1.0))
