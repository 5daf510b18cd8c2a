"""Which of the other kernels keep Gaussians: linear ones always, ReLU centred ones, the rest do not."""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import LinearAttention, ReLUAttention, SigmoidAttention, UnnormalisedAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Gaussian, Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "On Gaussians linear attention is affine (and exact for every cloud through its second moment), centred ReLU attention "
    "is half of softmax, while sigmoid and unnormalised attention are not affine.",
    reference="castin:25",
    where="derived: the attention map of the remaining variants",
)
STEPS = np.linspace(0.0, 2.0, 9)[:, None]


def second_moment(mu):
    """The matrix `E[x x^T]` of a measure."""
    return mu.expect(lambda x: jnp.outer(x, x))


def cloud_error(seed: int) -> float:
    """Seven uniform tokens under linear attention until halfway to the blow-up, against the law of their second moment."""
    rng = np.random.default_rng(seed + 2)
    tokens = Particles(Euclidean(2), rng.uniform(size=(7, 2)))
    A, identity, start = jnp.asarray(rng.normal(size=(2, 2))), jnp.eye(2), second_moment(tokens)
    half = 0.5 * float(jnp.minimum(theory.blow_up_time(start, A, identity), 2.0))
    path = evolve(LinearAttention(A, identity), tokens, [0.0, half], Adaptive(rtol=1e-12))
    return float(jnp.abs(second_moment(path.final) - theory.covariance(half, start, A, identity)).max())


def relu_scores(draws: int, seed: int) -> tuple[float, float]:
    """How far centred ReLU attention is from half of softmax: in units of the Monte Carlo error, and by our quadrature."""
    rng = np.random.default_rng(seed + 3)
    A, V, root, xs = *rng.normal(size=(3, 2, 2)), rng.normal(size=(3, 2))
    ys = rng.normal(size=(draws, 2)) @ root.T
    terms = np.maximum(xs @ A.T @ ys.T, 0)[:, :, None] * (ys @ V.T)[None]
    half = xs @ (V @ root @ root.T @ A).T / 2
    score = np.abs(terms.mean(1) - half) / (terms.std(1) / np.sqrt(draws))
    ours = ReLUAttention(A, V)(0.0, jnp.asarray(xs), Gaussian(np.zeros(2), root @ root.T))
    return float(score.max()), float(np.abs(ours - half).max())


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Seven tokens, a plane for ReLU, and a line with unit variance and mean one half for the rest."""
    one = jnp.ones((1, 1))
    mu = Gaussian([0.5], [[1.0]])
    z, w = np.polynomial.hermite_e.hermegauss(80)
    y, w = 0.5 + z, w / w.sum()
    exponential = np.array([(w * np.exp(x * y) * y).sum() for x in STEPS[:, 0]])
    logistic = np.array([(w * y / (1 + np.exp(-x * y))).sum() for x in STEPS[:, 0]])
    closed = [float(theory.unnormalised(jnp.asarray(x), jnp.array([0.5]), one, one, one)[0]) for x in STEPS]
    ours = [
        np.asarray(kind(one, one)(0.0, jnp.asarray(STEPS), mu))[:, 0]
        for kind in (UnnormalisedAttention, SigmoidAttention)
    ]
    score, error = relu_scores(size.pick(200_000, 4_000_000), seed)
    return CLAIM.judge(
        equal("linear: second moment of 7 tokens", 0.0, cloud_error(seed), 1e-10),  # the tolerance of the solver
        # Twelve numbers under four standard errors: a chance of one in a thousand to fail, and the seed is fixed.
        equal("ReLU: Monte Carlo, standard errors from half of softmax", 0.0, score, 4.0),
        equal("ReLU: quadrature - half of softmax", 0.0, error, 1e-10),
        equal("unnormalised: quadrature", closed, exponential, 1e-10),
        equal("unnormalised: field", closed, ours[0], 1e-10),
        equal("sigmoid: field", logistic, ours[1], 1e-10),  # poles of the logistic function slow the rule down to this
        at_least("unnormalised: second difference", 1e-3, abs(np.diff(exponential[::4], 2)[0])),
        at_least("sigmoid: second difference", 1e-3, abs(np.diff(logistic[::4], 2)[0])),
        data={"unnormalised": (ours[0], exponential), "sigmoid": (ours[1], logistic)},
    )


def draw(data: dict[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """Both fields over the query, by the library and by quadrature, and the chord that an affine field would follow."""
    figure, axes = panels(2)
    for ax, (name, (ours, quadrature)) in zip(axes, data.items(), strict=True):
        x = STEPS[:, 0]
        chord = np.interp(x, x[[0, -1]], quadrature[[0, -1]])
        curves = [Curve("field", x, ours, quadrature), Curve("affine, through the ends", x, chord)]
        draw_curves(ax, curves, "query x", "attention", law="quadrature", title=name)
    return figure
