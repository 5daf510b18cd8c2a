"""The error bar of a distance between samples covers the distance of their laws."""

import numpy as np
import pytest

import measureflow as mf
from measureflow import transport


def samples(rng, n, d, shift):
    xs, ys = rng.random((2, n, d))
    ys[:, 0] += shift
    return [mf.Particles(mf.Euclidean(d), points) for points in (xs, ys)]


@pytest.mark.parametrize(("d", "p", "shift"), [(1, 2, 0.5), (3, 2, 0.5), (6, 1, 0.5), (6, 2, 0.0), (8, 2, 1.0)])
def test_the_interval_covers_the_truth(d, p, shift):
    rng = np.random.default_rng(0)
    found = [transport.estimate(*samples(rng, 160, d, shift), p, key=seed) for seed in range(12)]
    # At 95 per cent, nine or fewer of twelve hits have a probability of 0.2 per cent.
    assert sum(one.low <= shift <= one.high for one in found) >= 10


def test_the_interval_knows_the_bias_that_a_plain_one_misses():
    found = transport.estimate(*samples(np.random.default_rng(0), 160, 8, 1.0))
    fluctuation = 2.2 * found.deviation  # Student's quantile for 16 blocks
    assert found.distance**2 - fluctuation > 1.0  # without the bias, the truth is outside
    assert found.low < 1.0 < found.high


def test_the_interval_shrinks_with_the_sample():
    rng = np.random.default_rng(0)
    widths = [
        np.mean([e.high - e.low for e in (transport.estimate(*samples(rng, n, 1, 0.5)) for _ in range(4))])
        for n in (160, 640)
    ]
    assert widths[1] < 0.7 * widths[0]  # four times the sample halves it, up to how well 16 blocks tell a deviation


def test_a_smaller_intrinsic_dimension_gives_a_shorter_interval():
    mu, nu = samples(np.random.default_rng(0), 160, 6, 0.5)
    line = [mf.Particles(m.space, np.asarray(m.points) * np.eye(6)[0]) for m in (mu, nu)]
    wide, narrow = (transport.estimate(*line, dim=dim) for dim in (6, 1))
    assert narrow.distance == wide.distance
    assert narrow.high - narrow.low < wide.high - wide.low


def test_the_law_has_its_three_regimes():
    assert transport.empirical_rate(10**4, 1, 1) == pytest.approx(1e-2)
    assert transport.empirical_rate(10**4, 2, 1) == pytest.approx(1e-2 * np.log(10**4))
    assert transport.empirical_rate(10**4, 3, 2) == pytest.approx(1e-1)
    assert transport.empirical_rate(10**4, 8, 2) == pytest.approx(10**-0.5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda mu, nu: transport.estimate(mu, mf.Particles(nu.space, nu.points, np.arange(1.0, 161))),
            "unequal weights",
        ),
        (lambda mu, nu: transport.estimate(mu, mf.Particles(nu.space, nu.points[:50])), "at least 128 points"),
        (lambda mu, nu: transport.estimate(mu, nu, confidence=1.0), "`confidence`"),
        (lambda mu, nu: transport.empirical_rate(100, 0), "`dim` must be positive"),
    ],
)
def test_what_is_no_sample_is_refused_with_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call(*samples(np.random.default_rng(0), 160, 2, 0.0))
