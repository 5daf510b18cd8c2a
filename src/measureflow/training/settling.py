"""Training with finitely many particles, finite steps and samples against the mean-field equation, end to end.

The largest difference over the run, of the risk and of a test function, is measured for several numbers of particles and steps,
and so are the three terms of the theory one by one: that of the empirical measure like `N^{-1/2}`, that of the step like `eps`
and that of the samples like `sqrt(eps / batch)`. Their constants, with what repetitions tell of them, say how many particles and
which step keep the error below a bound.
"""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from measureflow import checks, wording
from measureflow.annotations import Number, RandomKey
from measureflow.fields import AbstractField
from measureflow.flows import AbstractSolver, Adaptive, Euler, Langevin, evolve
from measureflow.measures import Particles
from measureflow.measures.cloud import as_key
from measureflow.precision import keep_all
from measureflow.spaces import Euclidean
from measureflow.training.chaos import Budget, Power, wave
from measureflow.training.dynamics import Adam, Descent, HeavyBall, StochasticDescent, extended, marginal

QUANTILE = 0.95
"""The share of repetitions that a bound should cover."""

RESAMPLED = 200
"""Bootstrap samples behind an interval."""


@final
class Practice(eqx.Module):
    """How particles are trained: the field of the mean-field equation, and what a run does instead of it.

    - `field`: a `Descent`, or momentum or Adam of one.
    - `batch`: data drawn at each step; none if all are used.
    - `noise`: thermal noise, if there is any.
    - `solver`: that of the mean-field equation; steps of the flow are its own.
    """

    field: Descent | HeavyBall | Adam
    batch: int | None = eqx.field(static=True, default=None)
    noise: Langevin | None = None
    solver: AbstractSolver = eqx.field(default_factory=lambda: Adaptive(1e-6, 1e-8))

    @property
    def descent(self) -> Descent:
        """The descent within."""
        inner = self.field if isinstance(self.field, Descent) else self.field.field
        assert isinstance(inner, Descent)
        return inner

    @property
    def vectors(self) -> int:
        """How many vectors a particle has, with velocities or averages."""
        return 1 if isinstance(self.field, Descent) else 2 if isinstance(self.field, HeavyBall) else 3

    def exact(self, points: Float[Array, "n D"], times: Array, key: PRNGKeyArray) -> Float[Array, "k 2"]:
        """What is watched along the equation with all data and accurate steps; thermal noise stays."""
        return self._watched(self.field, points, times, self.solver if self.noise is None else None, key)

    def stepped(
        self, points: Float[Array, "n D"], times: Array, step: Number, key: PRNGKeyArray
    ) -> Float[Array, "k 2"]:
        """The same in steps, still with all data."""
        return self._watched(self.field, points, times, Euler(step), key)

    def sampled(
        self, points: Float[Array, "n D"], times: Array, step: Number, key: PRNGKeyArray
    ) -> Float[Array, "k 2"]:
        """The same in steps on samples: what a run does."""
        if self.batch is None:
            return self.stepped(points, times, step, key)
        inner = self.descent
        drawn = StochasticDescent(inner.energy, key, step, self.batch, inner.profile, factor=inner.factor)
        field = drawn if isinstance(self.field, Descent) else eqx.tree_at(lambda f: f.field, self.field, drawn)
        return self._watched(field, points, times, Euler(step), key)

    def _watched(
        self, field: AbstractField, points: Array, times: Array, solver: AbstractSolver | None, key: PRNGKeyArray
    ) -> Float[Array, "k 2"]:
        mu = Particles(Euclidean(points.shape[-1]), points)
        start = mu if self.vectors == 1 else extended(mu, self.vectors - 1)
        solver = Euler((times[1] - times[0]) / FINE) if solver is None else solver
        noise = {} if self.noise is None else {"noise": self.noise, "key": key}
        return evolve(field, start, times, solver, **noise).map(self._look)

    def _look(self, mu: Particles) -> Float[Array, " 2"]:
        mu = mu if self.vectors == 1 else marginal(mu, self.vectors)
        return jnp.stack([self.descent.energy(mu), mu.expect(wave)])


FINE = 32
"""Steps between two frames where noise does not let a solver choose its own."""


class Term(NamedTuple):
    """Measured largest differences by number of particles or by step: `risk` and `test` have one row a setting, one column a
    repetition; the fitted power of the risk, and the exponent of the theory."""

    name: str
    settings: np.ndarray
    risk: np.ndarray
    test: np.ndarray
    law: float

    @property
    def power(self) -> Power | None:
        """The power law of the mean difference of the risk, with an interval by repetitions, if there is anything to fit."""
        if not (self.risk.mean(1) > 0).all():
            return None
        fits = [self._fit(rows) for rows in _redrawn(self.risk.shape[1])]
        low, high = np.quantile([exponent for exponent, _ in fits], [(1 - QUANTILE) / 2, (1 + QUANTILE) / 2])
        exponent, offset = self._fit(np.arange(self.risk.shape[1]))
        return Power(float(exponent), float(np.exp(offset)), (float(low), float(high)))

    def _fit(self, rows: np.ndarray) -> np.ndarray:
        return np.polyfit(np.log(self.settings), np.log(self.risk[:, rows].mean(1)), 1)

    def constant(self, rows: np.ndarray | None = None) -> float:
        """The constant in front of the theory's power, from all repetitions or from some of them."""
        chosen = self.risk if rows is None else self.risk[:, rows % self.risk.shape[1]]
        means = np.maximum(chosen.mean(1), np.finfo(float).tiny)
        return float(np.exp(np.mean(np.log(means) - self.law * np.log(self.settings)))) if self.risk.any() else 0.0


class Settlement(NamedTuple):
    """Training against the mean-field equation: the terms, and the whole by number of particles and step.

    `total` `(N, eps, repetition)` are the largest differences of the risk over the run, `total_test` those of the test function.
    """

    counts: np.ndarray
    steps: np.ndarray
    batch: int
    terms: tuple[Term, Term, Term]
    total: np.ndarray
    total_test: np.ndarray
    noun: str

    @property
    def budget(self) -> Budget:
        """The constants of the three terms."""
        return self._budget(None)

    def _budget(self, rows: np.ndarray | None) -> Budget:
        a, b, c = (term.constant(rows) for term in self.terms)
        return Budget(a, b, c * self.batch**0.5)

    @property
    def bounds(self) -> Float[np.ndarray, "N eps"]:
        """The sum of the three terms for each number of particles and step."""
        found = self.budget
        return np.array([[found.error(int(n), float(e), self.batch) for e in self.steps] for n in self.counts])

    @property
    def ratios(self) -> Float[np.ndarray, "N eps"]:
        """The bound over what was measured on average."""
        return self.bounds / self.total.mean(-1)

    def covered(self) -> Float[np.ndarray, "N eps"]:
        """The share of repetitions below the bound."""
        return (self.total <= self.bounds[..., None]).mean(-1)

    def settings(self, error: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """How many particles and which step keep the error below a bound: the answer, and its interval by repetitions."""
        checks.positive("error", error)
        draws = _redrawn(self.total.shape[-1])
        found = np.array([self._budget(rows).settings(error, self.batch) for rows in draws])
        best = self.budget.settings(error, self.batch)
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
            if term.risk.any()
            else (term.name, "none: nothing is sampled")
            for term, law in zip(self.terms, ("N^(-1/2)", "ε", "ε^(1/2)"), strict=True)
        ]
        for i, j in ((0, 0), (-1, 0), (-1, -1)):
            n, step = int(self.counts[i]), float(self.steps[j])
            whole, high = self.total[i, j].mean(), np.quantile(self.total[i, j], QUANTILE)
            text = f"{whole:.3g} on average, {high:.3g} in 95% of runs; the sum of terms is {self.bounds[i, j]:.3g}, "
            text += f"{self.ratios[i, j]:.2f} times; test function {self.total_test[i, j].mean():.2g}"
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


def settle(
    practice: Practice,
    pool: Particles,
    time: float,
    *,
    counts: tuple[int, ...] = (16, 64, 256),
    steps: tuple[float, ...] = (0.04, 0.02, 0.01),
    frames: int = 11,
    repeats: int = 16,
    noun: str = "particles",
    key: RandomKey = 0,
) -> Settlement:
    """Measure how far training is from the mean-field equation, which a large pool of particles stands for.

    Particles of repeated runs are disjoint parts of the pool, so that they are independent. Frames are at multiples of the
    longest step, which the others must divide.
    """
    counts, steps = tuple(sorted(counts)), tuple(sorted(steps, reverse=True))
    if repeats * counts[-1] > len(pool.points):
        raise ValueError(
            f"`pool` has {len(pool.points)} particles; {repeats} repetitions of {counts[-1]} need {repeats * counts[-1]}."
        )
    each = max(1, round(time / steps[0] / (frames - 1)))
    times = jnp.asarray(steps[0] * each * np.arange(frames))
    keys = jax.random.split(as_key(key), repeats)
    limit = eqx.filter_jit(practice.exact)(pool.points, times, keys[0])
    groups = {n: pool.points[: repeats * n].reshape(repeats, n, -1) for n in counts}
    few = counts[0]
    exact = {n: _each(practice.exact, groups[n], times, keys) for n in counts}
    stepped = {e: _each(practice.stepped, groups[few], times, keys, e) for e in steps}
    taken = [stepped[e] - exact[few] for e in steps]
    if practice.noise is not None:
        # Steps of different lengths follow different noise: only means over repetitions can be compared.
        taken = [one.mean(0, keepdims=True) for one in taken]
    total = {(n, e): _each(practice.sampled, groups[n], times, keys, e) for n in counts for e in steps}
    terms = (
        _term("empirical measure", counts, [exact[n] - limit[None] for n in counts], -0.5),
        _term("step", steps, taken, 1.0),
        _term("samples", steps, [total[few, e] - stepped[e] for e in steps], 0.5),
    )
    risk, test = (
        np.array([[_largest(total[n, e] - limit[None])[part] for e in steps] for n in counts]) for part in (0, 1)
    )
    return Settlement(np.array(counts), np.array(steps), practice.batch or 1, terms, risk, test, noun)


def _each(run, groups: Float[Array, "r n D"], times: Array, keys: Array, *step: float) -> Float[Array, "r k 2"]:
    """A run of each group, with its own key; a step is an array, so that all steps are one program."""
    return _runs(run, groups, times, keys, tuple(jnp.asarray(e) for e in step))


@eqx.filter_jit
def _runs(run, groups: Array, times: Array, keys: Array, step: tuple[Array, ...]) -> Array:
    return jax.vmap(lambda points, key: run(points, times, *step, key))(groups, keys)


def _term(name: str, settings: tuple[float, ...] | tuple[int, ...], differences: list[Array], law: float) -> Term:
    risk, test = (np.array([_largest(one)[part] for one in differences]) for part in (0, 1))
    return Term(name, np.array(settings, float), risk, test, law)


def _largest(differences: Float[Array, "r k 2"]) -> Float[np.ndarray, "2 r"]:
    """The largest difference over the run, for the risk and for the test function."""
    return np.abs(np.asarray(differences)).max(1).T


keep_all(globals())
