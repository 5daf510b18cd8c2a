"""A constant of gradient domination that is read off feature Jacobians bounds from below how fast the risk decays.

With the tangent kernel `K = ∫ J J^T dmu` and residuals `r` of the risk, `D = r^T K r`, so that `D >= c (R - floor)` with `c` from
the least eigenvalue of `K` and what the loss makes of residuals; then `R - floor` falls at least like `exp(-2 ∫ c dt)`. For heads
of F1 `c` is zero whatever the measure: the first position of a sequence sees only itself, so that its features are linear in the
product of output and value, which has nine entries, while six sequences of four words have 18 residuals there that can differ.
(Words and first tokens of F1 are sines, which span two directions each, and leave four of the nine.) With weight decay near a
head at rest `D >= 2 lambda gap` to leading order, with the least eigenvalue of `H`: heads apart feel `H`, heads together `H_tr`,
which is not less.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from measureflow.energies import AbstractEnergy
from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.training import Descent, NeuronRisk, Neurons, Ridge, Square, dissipation, fixtures, stability
from measureflow.training.bounds import domination, tangent_kernel
from measureflow.training.perturbation import rest_point

CLAIM = Claim(
    "Remark 6.11: the constant of gradient domination from feature Jacobians and the loss bounds the observed decay from below.",
    reference="heads:26",
    where="remark 6.11; the kernel is that of the features, for squares and for cross-entropy",
)


def digits(rng: np.random.Generator, count: int) -> NeuronRisk:
    """The squared distance of neurons with tanh to the parity of some handwritten digits."""
    from sklearn.datasets import load_digits  # installed beside the library, or the claim is not decided

    images, values = (np.asarray(part) for part in load_digits(return_X_y=True))
    chosen = rng.choice(len(images), count, replace=False)
    parity = 2.0 * (values[chosen] % 2) - 1
    return NeuronRisk((images[chosen] - images.mean(0)) / 16, parity, Neurons(64, activation=jnp.tanh), Square())


def fallen(energy: AbstractEnergy, start: Particles, times: np.ndarray, step: float):
    """Measures along the flow with their energies and dissipations."""
    path = evolve(Descent(energy), start, times, RK4(step))
    both = eqx.filter_jit(path.map)(lambda mu: (energy(mu), dissipation(energy, mu)))
    return path, *(np.asarray(part) for part in both)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """100 neurons on 20 digits (full: 200 on 40), F1 with 40 heads, and F2 with ridge 0.3 near its head at rest."""
    rng = np.random.default_rng(seed)
    risk = digits(rng, size.pick(20, 40))
    times = np.linspace(0.0, 10.0, size.pick(11, 41))
    network = Particles(risk.neurons.space, rng.normal(size=(size.pick(100, 200), risk.neurons.size)))
    path, gap, lost = fallen(risk, network, times, 0.05)
    c = np.array([domination(risk, path.at(k)).constant for k in range(len(times))])
    # Between frames the smaller of both ends.
    passed = np.append(0.0, np.cumsum(np.minimum(c[1:], c[:-1]) * np.diff(times)))
    bound = gap[0] * np.exp(-2 * passed)

    heads = fixtures.f1()
    crowd = Particles(Euclidean(24), rng.normal(size=(40, 24)))
    first = np.asarray(tangent_kernel(heads, crowd)).reshape(6, 4, 4, 6, 4, 4)[:, 0, :, :, 0].reshape(24, 24)

    energy = fixtures.f2() + Ridge(0.3)
    rest = rest_point(energy, jnp.zeros(4))
    least = stability(energy, fixtures.f2().heads, Particles(Euclidean(4), rest[None])).splitting[0]
    near = Particles(Euclidean(4), np.asarray(rest) + 1e-3 * rng.normal(size=(8, 4)))
    t = np.linspace(0.0, 6.0, 25)
    _, values, slopes = fallen(energy, near, t, 0.05)
    above = values - float(energy(Particles(Euclidean(4), rest[None])))
    law = above[0] * np.exp(-4 * least * t)
    return CLAIM.judge(
        at_least("least constant, digits", 0.005, c.min()),
        at_least("D over c times the risk, digits", 1.0, lost / gap / c),
        # Rounding of the first frame, where the bound is an equality.
        at_most("risk over its bound, digits", 1 + 1e-9, gap / bound),
        # Rounding of an eigenvalue.
        at_most("constant of F1", 0.0, domination(heads, crowd).constant, 1e-12),
        equal("rank of the kernel at first positions of F1, of 18", 4, int(np.linalg.matrix_rank(first)), 0),
        # To leading order in distances of about 0.002, relative to those of 0.08 at which half of the curvature is gone.
        at_least("D over 2 lambda times the gap, F2 with ridge", 1.0, slopes / above / (2 * least), 0.02),
        at_most("gap over its bound, F2 with ridge", 1.0, above / law, 0.02),
        data={"neurons on digits": (times, gap, bound), "heads of F2 with ridge": (t, above, law)},
    )


def draw(found: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Figure:
    """Risks above their least ones, below what the constants say."""
    figure, axes = panels(2)
    for ax, (name, (times, gap, bound)) in zip(axes, found.items(), strict=True):
        curve = Curve("gap", times, gap, bound)
        draw_curves(ax, [curve], "time t", "risk above the least", log="y", law=r"bound $e^{-2\int c}$", title=name)
    return figure
