"""One-sample descent of finitely many heads stays within the sum of three terms of the mean-field equation, at all steps.

The terms are measured one by one on coupled runs: the empirical measure like `N^{-1/2}`, the step like `eps`, the samples like
`eps^{1/2}`. Of each the 95% quantile over repetitions is taken; their sum bounds the 95% quantile of the whole.
"""

import numpy as np

from measureflow.plotting import Figure
from measureflow.plotting.budgets import budget_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.training import Descent, ErrorBudget, InverseTime, TrainingRule, error_budget, fixtures

CLAIM = Claim(
    "One-sample SGD of N heads stays within the three-term bound of the mean-field equation for all steps up to the end.",
    reference="heads:26",
    where="theorem 5.2, as the review asks for it: end to end, with each term and its constant",
)

QUANTILE = 0.95


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Heads of the first fixture from a normal law, with a rate that falls in time, to t = 1/2."""
    risk = fixtures.f1()
    counts, steps = (
        size.pick((16, 48, 144), (16, 64, 256, 1024)),
        # The catalogue starts at 0.1, where the exponent of the samples is not yet its limit: from one step to half of it, down
        # to 0.003, it is 0.96, 0.86, 0.68, 0.75 and 0.58, and a fit through all of them 0.76 (0.70 to 0.82), which would differ.
        size.pick((0.02, 0.01, 0.005), (0.02, 0.01, 0.005, 0.0025, 0.00125)),
    )
    repeats = size.pick(48, 32)
    pool = risk.heads.gaussian(repeats * counts[-1], 0.5, key=seed)
    rule = TrainingRule(Descent(risk, InverseTime()), batch=1)
    found = error_budget(
        rule, pool, 0.4, counts=counts, steps=steps, frames=11, repeats=repeats, noun="heads", key=seed
    )
    bound = bounds(found)
    high = np.quantile(found.total, QUANTILE, axis=-1)
    empirical, step, samples = (term.power for term in found.terms)
    assert empirical is not None
    assert step is not None
    assert samples is not None
    return CLAIM.judge(
        at_most("95% quantile of the largest error of the risk over the bound", 1.0, (high / bound).max()),
        at_least("the same, so that the bound is no more than a few times too large", 0.2, (high / bound).min()),
        # Over 6 seeds the fitted exponents scatter by 0.025, 0.0014 and 0.043; the tolerances are more than four times that.
        equal("exponent of the empirical measure", -0.5, empirical.exponent, 0.15),
        equal("exponent of the step", 1.0, step.exponent, 0.05),
        equal("exponent of the samples", 0.5, samples.exponent, 0.25),
        data=(found.counts, found.steps, found.total, bound),
    )


def bounds(found: ErrorBudget) -> np.ndarray:
    """The sum of the quantiles of the three terms, for each number of heads and step."""
    empirical, step, samples = (np.quantile(term.risk, QUANTILE, axis=1) for term in found.terms)
    return empirical[:, None] + (step + samples)[None, :]


def draw(data: tuple) -> Figure:
    """Errors over heads and over steps, with the bound dashed."""
    counts, steps, total, bound = data
    return budget_figure(counts, steps, total, bound, title="one-sample descent against the mean-field equation")
