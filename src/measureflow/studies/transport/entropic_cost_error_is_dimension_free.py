"""Blurring makes transport easy to estimate: the error of the entropic cost is that of a mean, in every dimension.

Both the deviation and the whole error about the true value fall like `n^{-1/2}`. The exact cost shares the deviation but has a
bias that goes like `n^{-2/d}`, so its whole error does not.
"""

import numpy as np

from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal, slope
from measureflow.transport import entropic_cost, wasserstein

CLAIM = Claim(
    "The entropic cost is estimated at rate n^{-1/2} whatever the dimension.",
    reference="chewi:25",
    where="lectures on entropic optimal transport",
)
EPSILON, VARIANCES, SHIFT = 1.0, (1.0, 0.5), 1.0


def true_cost(dim: int, epsilon: float) -> float:
    """Entropic cost of two isotropic Gaussians, shifted along one axis; the coupling is Gaussian with covariance `c`."""
    a, b = VARIANCES
    c = (np.sqrt(epsilon**2 + 4 * a * b) - epsilon) / 2
    entropy = -epsilon / 2 * np.log(1 - c**2 / (a * b)) if epsilon else 0.0
    return SHIFT**2 / 2 + dim * ((a + b - 2 * c) / 2 + entropy)


def draws(n: int, dim: int, repeats: int, seed: int) -> list[tuple[Particles, Particles]]:
    """Pairs of samples of the two laws."""
    rng, space = np.random.default_rng(seed), Euclidean(dim)
    xs, ys = rng.normal(size=(2, repeats, n, dim)) * np.sqrt(VARIANCES)[:, None, None, None]
    return [(Particles(space, x), Particles(space, y + SHIFT * np.eye(dim)[0])) for x, y in zip(xs, ys, strict=True)]


def rms(errors: np.ndarray) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(errors**2)))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Fit the decay of deviation and error with the size of the samples."""
    sizes = size.pick((60, 240), (100, 200, 400, 800))
    repeats = size.pick((300, 60), (300, 200, 150, 100))  # small samples cost little and fluctuate most

    def errors(dim, f, truth, repeats):
        return [
            np.array([f(*pair) for pair in draws(n, dim, k, seed)]) - truth for n, k in zip(sizes, repeats, strict=True)
        ]

    def entropic(mu, nu):
        return entropic_cost(mu, nu, EPSILON)

    def exact(mu, nu):
        return wasserstein(mu, nu) ** 2 / 2

    blurred = {d: errors(d, entropic, true_cost(d, EPSILON), repeats) for d in (1, 6)}
    sharp = errors(6, exact, true_cost(6, 0.0), [10] * len(sizes))
    return CLAIM.judge(
        # Deviations from 300 and 60 draws are known to four and nine per cent, a slope over a factor of four to .07.
        *(
            equal(f"slope of the deviation, d = {d}", -0.5, slope(sizes, [e.std() for e in es]), 0.12)
            for d, es in blurred.items()
        ),
        *(
            equal(f"slope of the error, d = {d}", -0.5, slope(sizes, [rms(e) for e in es]), 0.12)
            for d, es in blurred.items()
        ),
        # Its bias goes like n^{-1/3} in dimension six; at these sizes tails steepen it by up to .07.
        at_least("slope of the error of the exact cost, d = 6", -0.43, slope(sizes, [rms(e) for e in sharp])),
    )
