"""Cutting every expert of a mixture into g parts keeps its parameters and its function, and multiplies the bits of a choice.

The parts of an expert begin with its score and are chosen together, so a finer mixture expresses what the coarser one does; and
then `log2 binom(m, k)` bits say which experts an input meets.
"""

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.networks import MixtureOfExperts, ReLUExperts
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import experts as theory

CLAIM = Claim(
    "Splitting each expert g-fold at fixed active and total parameters raises the bits of a choice roughly g-fold, and so the "
    "number of functions exponentially.",
    reference="boix:25",
    where="abstract, exponential separation in the number of active experts; the numbers are derived from binomials",
)
PRINTED = {
    (8, 1): 3.0, (16, 2): 6.91, (32, 4): 15.13, (64, 8): 32.04, (256, 8): 48.54, (128, 8): 40.38, (64, 6): 26.16,
    (8, 2): 4.81, (128, 1): 7.0, (16, 1): 4.0,
}  # fmt: skip
DIM, EXPERTS, WIDTH, PARTS = 16, 8, 16, (1, 2, 4, 8)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """One of eight ReLU experts with sixteen neurons, cut into 2, 4 and 8; a hundred normal inputs."""
    rng = np.random.default_rng(seed)
    networks = ReLUExperts(rng.normal(size=(EXPERTS, WIDTH, DIM)), rng.normal(size=(EXPERTS, 1, WIDTH)) / WIDTH)
    coarse = MixtureOfExperts(rng.normal(size=(EXPERTS, DIM)), networks, active=1)
    layers = [coarse.split(parts) for parts in PARTS]
    xs = jnp.asarray(rng.normal(size=(100, DIM)))
    outputs = np.asarray(jax.jit(lambda xs: jnp.stack([jax.vmap(layer)(xs) for layer in layers]))(xs))
    bits = np.array([float(theory.bits(layer.experts.count, layer.active)) for layer in layers])
    table = theory.bits(*np.array(list(PRINTED)).T)
    return CLAIM.judge(
        equal("bits of printed pairs", list(PRINTED.values()), table, 0.005),  # half a unit of the last digit
        at_least("ratio of bits when parts double", 2.0, bits[1:] / bits[:-1]),
        # A choice of k among m has at most log2 (e m/k)^k bits, so g parts have at most this times the bits of eight experts.
        at_most("bits for each active expert", np.log2(np.e * EXPERTS), bits / np.array(PARTS)),
        equal("active parameters", coarse.active_parameters, [layer.active_parameters for layer in layers], 0),
        equal("total parameters", coarse.total_parameters, [layer.total_parameters for layer in layers], 0),
        equal("change of the function", 0.0, outputs[1:] - outputs[:1], 1e-12),  # sums in another order
        data=bits,
    )


def draw(bits: np.ndarray) -> Figure:
    """Bits against the number of parts, for mixtures of the same parameters."""
    figure, (left, right) = panels(2)
    bound = np.array(PARTS) * bits[0]
    draw_curves(
        left, [Curve("log2 of the choices", PARTS, bits, bound)], "parts of an expert", "bits", law="in proportion"
    )
    experts = np.arange(16, 257, 8)
    curves = [Curve(f"{k} active", experts, np.asarray(theory.bits(experts, k))) for k in (1, 2, 4, 8)]
    draw_curves(right, curves, "experts", "bits of a choice")
    return figure
