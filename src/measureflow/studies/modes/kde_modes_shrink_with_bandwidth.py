"""Wider bandwidths have fewer modes on the line, and narrow ones have a mode for each token.

The catalogue has n modes for β far above n². Almost all tokens are then alone, but the two closest of n tokens are n^{-2} apart:
all n modes need β far above n⁴.
"""

import numpy as np

from measureflow.diagnostics import line_modes
from measureflow.plotting import Figure, label_axes, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal

CLAIM = Claim(
    "In one dimension the number of modes never increases with the bandwidth, and equals n for β far above n^2.",
    reference="geshkovski:24",
    where="derived: heat flow makes no sign changes; all n modes need β far above n^4",
)

N, BANDWIDTHS = 50, 30
MANY = 1e14
"""Two of 50 tokens are within two bandwidths of each other with a probability of 1e-4."""


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Count the modes of 8 clouds (40 in full) of 50 tokens at 30 bandwidths, and at one far below all distances."""
    rng = np.random.default_rng(seed)
    betas = np.geomspace(1e4 * N**2, 0.05, BANDWIDTHS)
    clouds = [np.sort(rng.normal(size=N)) for _ in range(size.pick(8, 40))]
    clouds[1::2] = [np.sort(np.abs(cloud) ** 3) for cloud in clouds[1::2]]  # an uneven law as well
    counts = np.array([[len(line_modes(cloud, beta)) for beta in betas] for cloud in clouds])
    normal = clouds[::2]
    return CLAIM.judge(
        at_most("largest change of the number of modes to the next wider bandwidth", 0, int(np.diff(counts).max())),
        equal(
            "modes of 50 normal tokens at beta = 1e14", [N] * len(normal), [len(line_modes(c, MANY)) for c in normal], 0
        ),
        # At a hundred n² about three pairs of 50 tokens are still one mode.
        at_least(
            "mean number of modes at beta = 100 n²", 0.85 * N, np.mean([len(line_modes(c, 100 * N**2)) for c in normal])
        ),
        equal("modes at the widest bandwidth", [1] * len(normal), counts[::2, -1], 0),
        data={"beta": betas, "counts": counts},
    )


def draw(found: dict[str, np.ndarray]) -> Figure:
    """The number of modes over the bandwidth, cloud by cloud."""
    figure, (ax,) = panels(width=6.4, height=4.4)
    h = found["beta"] ** -0.5
    for i, counts in enumerate(found["counts"][:8]):
        ax.step(h, counts, where="post", color=("#0072B2", "#D55E00")[i % 2], linewidth=1.3, alpha=0.7, gid="found")
    ax.plot([], [], color="#0072B2", label="normal tokens")
    ax.plot([], [], color="#D55E00", label="cubes of normal tokens")
    ax.set_xscale("log")
    ax.legend(frameon=False, fontsize=10)
    label_axes(ax, "bandwidth h", "modes of 50 tokens")
    return figure
