"""Attention on words that repeat: copies of a word move alike, so that sums go over distinct words and not over tokens.

A change of the tokens has a part that copies share, and one that cancels among the copies of each word. On the first, in
coordinates `√count` times the change of a word, the weights of attention are `√(c_i / c_j) p_ij` with the share `p_ij` of its
attention that word i gives to all copies of word j; the second meets only `V Cov_i A`. A frequent word that looks at a rare one
makes the factor `√(c_i / c_j)`, and with it the Lipschitz constant, grow with the number of tokens.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, svds
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from measureflow.models.synthetic_clouds import on_the_sphere

VOCABULARY = 100_000
TOP = 64
"""So many of the highest scores of a shell are drawn, and the others replaced by their mean."""


class Words(NamedTuple):
    """The places of distinct words and how often each occurs."""

    places: np.ndarray
    counts: np.ndarray


def zipf_words(rng: np.random.Generator, numbers: tuple[int, ...], d: int, s: float) -> list[Words]:
    """The words of ever longer texts, the k-th of the vocabulary as often as `k^{-s}`, at uniform places on a sphere."""
    shares = np.cumsum(np.arange(1, VOCABULARY + 1) ** -float(s))
    text = np.searchsorted(shares / shares[-1], rng.random(max(numbers)))
    every, text = np.unique(text, return_inverse=True)
    places = on_the_sphere(rng.normal(size=(len(every), d)))
    counts = [np.bincount(text[:n], minlength=len(every)) for n in numbers]
    return [Words(places[count > 0], count[count > 0].astype(float)) for count in counts]


def shares(A: np.ndarray, words: Words) -> np.ndarray:
    """What part of its attention each word gives to all copies of another."""
    scores = words.places @ A.T @ words.places.T + np.log(words.counts)
    kernel = np.exp(scores - scores.max(1, keepdims=True))
    return kernel / kernel.sum(1, keepdims=True)


def load(A: np.ndarray, words: Words) -> float:
    """The norm of the weights of attention as a matrix over all tokens: √ of the attention that the most seen token bears."""
    root = np.sqrt(words.counts)
    weights = root[:, None] * shares(A, words) / root
    start = np.ones(len(root))
    return float(svds(weights, k=1, return_singular_vectors=False, tol=1e-3, v0=start)[0])  # pyright: ignore


def constant(A: np.ndarray, V: np.ndarray, words: Words) -> float:
    """The local Lipschitz constant of attention at a text, by Lanczos steps on sums over words."""
    x, root, p = words.places, np.sqrt(words.counts)[:, None], shares(A, words)
    m, queries = p @ x, x @ A.T

    def push(e):
        u = e.reshape(x.shape) / root
        a, seen = u @ A.T, p @ u
        scores = p * (queries @ u.T + a @ x.T - (a * m).sum(1, keepdims=True))
        change = seen + scores @ x - (queries * seen).sum(1, keepdims=True) * m
        return (root * (change @ V.T)).ravel()

    def pull(f):
        f = (root * f.reshape(x.shape)) @ V
        scores = p * (f @ x.T - (f * m).sum(1, keepdims=True))
        return ((p.T @ f + scores @ x @ A + scores.T @ queries) / root).ravel()

    start = np.random.default_rng(x.shape).normal(size=x.size)  # Lanczos steps may start anywhere
    J = LinearOperator((x.size, x.size), matvec=push, rmatvec=pull, dtype=float)  # pyright: ignore[reportCallIssue]
    shared = float(svds(J, k=1, return_singular_vectors=False, tol=1e-2, v0=start)[0])  # pyright: ignore
    copied = np.flatnonzero(words.counts > 1)
    cov = np.einsum("ij,ja,jb->iab", p[copied], x, x, optimize=True) - m[copied, :, None] * m[copied, None, :]
    return max(shared, float(np.linalg.norm(V @ cov @ A, 2, axis=(1, 2)).max(initial=0.0)))


def exponent(g: np.ndarray | float, s: float, log_n: np.ndarray | float) -> np.ndarray:
    """The local exponent of the load in the number of tokens, for independent scores of the deviation `g`.

    Of e^l words at the rank e^l the highest score is g √(2l), and its word has the share e^{-s l} of the text. The word that
    bears most has twice the score less s l; attention is normalised by the highest score less s l. Between √(2l) = g/s and 2g/s
    the second has settled and the first has not: ½ (√(2g²/(s log n)) - 1), which is cut off at ½ below and at 0 above.
    """
    return np.clip((np.sqrt(2 * np.square(g) / (s * np.asarray(log_n))) - 1) / 2, 0.0, 0.5)


def random_energies(rng: np.random.Generator, g: float, s: float, ends: np.ndarray) -> np.ndarray:
    """Log loads that one frequent word makes, for endless words with independent scores, at given logarithms of n.

    Shells of ranks from e^l to e^{l+1} have their highest scores drawn in order, and their other words at their mean.
    """
    ranks = np.arange(int(ends[-1] / s))
    number = ranks + np.log(np.e - 1)
    tail = np.minimum(np.log(np.cumsum(rng.exponential(size=(len(ranks), TOP)), 1)) - number[:, None], -1e-12)
    scores, rare = -ndtri_exp(tail), s * (ranks + 0.5)
    others = number + g**2 / 2 + log_ndtr(scores[:, -1] - g) - rare
    total = np.logaddexp(logsumexp(g * scores - rare[:, None], axis=1), others)
    best = np.maximum.accumulate(g * scores[:, 0] - rare / 2)
    loads = best - np.logaddexp.accumulate(total)
    return loads[(ends / s).astype(int) - 1]
