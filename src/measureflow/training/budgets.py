"""Training with finitely many particles, finite steps and samples against the mean-field equation, end to end.

The largest difference over all steps, of the risk and of test functions, is measured for several numbers of particles and steps,
and so are the three terms of the theory one by one: that of the empirical measure like `N^{-1/2}`, that of the step like `eps`
and that of the samples like `sqrt(eps / batch)`. Their constants, with what repetitions tell of them, say how many particles and
which step keep the error below a bound, and with which probability a run exceeds it.
"""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from scipy.interpolate import CubicSpline

from measureflow import checks, wording
from measureflow.annotations import Number, RandomKey
from measureflow.fields import AbstractField
from measureflow.flows import AbstractNoise, AbstractSolver, Adaptive, Euler, evolve
from measureflow.measures import Particles
from measureflow.measures.cloud import as_key
from measureflow.precision import keep_all
from measureflow.spaces import Euclidean
from measureflow.training.chaos import ErrorLaw, Power, confidence, wave
from measureflow.training.dynamics import AbstractOptimiser, StochasticDescent

QUANTILE = 0.95
"""The share of runs that a bound should cover."""

CONFIDENCE = confidence(1 - QUANTILE)
"""The confidence of a bound that covers so many."""

RESAMPLED = 200
"""Bootstrap samples behind an interval."""

CHEAP = 4_000_000
"""Particles times steps that cost less than to compile another program for them."""


def distance(theta: Float[Array, " D"]) -> Float[Array, ""]:
    """A test function that grows without bound, of Lipschitz constant one: how far a particle is from zero."""
    return jnp.sqrt(jnp.sum(theta**2))


TESTS = (wave, distance)
"""Test functions of Lipschitz constant one. The theory is for each by itself; the larger error of the two is watched."""


@final
class TrainingRule(eqx.Module):
    """How particles are trained: the field of the mean-field equation, and what a run does instead of following it.

    - `field`: a `Descent`, or another optimiser along one.
    - `batch`: data drawn at each step; none if all are used.
    - `noise`: thermal noise, if there is any.
    - `solver`: that of the mean-field equation; steps of the flow are its own.
    """

    field: AbstractOptimiser
    batch: int | None = eqx.field(static=True, default=None)
    noise: AbstractNoise | None = None
    solver: AbstractSolver = eqx.field(default_factory=lambda: Adaptive(1e-6, 1e-8))

    def exact(self, points: Float[Array, "n D"], times: Array, key: PRNGKeyArray) -> Float[Array, "k w"]:
        """What is watched along the equation with all data and accurate steps; thermal noise stays."""
        return self._watched(self.field, points, times, self.solver if self.noise is None else None, key)

    def stepped(
        self, points: Float[Array, "n D"], times: Array, step: Number, key: PRNGKeyArray
    ) -> Float[Array, "k w"]:
        """The same in steps, still with all data."""
        return self._watched(self.field, points, times, Euler(step), key)

    def sampled(
        self, points: Float[Array, "n D"], times: Array, step: Number, key: PRNGKeyArray
    ) -> Float[Array, "k w"]:
        """The same in steps on samples: what a run does."""
        if self.batch is None:
            return self.stepped(points, times, step, key)
        inner = self.field.descent
        drawn = StochasticDescent(inner.energy, key, step, self.batch, inner.profile, factor=inner.factor)
        return self._watched(self.field.along(drawn), points, times, Euler(step), key)

    def _watched(
        self, field: AbstractField, points: Array, times: Array, solver: AbstractSolver | None, key: PRNGKeyArray
    ) -> Float[Array, "k w"]:
        start = self.field.start(Particles(Euclidean(points.shape[-1]), points))
        solver = Euler((times[1] - times[0]) / FINE) if solver is None else solver
        noise = {} if self.noise is None else {"noise": self.noise, "key": key}
        return evolve(field, start, times, solver, observe=lambda mu: self._look(mu), **noise).observed

    def _look(self, mu: Particles) -> Float[Array, " w"]:
        particles = self.field.particles(mu)
        return jnp.stack([self.field.descent.energy(particles), *(particles.expect(test) for test in TESTS)])


FINE = 32
"""Steps between two frames where noise does not let a solver choose its own."""


class Largest(NamedTuple):
    """The largest difference of a run over its steps, and its squared deviation from the mean over runs where that is largest on
    average; one row a setting, one column a repetition."""

    values: np.ndarray
    squares: np.ndarray


class Term(NamedTuple):
    """Measured differences of the risk and of the test functions by number of particles or by step, and the power that the
    theory has."""

    name: str
    settings: np.ndarray
    risk: Largest
    test: Largest
    law: float

    @property
    def power(self) -> Power | None:
        """The power law of the mean difference of the risk, with an interval by repetitions, if there is anything to fit."""
        values = self.risk.values
        if not (values.mean(1) > 0).all():
            return None
        fits = [self._fit(rows) for rows in _redrawn(values.shape[1])]
        low, high = np.quantile([exponent for exponent, _ in fits], [(1 - QUANTILE) / 2, (1 + QUANTILE) / 2])
        exponent, offset = self._fit(np.arange(values.shape[1]))
        return Power(float(exponent), float(np.exp(offset)), (float(low), float(high)))

    def _fit(self, rows: np.ndarray) -> np.ndarray:
        return np.polyfit(np.log(self.settings), np.log(self.risk.values[:, rows].mean(1)), 1)

    def constant(self, rows: np.ndarray | None = None, part: str = "risk") -> float:
        """The constant in front of the theory's power, of the mean over all repetitions or over some of them."""
        return self._constant(getattr(self, part).values, rows)

    def spread(self, rows: np.ndarray | None = None, part: str = "risk") -> float:
        """The same for the root of two times the deviation: what a unit of confidence adds."""
        return float(np.sqrt(2 * self._constant(getattr(self, part).squares, rows, 2)))

    def only(self, kept: Bool[np.ndarray, " settings"]) -> "Term":
        """The term at some of its settings."""
        risk, test = (Largest(*(part[kept] for part in one)) for one in (self.risk, self.test))
        return self._replace(settings=self.settings[kept], risk=risk, test=test)

    def _constant(self, found: np.ndarray, rows: np.ndarray | None, degree: int = 1) -> float:
        chosen = found if rows is None else found[:, rows % found.shape[1]]
        means = np.maximum(chosen.mean(1), np.finfo(float).tiny)
        return float(np.exp(np.mean(np.log(means) - degree * self.law * np.log(self.settings)))) if found.any() else 0.0


class ErrorBudget(NamedTuple):
    """Training against the mean-field equation: the terms, and the whole by number of particles and step.

    `total` `(N, eps, repetition)` are the largest differences of the risk over all steps, `total_test` those of test functions;
    `deviations` `(2, N, eps)` are the standard deviations of both over runs, where they are largest.
    """

    counts: np.ndarray
    steps: np.ndarray
    batch: int
    terms: tuple[Term, Term, Term]
    total: np.ndarray
    total_test: np.ndarray
    deviations: np.ndarray
    noun: str

    @property
    def law(self) -> ErrorLaw:
        """The constants of the three terms, for the risk."""
        return self.law_of("risk")

    def law_of(self, part: str, rows: np.ndarray | None = None) -> ErrorLaw:
        """The constants for the `risk` or the `test` functions, from all repetitions or from some of them."""
        empirical, _, samples = self.terms
        a, b, c = (term.constant(rows, part) for term in self.terms)
        root = self.batch**0.5
        return ErrorLaw(a, b, c * root, empirical.spread(rows, part), samples.spread(rows, part) * root)

    @property
    def bounds(self) -> Float[np.ndarray, "N eps"]:
        """What 95% of runs stay below for each number of particles and step: the sum of the three terms at this confidence."""
        return self.bounds_of(self.law, CONFIDENCE)

    def bounds_of(self, law: ErrorLaw, z: float) -> Float[np.ndarray, "N eps"]:
        """The bounds that a law gives at a confidence, which may come from other runs."""
        return np.array([[law.error(int(n), float(e), self.batch, z) for e in self.steps] for n in self.counts])

    def only(self, counts: tuple[int, ...], steps: tuple[float, ...]) -> "ErrorBudget":
        """What was measured with these numbers of particles and steps alone."""
        rows, columns = np.isin(self.counts, counts), np.isin(self.steps, steps)
        empirical, step, samples = self.terms
        terms = empirical.only(rows), step.only(columns), samples.only(columns)
        total, test = (one[rows][:, columns] for one in (self.total, self.total_test))
        return ErrorBudget(
            self.counts[rows],
            self.steps[columns],
            self.batch,
            terms,
            total,
            test,
            self.deviations[:, rows][..., columns],
            self.noun,
        )

    @property
    def ratios(self) -> Float[np.ndarray, "N eps"]:
        """The bound over what 95% of runs were measured to stay below."""
        return self.bounds / np.quantile(self.total, QUANTILE, axis=-1)

    def covered(self) -> Float[np.ndarray, "N eps"]:
        """The share of repetitions below the bound."""
        return (self.total <= self.bounds[..., None]).mean(-1)

    def settings(self, error: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """How many particles and which step keep the error of 95% of runs below a bound, and the interval by repetitions."""
        checks.positive("error", error)
        draws = _redrawn(self.total.shape[-1])
        found = np.array([self.law_of("risk", rows).settings(error, self.batch, CONFIDENCE) for rows in draws])
        best = self.law.settings(error, self.batch, CONFIDENCE)
        low, high = np.quantile(found, [(1 - QUANTILE) / 2, (1 + QUANTILE) / 2], axis=0)
        count, step = ((float(best[k]), float(low[k]), float(high[k])) for k in (0, 1))
        return count, step

    def report(self, error: float | None = None) -> wording.Report:
        """The terms, the whole against their sum, and the answer for an error, half of the least that was met unless given."""
        rows = [
            (
                term.name,
                f"{term.constant():.3g} {law}"
                + ("" if term.power is None else f"; fitted exponent {_power(term.power)}"),
            )
            if term.risk.values.any()
            else (term.name, "none: nothing is sampled")
            for term, law in zip(self.terms, ("N^(-1/2)", "ε", "ε^(1/2)"), strict=True)
        ]
        for i, j in ((0, 0), (-1, 0), (-1, -1)):
            n, step = int(self.counts[i]), float(self.steps[j])
            whole, high = self.total[i, j].mean(), np.quantile(self.total[i, j], QUANTILE)
            text = f"{whole:.3g} on average, {high:.3g} in 95% of runs; their bound is {self.bounds[i, j]:.3g}, "
            text += f"{self.ratios[i, j]:.2f} times; test functions {self.total_test[i, j].mean():.2g}"
            rows.append((f"{n} {self.noun}, step {step:g}", text))
        target = float(self.total.mean(-1).min()) / 2 if error is None else error
        count, step = self.settings(target)
        heads, length = (f"{best:.3g} ({low:.3g} to {high:.3g})" for best, low, high in (count, step))
        answer = f"{self.noun} {heads}, step {length}"
        rows.append((f"for an error of {target:.3g}", answer))
        return wording.Report(tuple(rows))

    def __repr__(self) -> str:
        return str(self.report())

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()


def _redrawn(count: int) -> np.ndarray:
    """Repetitions drawn again with replacement, as often as an interval needs."""
    return np.random.default_rng(0).integers(0, count, (RESAMPLED, count))


def _power(found: Power) -> str:
    low, high = found.interval
    return f"{found.exponent:.2f} ({low:.2f} to {high:.2f})" if low < high else f"{found.exponent:.2f}"


def error_budget(
    rule: TrainingRule,
    pool: Particles,
    time: float,
    *,
    counts: tuple[int, ...] = (16, 64, 256),
    steps: tuple[float, ...] = (0.04, 0.02, 0.01),
    frames: int = 11,
    repeats: int = 16,
    noun: str = "particles",
    key: RandomKey = 0,
) -> ErrorBudget:
    """Measure how far training is from the mean-field equation, which a large pool of particles stands for.

    Particles of repeated runs are disjoint parts of the pool, so that they are independent. Runs are watched at every step. The
    equation has `frames`, between which a cubic spline is exact enough; steps must divide the longest of them.
    """
    counts, steps = tuple(sorted(counts)), tuple(sorted(steps, reverse=True))
    if repeats * counts[-1] > len(pool.points):
        raise ValueError(
            f"`pool` has {len(pool.points)} particles; {repeats} repetitions of {counts[-1]} need {repeats * counts[-1]}."
        )
    longest = max(1, round(time / steps[0]))
    number = {e: longest * round(steps[0] / e) for e in steps}
    nodes = jnp.linspace(0.0, longest * steps[0], min(frames, longest + 1))
    at = {e: np.arange(number[e] + 1) * e for e in steps}
    keys = jax.random.split(as_key(key), repeats)
    shape = (counts[-1], number[steps[-1]]) if repeats * counts[-1] * number[steps[-1]] <= CHEAP else None
    limit = CubicSpline(nodes, _each(rule.exact, pool.points[None], nodes, keys[:1])[0])
    groups = {n: pool.points[: repeats * n].reshape(repeats, n, -1) for n in counts}
    few, fine = counts[0], at[steps[-1]]
    exact = {n: CubicSpline(nodes, _each(rule.exact, groups[n], nodes, keys, shape=shape), axis=1) for n in counts}
    stepped = {e: _each(rule.stepped, groups[few], at[e], keys, e, shape=shape) for e in steps}
    taken = [stepped[e] - exact[few](at[e]) for e in steps]
    if rule.noise is not None:
        # Steps of different lengths follow different noise: only means over repetitions can be compared.
        taken = [one.mean(0, keepdims=True) for one in taken]
    whole = {(n, e): _each(rule.sampled, groups[n], at[e], keys, e, shape=shape) for n in counts for e in steps}
    terms = (
        _term("empirical measure", counts, [exact[n](fine) - limit(fine) for n in counts], -0.5),
        _term("step", steps, taken, 1.0),
        _term("samples", steps, [whole[few, e] - stepped[e] for e in steps], 0.5),
    )
    found = [[_largest(whole[n, e] - limit(at[e])) for e in steps] for n in counts]
    risk, test = (np.array([[one[k].values for one in row] for row in found]) for k in (0, 1))
    deviations = np.sqrt([[[one[k].squares.mean() for one in row] for row in found] for k in (0, 1)])
    return ErrorBudget(np.array(counts), np.array(steps), rule.batch or 1, terms, risk, test, deviations, noun)


def _each(
    run,
    groups: Float[Array, "r n D"],
    times: Float[ArrayLike, " k"],
    keys: Array,
    *step: float,
    shape: tuple[int, int] | None = None,
) -> Float[np.ndarray, "r k w"]:
    """A run of each group, with its own key; a step is an array.

    With a shape of particles and steps all runs are one program: fewer particles are copied, which is the same measure, and
    fewer steps go on beyond the end.
    """
    frames = np.size(times)
    if shape is not None:
        most, steps = shape
        groups = jnp.repeat(groups, most // groups.shape[1], axis=1) if most % groups.shape[1] == 0 else groups
        times = np.arange(steps + 1) * step[0] if step else times
    found = _runs(run, groups, jnp.asarray(times), keys, tuple(jnp.asarray(e) for e in step))
    return np.asarray(found)[:, :frames]


@eqx.filter_jit
def _runs(run, groups: Array, times: Array, keys: Array, step: tuple[Array, ...]) -> Array:
    return jax.vmap(lambda points, key: run(points, times, *step, key))(groups, keys)


def _term(name: str, settings: tuple[float, ...] | tuple[int, ...], differences: list[np.ndarray], law: float) -> Term:
    found = [_largest(one) for one in differences]
    risk, test = (Largest(*map(np.array, zip(*(one[k] for one in found), strict=True))) for k in (0, 1))
    return Term(name, np.array(settings, float), risk, test, law)


def _largest(differences: Float[np.ndarray, "r k w"]) -> tuple[Largest, Largest]:
    """The largest difference over the run, of the risk and of the test functions."""
    return _over_steps(differences[..., :1]), _over_steps(differences[..., 1:])


def _over_steps(differences: Float[np.ndarray, "r k w"]) -> Largest:
    repeats = len(differences)
    squares = (differences - differences.mean(0)) ** 2 * (repeats / max(repeats - 1, 1))
    flat = squares.reshape(repeats, -1)
    return Largest(np.abs(differences).max((1, 2)), flat[:, flat.mean(0).argmax()])


keep_all(globals())
