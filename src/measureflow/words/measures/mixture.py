"""A mixture of Gaussians, which moves by projection."""

from typing import TYPE_CHECKING, Any

import numpy as np

from measureflow.words.measures.base import Arrays
from measureflow.words.measures.normals import AbstractNormal, held

if TYPE_CHECKING:
    from measureflow.measures import GaussianMixture
    from measureflow.words.settings import Settings


class SeveralNormals(AbstractNormal):
    """Weights, means and covariances."""

    help = "a mixture of Gaussians"
    kind = "measureflow.measures:GaussianMixture"
    dimensions = {"means": ("component", "coordinate"), "covs": ("component", "coordinate", "other")}
    overlay = "mixture"
    usual = {"space": "euclidean", "dim": 2, "init": "clusters", "beta": 1.0, "time": 1.0}

    def start(self, config: "Settings") -> "GaussianMixture":
        """The blobs of the law, or what a file holds."""
        from measureflow.measures import GaussianMixture
        from measureflow.words.initial_laws import SPREAD, Blobs, key_of, law_of, space_of

        if config.from_file:
            found = held(config, "weights", "means", "covs")
            return GaussianMixture(found["weights"], found["means"], found["covs"])
        law, eye = law_of(config), np.eye(config.dim)
        if not isinstance(law, Blobs):
            return GaussianMixture(np.ones(1), np.zeros((1, config.dim)), eye[None])
        centres = law.centres(space_of(config), key_of(config))
        k = len(centres)
        return GaussianMixture(np.full(k, 1 / k), centres, np.tile(SPREAD**2 * eye, (k, 1, 1)))

    def arrays(self, mu: "GaussianMixture") -> Arrays:
        """Means and covariances."""
        return {"means": mu.means, "covs": mu.covs}

    def fixed(self, mu: "GaussianMixture") -> dict[str, tuple[str, np.ndarray]]:
        """The weights."""
        return {"weights": ("component", np.asarray(mu.weights))}

    def restored(self, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> "GaussianMixture":
        """The mixture of one frame."""
        from measureflow.measures import GaussianMixture

        return GaussianMixture(arrays["weights"], arrays["means"], arrays["covs"])


WORD = SeveralNormals()
