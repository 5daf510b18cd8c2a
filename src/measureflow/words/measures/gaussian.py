"""A Gaussian, the limit of tokens under attention that is affine on it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from measureflow.words.measures.base import Arrays, Rules
from measureflow.words.measures.normals import AbstractNormal, held
from measureflow.words.table import Option

if TYPE_CHECKING:
    from measureflow.measures import Gaussian
    from measureflow.words.settings import Settings


class OneNormal(AbstractNormal):
    """A mean and a covariance."""

    help = "a Gaussian"
    kind = "measureflow.measures:Gaussian"
    dimensions = {"mean": ("coordinate",), "cov": ("coordinate", "other")}
    overlay = "gaussian"
    brings = {"closure": Option(bool, False, "for attention that does not keep Gaussians: the nearest flow that does")}
    usual = {"space": "euclidean", "dim": 2, "init": "gaussian", "beta": 1.0, "time": 1.0}

    def rules(self, config: "Settings") -> Rules:
        """One Gaussian has no clusters."""
        clusters = (config.init == "clusters", "`measure` gaussian has no clusters: choose `measure` mixture")
        return [*super().rules(config), clusters]

    def start(self, config: "Settings") -> "Gaussian":
        """The standard normal, or what a file holds."""
        from measureflow.measures import Gaussian

        if not config.from_file:
            return Gaussian(np.zeros(config.dim), np.eye(config.dim))
        found = held(config, "mean", "cov")
        return Gaussian(found["mean"], found["cov"])

    def arrays(self, mu: "Gaussian") -> Arrays:
        """Mean and covariance."""
        return {"mean": mu.mean, "cov": mu.cov}

    def restored(self, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Gaussian":
        """The Gaussian of one frame."""
        from measureflow.measures import Gaussian

        return Gaussian(arrays["mean"], arrays["cov"])


WORD = OneNormal()
