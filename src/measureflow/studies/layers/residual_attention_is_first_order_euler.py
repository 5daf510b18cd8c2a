"""A residual network is the explicit Euler method: with more and thinner layers it tends to a flow, at first order."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import AbstractAttention, SoftmaxAttention
from measureflow.flows import AbstractSolver, Adaptive, Euler, Trajectory, evolve, layers
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal

CLAIM = Claim(
    "Stacked residual attention layers are an explicit Euler scheme of the token equation.",
    reference="geshkovski:25",
    where="slides on attention as dynamics of the lecture deck; introduction",
)

DEPTHS = (16, 32, 64)


def flow_at_one(attention: AbstractAttention, mu: Particles, solver: AbstractSolver) -> Float[Array, "n d"]:
    """The tokens at time 1."""
    return points_of(evolve(attention, mu, [0.0, 1.0], solver))


def points_of(path: Trajectory) -> Float[Array, "n d"]:
    """The tokens at the end of a flow."""
    return path.final.points


@eqx.filter_jit
@jax.vmap
def outputs(key: Array) -> tuple[Float[Array, "depths n d"], Float[Array, "depths n d"], Float[Array, "n d"]]:
    """From one random start: the stacks of each depth, Euler's method with as many steps, and the flow."""
    attention, mu = SoftmaxAttention.isotropic(2, beta=1.0), Particles.iid(Euclidean(2), 8, key=key)
    stacks = jnp.stack([points_of(layers(attention, mu, depth, 1 / depth)) for depth in DEPTHS])
    euler = jax.vmap(lambda dt: flow_at_one(attention, mu, Euler(dt)))(1 / jnp.array(DEPTHS, float))
    return stacks, euler, flow_at_one(attention, mu, Adaptive(1e-12, 1e-12))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Compare stacks of three depths with Euler's method and with the flow up to time 1, for 20 starts."""
    stacks, euler, flow = map(np.asarray, outputs(jax.random.split(jax.random.key(seed), 20)))
    errors = np.linalg.norm(stacks - flow[:, None], axis=(2, 3))
    return CLAIM.judge(
        # Finite depths are not yet in the limit, and how far depends on the tokens (one start in five is off by more than
        # the tolerance): hence the median.
        equal("order of the error", [1.0, 1.0], np.median(np.log2(errors[:, :-1] / errors[:, 1:]), axis=0), 0.05),
        equal("stack against Euler's method", 0.0, np.abs(stacks - euler).max(), 1e-12),  # rounding of 64 steps
        data=errors,
    )


def draw(errors: np.ndarray) -> Figure:
    """The error of stacks against their depth, for some starts and in the median."""
    depth = np.array(DEPTHS, float)
    named = {"median of 20 starts": np.median(errors, axis=0)} | {f"start {i + 1}": errors[i] for i in range(3)}
    curves = [Curve(name, depth, error, error[0] * depth[0] / depth) for name, error in named.items()]
    return curves_figure(curves, "layers", "distance to the flow at time 1", log="xy", law=r"$\propto$ 1/layers")
