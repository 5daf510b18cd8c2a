"""Lost in the middle: near the uniform state the last token remembers the first ones, which all have seen, and the latest.

The response to a position is a sum over chains of tokens that pass a disturbance on. Few chains favour what the bias favours,
the latest positions; long ones start early. So the profile is a U as long as it rises at the last position; from the critical
time on it falls all the way, and the beginning has won.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import expm
from scipy.special import factorial

from measureflow.fields import ALiBi, Causal, SoftmaxAttention
from measureflow.flows import RK4, evolve
from measureflow.measures import Sequence
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import circle, retrieval

CLAIM = Claim(
    "Causal attention with ALiBi near the uniform state responds to position s by a closed form, whose slope at the last "
    "position changes sign at t_crit.",
    reference="middle:26",
    where="section on the retrieval profile and its critical time; the sign of the slope is derived",
)
SLOPE, WIDTH, BETA, MODES = 1.0, 8.0, 2.0, 20
FRACTIONS = (0.25, 0.8, 1.25, 2.5)
"""Times of the profiles in units of the critical one."""
POSITIONS, RING, EARLY, SMALLNESS = 12, 16, 0.5, 1e-4


def weights(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions in the middles of `n` cells, and the weights `e^{l s}` of the bias."""
    s = (np.arange(n) + 0.5) / n
    return s, np.exp(SLOPE * s)


def discretised(times: np.ndarray, rates: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions, and the profiles by the Volterra equation on them: powers of its matrix, applied to the last row."""
    s, heavy = weights(n)
    past = np.cumsum(heavy) - heavy / 2  # the own cell counts half
    row, rows = np.r_[np.zeros(n - 1), 1.0], []
    for _ in range(60):  # at is at most 5 here, and 5^60/60! is below rounding
        share = row / past
        row = heavy * (np.cumsum(share[::-1])[::-1] - share / 2)
        rows.append(row)
    k = np.arange(1, 61)
    modes = np.exp(-((np.pi * np.arange(1, MODES + 1) / WIDTH) ** 2) / 2)
    powers = np.einsum("m,tmk->tk", modes, (times[:, None, None] * rates[:, None]) ** k / factorial(k))
    return s, n * powers @ np.array(rows)


@eqx.filter_jit
@jax.vmap
def amplitudes(k: Float[Array, ""], start: Float[Array, " p"]) -> Float[Array, " p"]:
    """The amplitudes of mode `k` at each position, after a short flow of rings of tokens with small ones at the start."""
    ring = jnp.asarray(2 * np.pi * np.arange(RING) / RING)
    angles = (
        ring[None] - 2 * jnp.multiply.outer(start, jnp.sin(k * ring)) / k
    )  # to first order the density 1 + 2 h cos(k θ)
    points = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1).reshape(-1, 2)
    sequence = Sequence(Sphere(2), points, np.repeat(np.arange(1, POSITIONS + 1) / POSITIONS, RING))
    field = Causal(SoftmaxAttention.isotropic(2, BETA), ALiBi(SLOPE))
    last = evolve(field, sequence, jnp.array([0.0, EARLY]), RK4(0.1)).final.points
    return jnp.cos(k * jnp.atan2(last[:, 1], last[:, 0])).reshape(POSITIONS, RING).mean(1)


def linear(k: int, start: np.ndarray) -> np.ndarray:
    """The same by the linear equation on those positions, where a ring sees its own position as well."""
    s = np.arange(1, POSITIONS + 1) / POSITIONS
    matrix = np.tri(POSITIONS) * np.exp(SLOPE * s)
    return expm(EARLY * float(circle.softmax_growth(k, BETA)) * matrix / matrix.sum(1, keepdims=True)) @ start


def valleys(profile: np.ndarray) -> int:
    """How often a profile turns from falling to rising."""
    rising = np.diff(profile) > 0
    return int((~rising[:-1] & rising[1:]).sum())


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Compare the closed form with the Volterra equation on 2000 positions, and that with tokens at time 1/2."""
    rates, (critical, hotter) = np.asarray(retrieval.published_rates(BETA, MODES)), critical_times()
    times = critical * np.array(FRACTIONS)
    s, found = discretised(times, rates, size.pick(2000, 20000))
    closed = np.stack([retrieval.profile(t, s, rates, SLOPE, WIDTH) for t in times])
    inside = (s > 0.01) & (s < 0.99)
    ks, start = np.arange(1, 4), SMALLNESS * np.random.default_rng(seed).uniform(0.5, 1, (3, POSITIONS))
    moved = np.asarray(amplitudes(jnp.asarray(ks, float), jnp.asarray(start)))
    law = np.stack([linear(int(k), h) for k, h in zip(ks, start, strict=True)])
    rise = found[:, s < 0.995][:, -1] / found[:, s < 0.985][:, -1] - 1
    return CLAIM.judge(
        # Cells of width 1/2000; the first ones are left out, where the profile is steepest.
        equal("Volterra equation over the closed form", 1.0, (found / closed)[:, inside], 1e-3),
        equal("critical times at β = 2 and 3", [0.600716, 0.174018], [critical, hotter], 1e-6),  # printed digits
        at_least("rise at the last position before the critical time", 0.0, rise[:2]),
        at_most("rise at the last position after the critical time", 0.0, rise[2:]),
        equal("valleys of the profile before and after", [1, 1, 0, 0], [valleys(profile) for profile in found], 0),
        # Amplitudes of 1e-4 act on each other by their squares.
        equal("amplitudes of tokens over the largest, modes 1, 2, 3", law / SMALLNESS, moved / SMALLNESS, 1e-3),
        # The tokens are seen to answer.
        at_least("change of the amplitudes", 0.05, np.abs(moved - start).max(1) / SMALLNESS),
        data=(s, found, closed, law / SMALLNESS, moved / SMALLNESS),
    )


def critical_times() -> list[float]:
    """The critical times at β = 2 and 3, in the unit of the paper."""
    return [
        float(retrieval.critical_time(retrieval.published_rates(beta, MODES), SLOPE, WIDTH)) for beta in (BETA, 3.0)
    ]


def draw(data: tuple[np.ndarray, ...]) -> Figure:
    """The profiles before and after the critical time over their closed form, and amplitudes of tokens against the linear law."""
    s, found, closed, law, moved = data
    figure, (left, right) = panels(2)
    shown = (s > 0.004) & (s < 0.998)
    curves = [
        Curve(
            rf"$t = {fraction:g}\,t_{{crit}}$",
            s[shown],
            profile[shown] / profile[shown].mean(),
            line[shown] / profile[shown].mean(),
        )
        for fraction, profile, line in zip(FRACTIONS, found, closed, strict=True)
    ]
    draw_curves(left, curves, "position s", "response of the last token", law="closed form", title="ALiBi, β = 2")
    left.set_ylim(0, 4)
    places = np.arange(1, POSITIONS + 1) / POSITIONS
    curves = [Curve(f"mode {k + 1}", places, moved[k], law[k]) for k in range(3)]
    draw_curves(right, curves, "position s", "amplitude over 10⁻⁴", law="linear law", title="tokens at time 1/2")
    return figure
