"""Best responses: the head of least `Psi(.; mu)` in a compact set of heads.

Heads with a trained output have their best output in closed form, `-rho^2 u v^T` with the top singular pair of `G`; only the
scores are searched, which is not convex. A search from many starts finds a head and proves nothing. With frozen scores nothing
is left to search; with few score parameters branch and bound proves how much better any other head can be.
"""

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from measureflow import checks
from measureflow.annotations import RandomKey
from measureflow.measures import Particles
from measureflow.measures.cloud import as_key
from measureflow.spaces import AbstractSpace, Ball, Product
from measureflow.training.families import Theta
from measureflow.training.heads import AbstractHeads, FullHeads, ValueHeads
from measureflow.training.landscape import TURNS, Enclosure, block_radii, enclose, landscape
from measureflow.training.risk import HeadRisk


class Response(NamedTuple):
    """The head with the least `Psi` that is known, and how low `Psi` can be.

    `bound <= min Psi <= value` if `proof` is `proved-LMO`; the bound of a search is its value, which is a hope. `rivals` are the
    least values that the search ended in, `boxes` counts the boxes of branch and bound.
    """

    head: Theta
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
    risk: HeadRisk,
    mu: Particles,
    space: AbstractSpace,
    *,
    prove: float | None = None,
    starts: int = 192,
    steps: int = 300,
    boxes: int = 2_000_000,
    key: RandomKey = 0,
) -> Response:
    """The head of least `Psi(.; mu)` in a compact set, by projected descent from many starts.

    - `prove`: branch until value and bound differ by at most this. For `ScoreHeads` of up to four parameters and `FullHeads`
      on tokens of two coordinates; `ValueHeads` have a closed form and need no search.
    - `boxes`: where branching stops. The bound then still holds, but is farther from the value.
    """
    cotangents = eqx.filter_jit(risk.cotangents)(mu)
    return respond(risk, cotangents, space, prove=prove, starts=starts, steps=steps, boxes=boxes, key=key)


def respond(
    risk: HeadRisk,
    cotangents: Float[Array, "S T d"],
    space: AbstractSpace,
    *,
    prove: float | None = None,
    starts: int = 192,
    steps: int = 300,
    boxes: int = 2_000_000,
    key: RandomKey = 0,
) -> Response:
    """The best response to given cotangents."""
    if not compact(space):
        raise ValueError(
            f"`space` must be compact for a best response to exist; got {type(space).__name__}. Use "
            "`heads.balls(query=..., ...)`, or `ridge_criterion` for weight decay."
        )
    if space.dim != risk.heads.size:
        raise ValueError(f"`space` has {space.dim} coordinates; the heads have {risk.heads.size} parameters.")
    if isinstance(risk.heads, ValueHeads) and block_radii(risk.heads, space):
        return _closed(risk, cotangents, space)
    if prove is not None:
        checks.positive("prove", prove)
    heights = None if prove is None else landscape(risk, cotangents, space)
    heads, values = _search(risk, cotangents, space, as_key(key), starts, steps)
    order = np.argsort(np.asarray(values))
    value = float(values[order[0]])
    found = Response(heads[order[0]], value, value, np.asarray(values)[order[:5]])
    if prove is None or heights is None:
        return found
    return _proved(risk, cotangents, space, found, enclose(heights, -value, prove, boxes))


def _closed(risk: HeadRisk, cotangents, space: AbstractSpace) -> Response:
    """The best head with frozen scores: `min Psi = -rho_V rho_O sigma_max(G)`."""
    head, value = _completed(risk, cotangents, space, jnp.zeros(risk.heads.size, cotangents.dtype))
    return Response(head, float(value), float(value), np.array([value]), "proved-LMO")


def _proved(risk: HeadRisk, cotangents, space: AbstractSpace, found: Response, within: Enclosure) -> Response:
    """A response with the bound of branch and bound, and with the better head if branching met one."""
    if within.point is not None:
        theta = eqx.filter_jit(_head)(risk.heads, space, jnp.asarray(within.point))
        head, value = _completed(risk, cotangents, space, theta)
        found = found._replace(head=head, value=float(value))
    return found._replace(bound=-within.upper, proof="proved-LMO", boxes=within.boxes)


def _head(heads: AbstractHeads, space: AbstractSpace, point: Float[Array, " k"]) -> Theta:
    """The head with given score coordinates, and without output if it has one to train."""
    if not isinstance(heads, FullHeads):
        return point
    radii = block_radii(heads, space)
    u, s, vt = jnp.linalg.svd(heads.key_dim**0.5 * jnp.tensordot(point, jnp.asarray(TURNS, point.dtype), 1))
    roots = jnp.sqrt(s)[:, None] * jnp.eye(2, heads.key_dim, dtype=s.dtype)
    balance = jnp.sqrt(radii["query"] / radii["key"]).astype(s.dtype)
    return heads.fold({"query": balance * u @ roots, "key": vt.T @ roots / balance})


@eqx.filter_jit
def _completed(risk: HeadRisk, cotangents, space: AbstractSpace, theta: Theta) -> tuple[Theta, Float[Array, ""]]:
    """A head in the set with its best output, and its `Psi`."""
    head = _best_output(risk, cotangents, space, space.project(theta))
    return head, risk.against(cotangents, head[None])[0]


@eqx.filter_jit
def _search(risk: HeadRisk, cotangents, space: AbstractSpace, key: PRNGKeyArray, starts: int, steps: int):
    def value(theta):
        return risk.against(cotangents, theta[None])[0]

    def settle(theta):
        return _best_output(risk, cotangents, space, space.project(theta))

    def improve(state, _):
        theta, best, rate = state
        trial = settle(theta - rate * jax.grad(value)(theta))
        new = value(trial)
        better = new < best
        kept = jnp.where(better, trial, theta), jnp.where(better, new, best), jnp.where(better, 1.6, 0.4) * rate
        return kept, None

    def search(theta):
        theta = settle(theta)
        # By the envelope theorem the gradient at the best output is that of the reduced problem.
        state = (theta, value(theta), jnp.ones((), theta.dtype))
        (theta, best, _), _ = jax.lax.scan(improve, state, None, length=steps)
        return theta, best

    first = jax.vmap(space.sample)(jax.random.split(key, starts))
    return jax.vmap(search)(first.astype(cotangents.dtype))


def _best_output(risk: HeadRisk, cotangents, space: AbstractSpace, theta: Theta) -> Theta:
    """The head with the output matrices that make `Psi` least for its scores; heads with frozen output stay."""
    heads, radii = risk.heads, block_radii(risk.heads, space)
    if "output" not in radii:
        return theta
    u, _, vt = jnp.linalg.svd(risk.outer_against(cotangents, theta))
    blocks = heads.unfold(theta)
    value = jnp.zeros_like(blocks["value"]).at[:, 0].set(radii["value"].astype(theta.dtype) * u[:, 0])
    output = jnp.zeros_like(blocks["output"]).at[0].set(-radii["output"].astype(theta.dtype) * vt[0])
    return heads.fold({**blocks, "value": value, "output": output})


def compact(space: AbstractSpace) -> bool:
    """Whether a set of heads is bounded: balls and products of them."""
    return all(map(compact, space.spaces)) if isinstance(space, Product) else isinstance(space, Ball)
