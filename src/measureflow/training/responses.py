"""Best responses: the particle of least `Psi(.; mu)` in a compact set.

Trained outputs have their best value in closed form, for heads `-rho^2 u v^T` with the top singular pair of `G`, for neurons
`-rho g / |g|`; only the other parameters are searched, which is not convex. A search from many starts finds a particle and proves
nothing. Where nothing is left to search the closed form is the proof; with few parameters left branch and bound proves how much
better any other particle can be.
"""

from typing import Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from measureflow import checks
from measureflow.annotations import RandomKey
from measureflow.energies import AbstractEnergy
from measureflow.measures import Particles
from measureflow.measures.cloud import as_key
from measureflow.precision import keep_all
from measureflow.spaces import AbstractSpace
from measureflow.training.families import Theta
from measureflow.training.landscape import AbstractLandscape, Enclosure, enclose
from measureflow.training.risk import AbstractRisk, Ridge, parts


class Response(NamedTuple):
    """The particle with the least `Psi` that is known, and how low `Psi` can be.

    `bound <= min Psi <= value` if `proof` is `proved-LMO`; the bound of a search is its value, which is a hope. `rivals` are the
    least values that the search ended in, `boxes` counts the boxes of branch and bound.
    """

    particle: Theta
    value: float
    bound: float
    rivals: np.ndarray
    proof: Literal["heuristic-LMO", "proved-LMO"] = "heuristic-LMO"
    boxes: int = 0

    def __repr__(self) -> str:
        if self.proof == "proved-LMO":
            return f"min Ψ is between {self.bound:.6g} and {self.value:.6g} (proved-LMO, {self.boxes} boxes)"
        return f"the least Ψ found is {self.value:.6g} (heuristic-LMO)"


def best_response(
    risk: AbstractEnergy,
    mu: Particles,
    space: AbstractSpace,
    *,
    prove: float | None = None,
    starts: int = 192,
    steps: int = 300,
    boxes: int = 2_000_000,
    key: RandomKey = 0,
) -> Response:
    """The particle of least `Psi(.; mu)` in a compact set, by projected descent from many starts.

    - `risk`: a risk, or one plus weight decay, which then counts in `Psi`.
    - `prove`: branch until value and bound differ by at most this. For `ScoreHeads` of up to four parameters, `FullHeads` on
      tokens of two coordinates, and neurons of up to four inputs; `ValueHeads` have a closed form and need no search.
    - `boxes`: where branching stops. The bound then still holds, but is farther from the value.
    """
    convex, ridge = parts(risk)
    cotangents = eqx.filter_jit(convex.cotangents)(mu)
    slope = Slope.of(convex, cotangents, space, ridge)
    return respond(slope, prove=prove, starts=starts, steps=steps, boxes=boxes, key=key)


@final
class Slope(eqx.Module):
    """`Psi` for given cotangents on a compact set: what is searched for its least value.

    `decay` has the weight decay by blocks; it is nothing where decay is not one number on each block, and then outputs are
    searched like all else.
    """

    risk: AbstractRisk
    cotangents: Array
    space: AbstractSpace
    ridge: Ridge | None
    radii: dict[str, Float[Array, ""]]
    decay: dict[str, Float[Array, ""]] | None

    @classmethod
    def of(cls, risk: AbstractRisk, cotangents: Array, space: AbstractSpace, ridge: Ridge | None) -> "Slope":
        """That of a risk with weight decay or without; a set that is not compact is refused."""
        if not space.compact:
            raise ValueError(
                f"`space` must be compact for a best response to exist; got {type(space).__name__}. Use "
                f"`{risk.family.noun}.balls({', '.join(f'{block}=...' for block in risk.family.shapes)})`, or "
                "`ridge_criterion` for weight decay."
            )
        if space.dim != risk.family.size:
            raise ValueError(
                f"`space` has {space.dim} coordinates; the {risk.family.noun} have {risk.family.size} parameters."
            )
        decay = {} if ridge is None else ridge.by_block(risk.family)
        return cls(risk, cotangents, space, ridge, risk.family.radii(space), decay)

    def __call__(self, theta: Theta) -> Float[Array, ""]:
        """The value at a particle."""
        value = self.risk.against(self.cotangents, theta[None])[0]
        return value if self.ridge is None else value + self.ridge.penalty(theta[None])[0]

    def settled(self, theta: Theta) -> Theta:
        """A particle of the set, with its best output where that is known."""
        theta = self.space.project(theta)
        if not self.radii or self.decay is None:
            return theta
        return self.risk.best_output(self.cotangents, self.radii, self.decay, theta)

    @property
    def closed(self) -> bool:
        """Whether the best outputs are all there is to find."""
        known = set(self.risk.family.linear) == set(self.risk.family.shapes)
        return known and bool(self.radii) and self.decay is not None


def respond(
    slope: Slope,
    *,
    prove: float | None = None,
    starts: int = 192,
    steps: int = 300,
    boxes: int = 2_000_000,
    key: RandomKey = 0,
) -> Response:
    """The least value of a slope."""
    if slope.closed:
        return _closed(slope)
    heights = None if prove is None else _landscape(slope, prove)
    particles, values = _search(slope, as_key(key), starts, steps)
    order = np.argsort(np.asarray(values))
    value = float(values[order[0]])
    found = Response(particles[order[0]], value, value, np.asarray(values)[order[:5]])
    if prove is None or heights is None:
        return found
    return _proved(slope, found, enclose(heights, -value, prove, boxes))


def _landscape(slope: Slope, prove: float) -> AbstractLandscape:
    checks.positive("prove", prove)
    if slope.ridge is not None:
        raise ValueError(
            "`prove` is for a risk without weight decay; leave `prove` out, or the decay and keep particles in balls."
        )
    heights = eqx.filter_jit(slope.risk.landscape)(slope.cotangents, slope.radii)
    if heights is None:
        raise ValueError(
            f"`prove` needs {slope.risk.provable} in a {type(slope.space).__name__}. Leave `prove` out for a search without "
            "proof."
        )
    return heights


def _closed(slope: Slope) -> Response:
    """The best particle where outputs are all there is: `min Psi = -rho_V rho_O sigma_max(G)` for heads with frozen scores."""
    theta, value = _completed(slope, jnp.zeros(slope.risk.family.size, slope.cotangents.dtype))
    return Response(theta, float(value), float(value), np.array([value]), "proved-LMO")


def _proved(slope: Slope, found: Response, within: Enclosure) -> Response:
    """A response with the bound of branch and bound, and with the better particle if branching met one."""
    if within.point is not None:
        theta = eqx.filter_jit(slope.risk.located)(jnp.asarray(within.point), slope.radii)
        theta, value = _completed(slope, theta)
        found = found._replace(particle=theta, value=float(value))
    return found._replace(bound=-within.upper, proof="proved-LMO", boxes=within.boxes)


@eqx.filter_jit
def _completed(slope: Slope, theta: Theta) -> tuple[Theta, Float[Array, ""]]:
    """A particle in the set with its best output, and its `Psi`."""
    theta = slope.settled(theta)
    return theta, slope(theta)


@eqx.filter_jit
def _search(slope: Slope, key: PRNGKeyArray, starts: int, steps: int):
    def improve(state, _):
        theta, best, rate = state
        trial = slope.settled(theta - rate * jax.grad(slope)(theta))
        new = slope(trial)
        better = new < best
        kept = jnp.where(better, trial, theta), jnp.where(better, new, best), jnp.where(better, 1.6, 0.4) * rate
        return kept, None

    def search(theta):
        theta = slope.settled(theta)
        # By the envelope theorem the gradient at the best output is that of the reduced problem.
        state = (theta, slope(theta), jnp.ones((), theta.dtype))
        (theta, best, _), _ = jax.lax.scan(improve, state, None, length=steps)
        return theta, best

    first = jax.vmap(slope.space.sample)(jax.random.split(key, starts))
    return jax.vmap(search)(first.astype(slope.cotangents.dtype))


keep_all(globals())
