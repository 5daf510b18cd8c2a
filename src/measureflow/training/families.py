"""Families of features: what the coordinates of a particle mean.

A particle of training is a flat vector of parameters, a point of Euclidean space, so that a set of heads or neurons is a measure
like any other. A family folds it into named blocks.
"""

import abc
from collections.abc import Mapping
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Number, Numbers, RandomKey
from measureflow.measures import Particles
from measureflow.measures.cloud import as_key
from measureflow.spaces import AbstractSpace, Ball, Euclidean, Product

Theta = Float[Array, " D"]
ByBlock = Mapping[str, Float[Array, ""]]
"""One number for each block, such as a radius or a decay."""

TINY = 1e-9
"""The least radius of a ball of parameters."""


class AbstractFamily(eqx.Module):
    """How a flat vector of parameters is folded into blocks."""

    dim: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the trained blocks, by name, in the order in which they lie in the vector."""

    @abc.abstractmethod
    def gauge(self, theta: Theta) -> Float[Array, "g D"]:
        """Directions in which the parameters may move without changing what the particle computes."""

    @abc.abstractmethod
    def invariants(self, theta: Theta) -> Float[Array, " g"]:
        """Coordinates of a particle that no gauge direction changes."""

    @property
    def noun(self) -> str:
        """What its particles are called, in the plural."""
        return "particles"

    @property
    def smooth(self) -> bool:
        """Whether the features have two derivatives everywhere."""
        return True

    @property
    def linear(self) -> tuple[str, ...]:
        """Blocks in which the features are linear and whose best values, the others given, have a closed form: outputs."""
        return ()

    @property
    def factors(self) -> tuple[tuple[str, ...], ...]:
        """Neighbouring groups of blocks; scaling one of them by a positive number scales the features by it."""
        return ()

    def balance(self, theta: Theta) -> tuple[Array, ...]:
        """What gradient flow conserves for each particle, because of its gauge; nothing unless a family says more."""
        return ()

    @property
    def size(self) -> int:
        """The number of parameters of one particle."""
        return sum(_count(shape) for shape in self.shapes.values())

    @property
    def space(self) -> Euclidean:
        """Where the parameters live when nothing confines them."""
        return Euclidean(self.size)

    def unfold(self, theta: Theta) -> dict[str, Array]:
        """The blocks of a parameter vector by name."""
        blocks, start = {}, 0
        for name, shape in self.shapes.items():
            blocks[name] = theta[start : start + _count(shape)].reshape(shape)
            start += _count(shape)
        return blocks

    def fold(self, blocks: Mapping[str, Array]) -> Theta:
        """The parameter vector of blocks given by name; a block that is not given is zero."""
        for name in blocks:
            if name not in self.shapes:
                raise ValueError(f"`{name}` is no block of {type(self).__name__}; they have {', '.join(self.shapes)}.")
        dtype = jnp.result_type(*blocks.values())
        parts = [jnp.asarray(blocks.get(name, jnp.zeros(s, dtype)), dtype) for name, s in self.shapes.items()]
        return jnp.concatenate([part.ravel() for part in parts])

    def by_block(self, **values: Number) -> Theta:
        """A vector that has one value on each named block and zero on the others."""
        given = {name: checks.floating(value) for name, value in values.items()}
        return self.fold({name: jnp.full(self.shapes.get(name, ()), value) for name, value in given.items()})

    def balls(self, **radii: float) -> Product:
        """The compact set in which each block has at most a given Frobenius norm; every block needs a radius."""
        if missing := [name for name in self.shapes if name not in radii]:
            raise ValueError(f"`{missing[0]}` has no radius, so the set of particles would not be compact; give one.")
        return Product(*(Ball(_count(shape), radii[name]) for name, shape in self.shapes.items()))

    def hull(self, points: Float[Array, "n D"]) -> Product:
        """The smallest balls, one a block, that hold given particles; a block that is zero has a radius of almost nothing."""
        blocks = jax.vmap(self.unfold)(points)
        norms = {name: jnp.linalg.norm(block.reshape(len(points), -1), axis=1).max() for name, block in blocks.items()}
        return self.balls(**{name: max(float(norm), TINY) for name, norm in norms.items()})

    def radii(self, space: AbstractSpace) -> dict[str, Float[Array, ""]]:
        """The radius of each block in a set of particles, or nothing if the set is not made of one ball a block."""
        # Best outputs and proofs have formulas for balls alone, so the class is asked for.
        balls = [part for part in (space.spaces if isinstance(space, Product) else (space,)) if isinstance(part, Ball)]
        fits = [ball.dim for ball in balls] == [_count(shape) for shape in self.shapes.values()]
        return {name: ball.radius for name, ball in zip(self.shapes, balls, strict=True)} if fits else {}

    def unit(self, radius: float = 1.0) -> Product:
        """The set in which each factor has at most norm one, and every other block a given norm."""
        if not self.factors:
            raise ValueError(f"{type(self).__name__} have no blocks that may be scaled, so no unit particles either.")
        grouped = {name: factor for factor in self.factors for name in factor}
        groups = dict.fromkeys(grouped.get(name, (name,)) for name in self.shapes)
        sizes = {group: sum(_count(self.shapes[name]) for name in group) for group in groups}
        return Product(*(Ball(size, 1.0 if group in self.factors else radius) for group, size in sizes.items()))

    def gaussian(self, n: int, scale: Numbers = 1.0, *, key: RandomKey) -> Particles:
        """Independent particles with normal entries; `scale` is their deviation, one number or one for each coordinate."""
        scale = jnp.broadcast_to(checks.floating(scale), (self.size,))[None]
        return Particles(self.space, scale * jax.random.normal(as_key(key), (n, self.size)))


@final
class Stacked(AbstractFamily):
    """One particle of a family for each layer, one after the other; block `query` of layer 2 is `query2`."""

    family: AbstractFamily
    depth: int = eqx.field(static=True)

    def __init__(self, family: AbstractFamily, depth: int):
        self.family, self.depth = family, depth

    @property
    def dim(self) -> int:
        """That of the family."""
        return self.family.dim

    @property
    def noun(self) -> str:
        """That of the family."""
        return self.family.noun

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The blocks of all layers."""
        layers = range(1, self.depth + 1)
        return {f"{name}{layer}": shape for layer in layers for name, shape in self.family.shapes.items()}

    def gauge(self, theta: Theta) -> Float[Array, "g D"]:
        """The directions of each layer."""
        each = jax.vmap(self.family.gauge)(self.layers(theta))
        inside = jnp.eye(self.depth, dtype=theta.dtype)[:, None, :, None] * each[:, :, None, :]
        return inside.reshape(-1, theta.size)

    def invariants(self, theta: Theta) -> Float[Array, " g"]:
        """Those of each layer."""
        return jax.vmap(self.family.invariants)(self.layers(theta)).ravel()

    def balance(self, theta: Theta) -> tuple[Array, ...]:
        """What each layer conserves."""
        return jax.vmap(self.family.balance)(self.layers(theta))

    def layers(self, theta: Theta) -> Float[Array, "L p"]:
        """The particles of the layers."""
        return theta.reshape(self.depth, -1)


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for side in shape:
        count *= side
    return count
