"""The table of figures: what each shows, of which paper it is, and who draws it.

Needs no JAX until a figure is drawn.
"""

import importlib
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A figure: what it shows, the key of its paper, where it stands there, and the study that draws it.

    A figure without a study is drawn by the module of its name in this package. `place` has the number of the figure where it
    is known for certain, and otherwise says of what it is the figure.
    """

    shows: str
    reference: str
    place: str
    study: str = ""
    size: str = "small"


FIGURES = {
    "attention-table": Entry(
        "the worked table of attention weights: scores, column softmax, and what a row softmax would give",
        "deck:25",
        "slide with the worked table",
        "deck-attention-table-is-column-softmax",
    ),
    "polytope": Entry(
        "rescaled tokens that move to the vertices and faces of a polytope",
        "geshkovski:23",
        "figures of the theorem on V = I",
        "rescaled-tokens-reach-polytope-boundary",
    ),
    "hyperplanes": Entry(
        "rescaled tokens on at most three parallel hyperplanes",
        "geshkovski:23",
        "figures of the theorem on good triples",
        "good-triple-gives-at-most-three-hyperplanes",
    ),
    "polytope-times-subspace": Entry(
        "rescaled tokens on the boundary of a polytope times a subspace",
        "geshkovski:23",
        "figures of the theorem on paranormal values",
        "paranormal-value-gives-product-of-boundary-and-subspace",
    ),
    "phase-diagram": Entry(
        "when tokens meet, over temperature and time, and the equiangular law",
        "geshkovski:25",
        "phase diagram of the section on high dimension",
    ),
    "synchronization-map": Entry(
        "for which temperatures all tokens on the circle synchronize: proved, open, and where three clusters attract",
        "polyanskiy:25",
        "theorem on the circle and its range",
        "circle-criterion-holds-from-minus-016",
    ),
    "staircase": Entry(
        "the energy over the logarithm of time at three temperatures: clusters wait, and meet pair by pair",
        "koubbi:24",
        "figure of the energy profile",
        "energy-staircase-in-log-time",
        "full",
    ),
    "parking": Entry(
        "tokens that see their past: strong centres stay where they parked, other Rényi centres move and merge",
        "karagodin:24",
        "figure 2",
        "strong-centres-stay-put-for-long-times",
    ),
    "leaders": Entry(
        "hardmax leaders and the cells that they empty",
        "frankwolfe:25",
        "figure of the cells of leaders",
        "hardmax-empties-the-cells-of-its-leaders",
    ),
    "cone": Entry(
        "covariances in their cone from several starts, under softmax, L2 and Sinkhorn attention, contracting and growing",
        "castin:25",
        "figures of covariances that converge and diverge, part III of the talk",
    ),
    "variants": Entry(
        "the same tokens under softmax, L2, Sinkhorn, sigmoid and linear attention, which contracts, and their spread over time",
        "castin:25",
        "slide that compares attention variants, part III of the talk",
    ),
    "lipschitz": Entry(
        "how steep one head of a model is on a text and on adversarial tokens, against their number",
        "castin:24",
        "figures of the experiments, part IV of the talk",
    ),
    "adversarial": Entry(
        "how steep attention is on adversarial tokens: the root of their number, until the crowd outvotes the one",
        "castin:24",
        "figure of the experiments on adversarial inputs",
        "adversarial-lipschitz-grows-like-square-root",
    ),
    "oversmoothing": Entry(
        "how fast graph networks without residual connections lose the features of vertices",
        "lin:25",
        "figures of the experiments, without residual",
        "gnn-rate-without-residual-is-eigenvalue-ratio",
    ),
    "residual-oversmoothing": Entry(
        "the same with residual connections, by the eigenvalues of the graph and of the weights",
        "lin:25",
        "figures of the experiments, with residual",
        "gnn-residual-rate-with-fixed-weights",
    ),
    "granularity": Entry(
        "the least error of students with coarse experts, against the granularity of the teacher",
        "boix:25",
        "figure of the experiments on students",
        "moe-coarse-student-error-floor",
    ),
    "experts": Entry(
        "how many bits choices of experts carry when experts are split",
        "boix:25",
        "figure of the number of configurations",
        "moe-splitting-experts-multiplies-bits",
    ),
    "mixture-layer": Entry(
        "the accuracy of mixture layers and of fully connected layers of equally many parameters, while they train",
        "yan:25",
        "figures of the experiments",
        "gm-layer-accuracy-comparable-to-fully-connected",
    ),
    "kde-modes": Entry(
        "the number of modes of density estimates against the temperature, and where they are",
        "geshkovski:24",
        "figures of the number of modes",
        "kde-mode-count-table",
    ),
}
"""All figures by name."""


def draw(name: str) -> Any:
    """A figure of the table, computed from nothing."""
    entry = FIGURES[name]
    if not entry.study:
        module = importlib.import_module(f"measureflow.figures.{name.replace('-', '_')}")
        return module.figure()
    from measureflow import studies

    study = studies.load(entry.study)
    return study.draw(study.run(studies.Size(entry.size)))
