"""What a flow is made of: kinds and sizes that fit, refused with a sentence where they do not, and all in one precision."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from measureflow import checks
from measureflow.fields import AbstractField
from measureflow.fields.depth import until
from measureflow.flows.leg import Keeping
from measureflow.flows.noise import AbstractNoise
from measureflow.flows.solvers import AbstractFixedStep, AbstractSolver, AbstractTolerance, Adaptive
from measureflow.flows.trajectory import Measure
from measureflow.measures import AbstractCloud, AbstractMeasure


def check_kinds(field: Any, start: Any, noise: Any, called: str = "evolve(field, mu0, times)") -> None:
    """Refuse arguments that are something else, with a word on what they should be."""
    if isinstance(field, AbstractMeasure) and isinstance(start, AbstractField):
        raise TypeError(f"The field comes first and the measure second: `{called}`.")
    if not isinstance(field, AbstractField):
        raise TypeError(f"`field` must be a field, such as `SoftmaxAttention.isotropic(3)`; got {field!r}.")
    if not isinstance(start, AbstractMeasure):
        raise TypeError(f"`mu0` must be a measure, such as `Particles(space, points)`; got {type(start).__name__}.")
    if noise is not None and not isinstance(noise, AbstractNoise):
        raise TypeError(f"`noise` must be a noise, such as `Langevin(0.1)`; got {noise!r}.")


def check_observe(keeping: Keeping, mu: AbstractMeasure) -> None:
    """Say so if it is what observes that cannot be compiled."""
    for name, look in (("observe", keeping), ("events", keeping.sides)):
        try:
            jax.eval_shape(look, mu)
        except jax.errors.JAXTypeError:
            raise ValueError(
                f"`{name}` is computed while the flow runs, so it must be made of JAX operations; this one looks at numbers. "
                "Keep the frames and use `path.map`."
            ) from None


def check_end(field: AbstractField, times: Float[Array, " k"]) -> None:
    """Refuse times after the one up to which a schedule is known."""
    if checks.concrete(times) and (end := float(np.asarray(times)[-1])) > (known := until(field)) * (1 + 1e-6):
        raise ValueError(f"`field` has a schedule until t = {known:g}, but `times` go to {end:g}.")


def check_fit(field: AbstractField, mu: AbstractCloud, t: Float[Array, ""]) -> None:
    """Say so if it is the field itself that cannot be computed for such tokens."""
    try:
        jax.eval_shape(lambda xs: field(t, xs, mu), mu.points)
    except (TypeError, ValueError) as error:
        said = str(error).strip().split("\n")[0].rstrip(".")
        raise ValueError(
            f"`field` gives no velocity to tokens of {mu.points.shape[-1]} coordinates ({said}). Do their sizes agree?"
        ) from error


def in_precision_of(mu: PyTree, field: AbstractField) -> AbstractField:
    """The field with its numbers in the floating point type of a measure."""
    dtype = precision(mu)
    return jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, field)


def precision(tree: PyTree) -> np.dtype:
    """The floating point type of the numbers of a tree."""
    return jnp.result_type(*jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array)))


def resolved(solver: AbstractSolver | None, dtype: np.dtype, times: Float[Array, " k"]) -> AbstractSolver:
    """The solver with its numbers filled in, after a look at whether its steps suit the times."""
    if solver is not None and not isinstance(solver, AbstractSolver):
        raise TypeError(f"`solver` must be a solver such as `Adaptive()` or `Euler(0.1)`; got {solver!r}.")
    solver = (Adaptive() if solver is None else solver).resolve(dtype)
    if isinstance(solver, AbstractFixedStep):
        solver.fits(times)
    return solver


def summed(mu: Measure, solver: AbstractSolver) -> Measure:
    """A measure whose sums, where they have an error of their own, keep a hundredth of the tolerance of the solver."""
    if not (isinstance(mu, AbstractCloud) and isinstance(solver, AbstractTolerance)) or mu.summing.exact:
        return mu
    rtol = solver.rtol
    return mu.using(mu.engine.within(float(rtol) / 100 if rtol is not None and checks.concrete(rtol) else None))
