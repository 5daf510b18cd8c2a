"""The colours of all figures, and which cluster of tokens gets which."""

import numpy as np
from matplotlib.colors import to_rgb

from measureflow.annotations import Numbers

PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#882255", "#F0E442", "#332288", "#000000",
)  # fmt: skip
"""Okabe and Ito's colours, with wine and indigo: no pair is closer for colour-blind eyes than the closest of theirs."""

GREY = "#B4B4B4"
"""The colour of the clusters beyond the palette, and of tokens in none."""

INK = "#2E3440"
"""The colour of text and of single curves."""

FAINT = "#9A9A9A"
"""The colour of thin lines behind the data."""


def cluster_colours(labels: Numbers, most: int = len(PALETTE)) -> np.ndarray:
    """One colour `(n, 3)` for each token, by the rank of its cluster; clusters beyond the `most` largest are grey.

    Clusters are ranked by their number of tokens, and by label where two are equal, so the largest cluster is blue in every
    figure. Tokens with a negative label are in no cluster and grey. All tokens are blue where there is no cluster, and
    where no two tokens are together and there are more tokens than colours: ten coloured ones would be no better than others.
    """
    numbers, cluster, sizes = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    if numbers.max() < 0 or (sizes.max() == 1 and len(sizes) > most):
        return np.tile(to_rgb(PALETTE[0]), (len(cluster), 1))
    ranked = [which for which in np.argsort(-sizes, kind="stable") if numbers[which] >= 0]
    table = np.tile(to_rgb(GREY), (len(sizes), 1))
    for rank, which in enumerate(ranked[: min(most, len(PALETTE))]):
        table[which] = to_rgb(PALETTE[rank])
    return table[cluster]
