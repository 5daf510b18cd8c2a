"""The solvers of a flow: a method, its step control and its order.

Numbers are arrays, so that changing a step or a tolerance does not compile again.
"""

import abc
import dataclasses
from typing import ClassVar, final

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
from jaxtyping import Array, Bool, Float

from measureflow import checks
from measureflow.flows.stepping import ClassicRK4, EvenSteps, Resolved, largest

TOLERANCES = {"float64": (1e-8, 1e-10), "float32": (1e-5, 1e-6)}
"""Relative and absolute tolerance by precision; in float32 a tighter one costs steps and gains nothing."""

MOST_STEPS = 100_000
"""Steps between two frames after which a flow is given up: a field that chatters would never end."""
TIGHTER = 4.0
"""How much the tolerances of the second run are smaller: a third more steps for what is left of the error to be small."""


class AbstractSolver(eqx.Module):
    """How a flow is stepped."""

    order: eqx.AbstractClassVar[int]
    pauses: ClassVar[tuple[float, ...]] = ()
    """Where the second run stops on the way, in parts of its time."""

    @abc.abstractmethod
    def method(self) -> dfx.AbstractSolver:
        """The diffrax method behind the solver."""

    @abc.abstractmethod
    def controller(self, stops: Float[Array, " k"], jumps: Float[Array, " j"]) -> dfx.AbstractStepSizeController:
        """The step control, which lands on every stop and does not step across a jump of the field."""

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

    def controller(self, stops: Float[Array, " k"], jumps: Float[Array, " j"]) -> dfx.AbstractStepSizeController:
        """Equal steps between the stops; a step that ends at a jump ends just before it."""
        return EvenSteps(self.dt, jnp.sort(jnp.concatenate([stops, jumps, jnp.nextafter(jumps, -jnp.inf)])))

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
        """Refuse a step that the clock loses at late times: diffrax joins what lies within 100 spacings of the last."""
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
    """The explicit Euler method, order 1: a residual network."""

    order: ClassVar[int] = 1
    dt: Float[Array, ""] = eqx.field(converter=checks.floating)

    def method(self) -> dfx.AbstractSolver:
        """Euler's method."""
        return dfx.Euler()


@final
class Heun(AbstractFixedStep):
    """Heun's method, order 2."""

    order: ClassVar[int] = 2
    dt: Float[Array, ""] = eqx.field(converter=checks.floating)

    def method(self) -> dfx.AbstractSolver:
        """Heun's method."""
        return dfx.Heun()


@final
class RK4(AbstractFixedStep):
    """The classical Runge-Kutta method, order 4."""

    order: ClassVar[int] = 4
    dt: Float[Array, ""] = eqx.field(converter=checks.floating)

    def method(self) -> dfx.AbstractSolver:
        """The classical Runge-Kutta method."""
        return ClassicRK4()


class AbstractTolerance(AbstractSolver):
    """A solver that chooses its steps so that the error of each stays below `atol + rtol |x|` in every coordinate."""

    pauses: ClassVar[tuple[float, ...]] = (0.382,)  # else, where few steps are enough, it could take the very same
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

    def controller(self, stops: Float[Array, " k"], jumps: Float[Array, " j"]) -> dfx.AbstractStepSizeController:
        """Steps from the local error in the maximum norm: in a mean norm one token in a million could be lost."""
        if self.rtol is None or self.atol is None:
            raise ValueError("The tolerances are not filled in; call `resolve` first.")
        pid = dfx.PIDController(rtol=self.rtol, atol=self.atol, norm=largest)
        # A frame at a jump would add a step of one rounding error, from which the control recovers slowly.
        stops = jnp.where(jnp.isin(stops, jumps), stops[0], stops)
        clip = dfx.ClipStepSizeController(pid, step_ts=stops, jump_ts=jumps if len(jumps) else None)
        return Resolved(controller=clip, most=self.most_steps * len(stops))  # pyright: ignore[reportCallIssue]

    def second(self) -> AbstractSolver:
        """Tighten by `TIGHTER`. A looser run would cost less, but where the leading terms of its error cancel, as they do for
        plain growth, it would say nothing of this one."""
        return jax.tree.map(lambda tolerance: tolerance / TIGHTER, self)

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
        atol = jnp.minimum(atol, rtol) if self.atol is None else self.atol
        floor = 10 * np.finfo(dtype).eps
        if checks.concrete(rtol) and float(rtol) < floor:
            raise ValueError(
                f"`rtol` must be at least {floor:.2g} (ten times the spacing of {np.dtype(dtype).name}); got "
                f"{float(rtol):.2g}. Rounding would be all that is left to control."
            )
        tolerances = {"rtol": jnp.asarray(rtol, dtype), "atol": jnp.asarray(atol, dtype)}
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
    """

    order: ClassVar[int] = 5
    rtol: Float[Array, ""] | None = eqx.field(converter=_tolerance, default=None)
    atol: Float[Array, ""] | None = eqx.field(converter=_tolerance, default=None)
    most_steps: int = eqx.field(static=True, default=MOST_STEPS)

    def method(self) -> dfx.AbstractSolver:
        """Tsitouras' method."""
        return dfx.Tsit5()


@final
class Stiff(AbstractTolerance):
    """An implicit method of order 5 with adaptive steps, for metastable flows of few tokens.

    Each step solves a dense system of all coordinates: meant for `n d` up to about 2000. `most_steps` as in `Adaptive`.
    """

    order: ClassVar[int] = 5
    rtol: Float[Array, ""] | None = eqx.field(converter=_tolerance, default=None)
    atol: Float[Array, ""] | None = eqx.field(converter=_tolerance, default=None)
    most_steps: int = eqx.field(static=True, default=MOST_STEPS)

    def method(self) -> dfx.AbstractSolver:
        """Kværnø's method with Newton iterations; the chord iterations of the default fail half their steps here."""
        newton = dfx.with_stepsize_controller_tols(optx.Newton)
        return dfx.Kvaerno5(root_finder=newton())
