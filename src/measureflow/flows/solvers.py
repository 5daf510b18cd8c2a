"""The solvers of a flow: a method, its step control and its order.

Numbers are arrays, so that changing a step or a tolerance does not compile again. A control looks ahead to the next stop, a
frame or a jump of the field, and lands on it: frames are computed, not interpolated.
"""

import abc
import dataclasses
from typing import Any, ClassVar, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from measureflow import checks
from measureflow.flows.stepping import (
    CLASSIC,
    EULER,
    HEUN,
    TSITOURAS,
    AbstractMethod,
    Implicit,
    RungeKutta,
    Step,
    largest,
    moving,
)

TOLERANCES = {"float64": (1e-8, 1e-10), "float32": (1e-5, 1e-6)}
"""Relative and absolute tolerance by precision; in float32 a tighter one costs steps and gains nothing."""

MOST_STEPS = 100_000
"""Steps between two frames after which a flow is given up: a field that chatters would never end."""
TIGHTER = 4.0
"""How much the tolerances of the second run are smaller: a third more steps for what is left of the error to be small."""
SAFETY = 0.9
"""Adaptive steps are this much shorter than the estimate of the error asks for."""
SHRINK = 0.2
"""A step is at least this part of the one before."""
GROW = 10.0
"""A step is at most so many times as long as the one before."""


class Judged(NamedTuple):
    """Whether a step is kept, the length that the next one should have, and whether steps can go on."""

    keep: Bool[Array, ""]
    length: Float[Array, ""]
    stuck: Bool[Array, ""]


class AbstractSolver(eqx.Module):
    """How a flow is stepped."""

    order: eqx.AbstractClassVar[int]
    pauses: ClassVar[tuple[float, ...]] = ()
    """Where the second run stops on the way, in parts of its time."""

    @abc.abstractmethod
    def method(self) -> AbstractMethod:
        """The steps of the solver."""

    @abc.abstractmethod
    def first(self, mu: Any, k: Any) -> Float[Array, ""]:
        """The length of the first step from a measure that changes at a rate."""

    @abc.abstractmethod
    def until(
        self, t: Float[Array, ""], length: Float[Array, ""], left: Float[Array, ""], right: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Where a step from a time between two stops ends: at the second of them if it comes that far."""

    @abc.abstractmethod
    def judge(
        self, t0: Float[Array, ""], t1: Float[Array, ""], mu: Any, step: Step, length: Float[Array, ""]
    ) -> Judged:
        """What to do with a step, for which a length was wished."""

    @property
    def most(self) -> int | None:
        """The number of steps between two frames after which a flow is given up, if there is one."""
        return None

    def patient(self, steps: int) -> "AbstractSolver":
        """The same solver, which pauses after so many steps; with equal steps it never does."""
        return self

    @abc.abstractmethod
    def second(self) -> "AbstractSolver":
        """The same solver with other steps, to estimate an error."""

    @property
    @abc.abstractmethod
    def gain(self) -> float:
        """By how much the difference to a run with those steps exceeds the error."""

    @abc.abstractmethod
    def valid(self) -> Bool[Array, ""]:
        """Whether its numbers can be used; they are checked when it is made, unless they are traced."""

    @abc.abstractmethod
    def resolve(self, dtype: np.dtype) -> "AbstractSolver":
        """The solver with every number filled in for a precision."""


class AbstractFixedStep(AbstractSolver):
    """A solver with equal steps of at most `dt` between frames."""

    dt: eqx.AbstractVar[Float[Array, ""]]

    def __check_init__(self):
        checks.finite("dt", self.dt)
        checks.positive("dt", self.dt)

    def first(self, mu: Any, k: Any) -> Float[Array, ""]:
        """The step."""
        return self.dt

    def until(
        self, t: Float[Array, ""], length: Float[Array, ""], left: Float[Array, ""], right: Float[Array, ""]
    ) -> Float[Array, ""]:
        """The end of the next of the equal steps between two stops."""
        # The slack keeps an interval that is a whole number of steps, up to the rounding of its ends, from getting one more.
        slack = jnp.maximum(1e-6, 4 * jnp.finfo(right.dtype).eps * jnp.abs(right) / self.dt)
        count = jnp.maximum(jnp.ceil((right - left) / self.dt - slack), 1)
        done = jax.lax.stop_gradient(jnp.round((t - left) / (right - left) * count))
        return jnp.where(done + 1 >= count, right, left + (right - left) * ((done + 1) / count))

    def judge(
        self, t0: Float[Array, ""], t1: Float[Array, ""], mu: Any, step: Step, length: Float[Array, ""]
    ) -> Judged:
        """Keep every finite step; another ends the run before it."""
        finite = jnp.isfinite(largest(moving(step.mu)))
        return Judged(finite, length, ~finite)

    def second(self) -> AbstractSolver:
        """Double the step."""
        return eqx.tree_at(lambda s: s.dt, self, 2 * self.dt)

    @property
    def gain(self) -> float:
        """The other run is off by `2^order` times the error of this one (Richardson)."""
        return 2.0**self.order - 1

    def valid(self) -> Bool[Array, ""]:
        """Whether the step goes forward."""
        return self.dt > 0

    def fits(self, times: Float[Array, " k"]) -> None:
        """Refuse a step that the clock loses at late times."""
        if not checks.concrete(self.dt, times):
            return
        latest, dt = float(np.abs(times).max()), float(self.dt)
        if dt < (least := 200 * float(np.finfo(times.dtype).eps) * latest):
            raise ValueError(
                f"`dt` is {dt:g}, which {times.dtype} does not resolve at t = {latest:g}: take steps of at least {least:.2g}, "
                "begin `times` at zero, or use float64."
            )

    def resolve(self, dtype: np.dtype) -> AbstractSolver:
        """The step in the precision of the flow."""
        return eqx.tree_at(lambda s: s.dt, self, self.dt.astype(dtype))


@final
class Euler(AbstractFixedStep):
    """The explicit Euler method, order 1: a residual network.

    >>> mu = mf.Particles(mf.Euclidean(1), [[1.0]])  # one token alone: x' = x
    >>> path = mf.evolve(mf.SoftmaxAttention.isotropic(1), mu, [0.0, 1.0], mf.Euler(0.5))
    >>> path.final.points.item(), 1.5**2
    (2.25, 2.25)
    """

    order: ClassVar[int] = 1
    dt: Float[Array, ""] = eqx.field(converter=checks.floating)

    def method(self) -> AbstractMethod:
        """Euler's method."""
        return RungeKutta(EULER)


@final
class Heun(AbstractFixedStep):
    """Heun's method, order 2.

    >>> mu = mf.Particles(mf.Euclidean(1), [[1.0]])  # one token alone: x' = x
    >>> path = mf.evolve(mf.SoftmaxAttention.isotropic(1), mu, [0.0, 1.0], mf.Heun(0.5))
    >>> path.final.points.item(), (1 + 1 / 2 + 1 / 8) ** 2
    (2.640625, 2.640625)
    """

    order: ClassVar[int] = 2
    dt: Float[Array, ""] = eqx.field(converter=checks.floating)

    def method(self) -> AbstractMethod:
        """Heun's method."""
        return RungeKutta(HEUN)


@final
class RK4(AbstractFixedStep):
    """The classical Runge-Kutta method, order 4.

    >>> mu = mf.Particles(mf.Euclidean(1), [[1.0]])  # one token alone: x' = x
    >>> path = mf.evolve(mf.SoftmaxAttention.isotropic(1), mu, [0.0, 1.0], mf.RK4(1.0))
    >>> round(path.final.points.item(), 6), round(1 + 1 + 1 / 2 + 1 / 6 + 1 / 24, 6)
    (2.708333, 2.708333)
    """

    order: ClassVar[int] = 4
    dt: Float[Array, ""] = eqx.field(converter=checks.floating)

    def method(self) -> AbstractMethod:
        """The classical Runge-Kutta method."""
        return RungeKutta(CLASSIC)


class AbstractTolerance(AbstractSolver):
    """A solver that chooses its steps so that the error of each stays below `atol + rtol |x|` in every coordinate."""

    pauses: ClassVar[tuple[float, ...]] = (0.146, 0.382, 0.618, 0.854)  # else few steps could be the very same
    rtol: eqx.AbstractVar[Float[Array, ""] | None]
    atol: eqx.AbstractVar[Float[Array, ""] | None]
    most_steps: eqx.AbstractVar[int]

    def __check_init__(self):
        for name in ("rtol", "atol"):
            if (value := getattr(self, name)) is not None:
                checks.finite(name, value)
                checks.positive(name, value)
        if self.most_steps < 1:
            raise ValueError(f"`most_steps` must be at least 1; got {self.most_steps}.")

    def first(self, mu: Any, k: Any) -> Float[Array, ""]:
        """A hundredth of the time in which one of its arrays would change by its size: steps grow fast from there."""

        def time(numbers, rates):
            size, speed = self._relative(numbers, numbers), self._relative(rates, numbers)
            return jnp.where(speed == 0, jnp.inf, jnp.where(size < 1e-5, 1e-6, 0.01 * size / speed))

        return jax.lax.stop_gradient(jnp.stack(jax.tree.leaves(jax.tree.map(time, mu, k))).min())

    def until(
        self, t: Float[Array, ""], length: Float[Array, ""], left: Float[Array, ""], right: Float[Array, ""]
    ) -> Float[Array, ""]:
        """A step of the length that suits the tolerance."""
        return jnp.where(length < right - t, t + length, right)

    def judge(
        self, t0: Float[Array, ""], t1: Float[Array, ""], mu: Any, step: Step, length: Float[Array, ""]
    ) -> Judged:
        """Keep a step whose error is below the tolerance, and change its length to suit.

        The error is seen in the maximum norm: in a mean norm one token in a million could be lost. A step that ended early,
        at a stop, says little about the length of the next. Steps that no longer move time end the run.
        """
        size = self._relative(*map(moving, (step.error, mu, step.mu)))
        size = jax.lax.stop_gradient(jnp.where(step.good & jnp.isfinite(size), size, jnp.inf))
        keep, taken = size < 1, jax.lax.stop_gradient(t1 - t0)
        factor = jnp.clip(SAFETY * size ** (-1 / self.order), SHRINK, jnp.where(keep, GROW, 1.0))
        next_ = jnp.where(keep & (taken < length), jnp.maximum(length, factor * taken), factor * taken)
        spacing = jnp.finfo(next_.dtype).eps * jnp.abs(t1)
        return Judged(keep, next_, jnp.where(keep, t1 + next_ <= t1, next_ <= 4 * spacing))

    def _relative(self, difference: Any, *measures: Any) -> Float[Array, ""]:
        """The largest number of a difference, each relative to the tolerance for it."""
        if self.rtol is None or self.atol is None:
            raise ValueError("The tolerances are not filled in; call `resolve` first.")
        rtol, atol = self.rtol, self.atol
        sizes = jax.tree.map(lambda *leaves: jnp.stack([jnp.abs(leaf) for leaf in leaves]).max(0), *measures)
        return largest(jax.tree.map(lambda e, size: e / (atol + rtol * size), difference, sizes))

    @property
    def most(self) -> int | None:
        """`most_steps`."""
        return self.most_steps

    def patient(self, steps: int) -> AbstractSolver:
        """The same with fewer steps at most."""
        return dataclasses.replace(self, most_steps=min(steps, self.most_steps))

    def second(self) -> AbstractSolver:
        """Tighten by `TIGHTER`. A looser run would cost less, but where the leading terms of its error cancel, as they do for
        plain growth, it would say nothing of this one."""
        known = lambda tolerance: np.asarray(tolerance) if checks.concrete(tolerance) else tolerance  # noqa: E731
        return jax.tree.map(lambda tolerance: checks.cast(known(tolerance) / TIGHTER, tolerance.dtype), self)

    @property
    def gain(self) -> float:
        """The error is proportional to the tolerance, so the other run is off by `1 / TIGHTER` of the error of this one."""
        return 1 - 1 / TIGHTER

    def resolve(self, dtype: np.dtype) -> AbstractSolver:
        """The tolerances given, or those that suit the precision."""
        if np.dtype(dtype).name not in TOLERANCES:
            raise ValueError(
                f"Flows run in {' or '.join(TOLERANCES)}; got {np.dtype(dtype).name}. Convert with `astype`."
            )
        rtol, atol = TOLERANCES[np.dtype(dtype).name]
        rtol = rtol if self.rtol is None else self.rtol
        atol = (
            (min(atol, float(rtol)) if checks.concrete(rtol) else jnp.minimum(atol, rtol))
            if self.atol is None
            else self.atol
        )
        floor = 10 * np.finfo(dtype).eps
        if checks.concrete(rtol) and float(rtol) < floor:
            raise ValueError(
                f"`rtol` must be at least {floor:.2g} (ten times the spacing of {np.dtype(dtype).name}); got "
                f"{float(rtol):.2g}. Rounding would be all that is left to control."
            )
        tolerances = {"rtol": checks.cast(rtol, dtype), "atol": checks.cast(atol, dtype)}
        return dataclasses.replace(self, **tolerances)

    def valid(self) -> Bool[Array, ""]:
        """Whether the tolerances are positive."""
        return jnp.stack([jnp.asarray(value) for value in (self.rtol, self.atol) if value is not None]).min() > 0


def _tolerance(value) -> Array | None:
    return None if value is None else checks.floating(value)


@final
class Adaptive(AbstractTolerance):
    """An explicit Runge-Kutta method of order 5 with adaptive steps: the default.

    A flow ends with an outcome that says so when it needs more than `most_steps` between two frames.

    >>> mu = mf.Particles(mf.Euclidean(1), [[1.0]])  # one token alone: x' = x
    >>> path = mf.evolve(mf.SoftmaxAttention.isotropic(1), mu, [0.0, 1.0], mf.Adaptive(rtol=1e-8))
    >>> round(path.final.points.item(), 6), round(np.e, 6)
    (2.718282, 2.718282)
    """

    order: ClassVar[int] = 5
    rtol: Float[Array, ""] | None = eqx.field(converter=_tolerance, default=None)
    atol: Float[Array, ""] | None = eqx.field(converter=_tolerance, default=None)
    most_steps: int = eqx.field(static=True, default=MOST_STEPS)

    def method(self) -> AbstractMethod:
        """Tsitouras' method."""
        return RungeKutta(TSITOURAS)


@final
class Stiff(AbstractTolerance):
    """An implicit method of order 5 with adaptive steps, for metastable flows of few tokens.

    Each step solves a dense system of all coordinates: meant for `n d` up to about 2000. `most_steps` as in `Adaptive`.

    >>> mu = mf.Particles(mf.Euclidean(1), [[1.0]])  # one token alone: x' = x
    >>> path = mf.evolve(mf.SoftmaxAttention.isotropic(1), mu, [0.0, 1.0], mf.Stiff())
    >>> round(path.final.points.item(), 6), round(np.e, 6)
    (2.718282, 2.718282)
    """

    order: ClassVar[int] = 5
    rtol: Float[Array, ""] | None = eqx.field(converter=_tolerance, default=None)
    atol: Float[Array, ""] | None = eqx.field(converter=_tolerance, default=None)
    most_steps: int = eqx.field(static=True, default=MOST_STEPS)

    def method(self) -> AbstractMethod:
        """Kværnø's method with Newton iterations; chord iterations fail half their steps here."""
        import diffrax as dfx
        import optimistix as optx

        newton = optx.Newton(self.rtol, self.atol, norm=largest)  # pyright: ignore[reportArgumentType]
        return Implicit(dfx.Kvaerno5(root_finder=newton))
