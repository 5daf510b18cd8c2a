"""When V has one dominant direction, tokens end on at most three parallel hyperplanes.

Along the eigenvector `phi_1` scores grow fastest, so in the frame `z = e^{-tV} x` the first coordinate follows the largest
or the smallest one, whichever has its sign. Only a token that balances between the two can end at 0.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import Rescaled, SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most

CLAIM = Claim(
    "If V has a simple real positive dominant eigenvalue and <Qφ_1,Kφ_1> >0, the first coordinate of the rescaled tokens "
    "takes at most three limits.",
    reference="geshkovski:23",
    where="theorem on good triples",
)

VALUE = np.diag([1.0, 0.4, 0.2])


def levels(seed: int) -> list[np.ndarray]:
    """The first coordinates of 20 rescaled tokens at time 10, in groups that no hop below 1e-2 connects."""
    field = Rescaled(SoftmaxAttention(np.eye(3), VALUE))
    final = evolve(field, Particles.iid(Euclidean(3), 20, key=seed), jnp.array([0.0, 10.0])).final
    assert isinstance(final, Particles)
    firsts = np.sort(np.asarray(final.points[:, 0]))
    return np.split(firsts, np.flatnonzero(np.diff(firsts) > 1e-2) + 1)


def run(size: Size = SMALL) -> Verdict:
    """Count the levels of the first coordinate from 5 random starts."""
    found = [levels(seed) for seed in range(5)]
    return CLAIM.judge(
        at_most("values of the first coordinate, 5 starts", 3, [len(groups) for groups in found]),
        # The width of what counts as one value: the other coordinates slow the last tokens down.
        at_most("widest group of one value", 1e-2, max(np.ptp(group) for groups in found for group in groups)),
    )
