"""Several heads, masks and perceptrons: the other parts of a transformer layer."""

from collections.abc import Callable
from collections.abc import Sequence as Several
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Number, Numbers
from measureflow.fields.base import AbstractField, Part
from measureflow.measures import AbstractMeasure, Particles, Sequence
from measureflow.measures.matrices import full
from measureflow.measures.sequence import default_positions, past
from measureflow.spaces import Euclidean
from measureflow.sums import Dense, Past


def stacked(name: str, fields: Several[AbstractField]) -> AbstractField:
    """Fields of one kind and shape as one field with a leading axis on every array."""
    if not fields:
        raise ValueError(f"`{name}` is empty; give at least one field.")
    if len({jax.tree.structure(field) for field in fields}) > 1:
        fields = [full(field) for field in fields]
    if len({jax.tree.structure(field) for field in fields}) > 1:
        kinds = ", ".join(sorted({type(field).__name__ for field in fields}))
        raise ValueError(
            f"`{name}` must be of one kind to be stacked; got {kinds}. Fields of different kinds add: `a + b`."
        )
    shapes = [[jnp.shape(leaf) for leaf in jax.tree.leaves(field)] for field in fields]
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError(f"`{name}` must have arrays of one shape; got {shapes}.")
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *fields)


@final
class MultiHead(AbstractField):
    """The sum of several heads, each projected back: `v(x) = sum_h W_h v_h(x)`.

    Heads are fields of one kind. `projections` `(H, d, k)` are the output matrices `W_h`; without them the heads add.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.MultiHead([mf.SoftmaxAttention.isotropic(2, beta) for beta in (0.0, np.log(3))])
    >>> field(0.0, mu.points, mu).round(3).tolist()
    [[1.25, 0.75], [0.75, 1.25]]
    """

    heads: AbstractField
    projections: Float[Array, "H d k"] | None

    def __init__(self, heads: Several[AbstractField], projections: Numbers | None = None):
        self.heads = stacked("heads", heads)
        self.projections = None if projections is None else checks.floating(projections)
        if self.projections is not None:
            checks.shaped("projections", self.projections, (len(heads), "d", "k"), "There is one output matrix a head.")
            checks.finite("projections", self.projections)

    @property
    def exponential(self) -> bool:
        """Whether the heads are."""
        return self.heads.exponential

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """Add the projected velocities of the heads."""
        each = eqx.filter_vmap(lambda head: head(t, xs, mu))(self.heads)
        if self.projections is None:
            return each.sum(0)
        return jnp.einsum("hmk,hdk->md", each, self.projections, precision=jax.lax.Precision.HIGHEST)

    def parts(self, t: Number, mu: AbstractMeasure) -> tuple[Part, ...]:
        """Those of the heads, each projected back."""
        count = len(jax.tree.leaves(self.heads)[0])
        heads = [jax.tree.map(lambda leaf, h=h: leaf[h], self.heads) for h in range(count)]
        outputs = [None] * count if self.projections is None else list(self.projections)
        return tuple(_projected(part, W) for head, W in zip(heads, outputs, strict=True) for part in head.parts(t, mu))


def _projected(part: Part, output: Float[Array, "d k"] | None) -> Part:
    return part if output is None else part._replace(velocity=lambda xs: part.velocity(xs) @ output.T)


@final
class ALiBi(eqx.Module):
    """A penalty on looking far back: `-slope (s - r)` added to the score of a query at `s` for a key at `r`.

    Positions run over `[0, 1]`, so a penalty of `m` per token in a sequence of `n` is the slope `m n`.

    >>> mf.ALiBi(slope=4.0)(jnp.array(1.0), jnp.array([0.25, 0.5, 0.75])).tolist()
    [-3.0, -2.0, -1.0]
    """

    slope: Float[Array, ""] = eqx.field(converter=checks.floating)

    def __call__(self, query: Float[Array, ""], keys: Float[Array, " n"]) -> Float[Array, " n"]:
        """What is added to the scores of the keys for a query at a position."""
        return -self.slope * (query - keys)


@final
class Causal(AbstractField):
    """Attention of each token on the past: token `i` sees the tokens at positions up to its own.

    On a `Sequence` positions are those of the sequence, and equal positions see each other; on plain particles the index
    is the position. It is evaluated at the tokens of the measure. Not a gradient flow.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.Causal(mf.SoftmaxAttention.isotropic(2, beta=np.log(3)))
    >>> field(0.0, mu.points, mu).round(3).tolist()
    [[1.0, 0.0], [0.25, 0.75]]
    """

    attention: AbstractField
    bias: ALiBi | None = None

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity of each token on what it sees."""
        tokens, positions, in_order = _in_order(mu)
        checks.shaped("xs", xs, tokens.points.shape, "`Causal` is evaluated at the tokens, whose positions it knows.")
        if in_order and self.bias is None and self.attention.exponential:
            # Blocks are filled up with zeros, which are on no sphere, so no engine of the sphere serves them.
            seen = Past(tokens.engine.on(Euclidean(tokens.space.dim)))
            return self.attention(t, xs, eqx.tree_at(lambda mu: mu.engine, tokens, seen))
        alone = tokens.using(Dense())  # a row is one query; the engine of the measure works over the rows

        def row(x, position):
            seen = past(alone, positions, position)
            if self.bias is not None:
                seen = seen.weigh(self.bias(position, positions))
            return self.attention(t, x[None], seen)[0]

        return tokens.engine.rows(row, len(xs), xs, positions)


def _in_order(mu: AbstractMeasure) -> tuple[Particles, Float[Array, " n"], bool]:
    if isinstance(mu, Sequence):
        return mu.tokens, mu.positions, mu.in_order
    if isinstance(mu, Particles):
        return mu, default_positions(mu), True
    raise TypeError(f"`Causal` needs tokens with an order: a `Sequence` or `Particles`; got {type(mu).__name__}.")


@final
class Packed(AbstractField):
    """Several measures in one cloud, each of which sees itself alone, as sequences packed in a row do under their mask.

    `sizes` are their numbers of tokens, one after the other; each counts with mass one. It is evaluated at the tokens.

    >>> mu = mf.Particles(mf.Sphere(2), np.concatenate([np.eye(2), -np.eye(2)]))
    >>> field = mf.Packed(mf.SoftmaxAttention.isotropic(2, beta=0.0), sizes=(2, 2))
    >>> field(0.0, mu.points, mu).tolist()
    [[0.5, 0.5], [0.5, 0.5], [-0.5, -0.5], [-0.5, -0.5]]
    """

    field: AbstractField
    sizes: tuple[int, ...] = eqx.field(static=True, converter=lambda sizes: tuple(map(int, sizes)))

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity of each token in its own measure."""
        parts = self.unpack(mu)
        checks.shaped("xs", xs, (sum(self.sizes), "d"), "`Packed` is evaluated at the tokens, whose measures it knows.")
        if len(set(self.sizes)) == 1:
            stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
            rows = xs.reshape(len(parts), -1, xs.shape[-1])
            return eqx.filter_vmap(lambda x, part: self.field(t, x, part))(rows, stack).reshape(xs.shape)
        ends = np.cumsum(self.sizes).tolist()
        each = [self.field(t, xs[end - len(part.points) : end], part) for part, end in zip(parts, ends, strict=True)]
        return jnp.concatenate(each)

    def unpack(self, mu: AbstractMeasure) -> list[Particles]:
        """The measures of a cloud that they were packed in."""
        return unpacked(mu, self.sizes)

    @staticmethod
    def pack(measures: Several[Particles]) -> Particles:
        """Measures on one space as one cloud, of equal mass each."""
        points = jnp.concatenate([mu.points for mu in measures])
        return Particles(measures[0].space, points, jnp.concatenate([mu.weights / len(measures) for mu in measures]))


@final
class SideBySide(AbstractField):
    """Several flows in one cloud: each part of it moves under a field of its own, and sees itself alone.

    `sizes` are the numbers of tokens of the parts, one after the other; each counts with mass one. It is evaluated at the tokens.

    >>> mu = mf.Particles(mf.Sphere(2), np.concatenate([np.eye(2), np.eye(2)]))
    >>> even, sharp = (mf.SoftmaxAttention.isotropic(2, beta) for beta in (0.0, np.log(3)))
    >>> mf.fields.SideBySide([even, sharp], sizes=(2, 2))(0.0, mu.points, mu)[:3].round(3).tolist()
    [[0.5, 0.5], [0.5, 0.5], [0.75, 0.25]]
    """

    fields: tuple[AbstractField, ...] = eqx.field(converter=tuple)
    sizes: tuple[int, ...] = eqx.field(static=True, converter=lambda sizes: tuple(map(int, sizes)))

    def __check_init__(self):
        if len(self.fields) != len(self.sizes):
            raise ValueError(f"`sizes` must be one for each of the {len(self.fields)} fields; got {len(self.sizes)}.")

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity of each token in its part."""
        parts = unpacked(mu, self.sizes)
        checks.shaped(
            "xs", xs, (sum(self.sizes), "d"), "`SideBySide` is evaluated at the tokens, whose parts it knows."
        )
        rows = jnp.split(xs, np.cumsum(self.sizes)[:-1].tolist())
        return jnp.concatenate([field(t, x, part) for field, x, part in zip(self.fields, rows, parts, strict=True)])


def unpacked(mu: AbstractMeasure, sizes: tuple[int, ...]) -> list[Particles]:
    """The parts of a cloud, one after the other, each with mass one."""
    if not isinstance(mu, Particles):
        raise TypeError(f"Only `Particles` have parts; got {type(mu).__name__}.")
    checks.shaped("mu.points", mu.points, (sum(sizes), "d"), "`sizes` add up to the number of tokens.")
    ends = np.cumsum(sizes).tolist()
    return [_part(mu, slice(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


def _part(mu: Particles, which: slice) -> Particles:
    logs = mu.log_weights[which]
    logs = logs - jax.nn.logsumexp(logs)
    return eqx.tree_at(lambda mu: (mu.points, mu.log_weights), mu, (mu.points[which], logs))


@final
class Perceptron(AbstractField):
    """The other half of a layer, acting on each token alone: `v(x) = W s(U x + b)`, with `s` the positive part unless given.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.Perceptron(W=np.eye(2), U=np.eye(2), b=[0.0, -0.5])
    >>> field(0.0, mu.points, mu).round(3).tolist()
    [[1.0, 0.0], [0.0, 0.5]]
    """

    exponential: ClassVar[bool] = True  # it looks at no other token
    W: Float[Array, "d h"] = eqx.field(converter=checks.floating)
    U: Float[Array, "h d"] = eqx.field(converter=checks.floating)
    b: Float[Array, " h"] = eqx.field(converter=checks.floating)
    activation: Callable[[Array], Array] = eqx.field(static=True, default=jax.nn.relu)

    def __check_init__(self):
        h, d = jnp.shape(self.U)
        checks.shaped(
            "W", self.W, (d, h), "It maps the hidden units back to tokens, so its shape is that of `U` turned."
        )
        checks.shaped("b", self.b, (h,), "There is one bias for each hidden unit.")

    @staticmethod
    def gate(centre: Numbers, radius: Number, towards: Numbers, speed: Number = 1.0) -> "Perceptron":
        """One unit that moves only what is near: `v(x) = speed (<centre, x> - cos radius)_+ towards`.

        On the sphere it is exactly zero farther than `radius` (an angle) from `centre`, and inside it leads along great circles
        to `towards`. ruiz:24

        >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
        >>> gate = mf.Perceptron.gate(centre=[1.0, 0.0], radius=np.pi / 3, towards=[0.0, 1.0], speed=2.0)
        >>> gate(0.0, mu.points, mu).round(3).tolist()
        [[0.0, 1.0], [0.0, 0.0]]
        """
        centre, towards = checks.floating(centre), checks.floating(towards)
        checks.shaped("centre", centre, ("d",), "It is one point.")
        checks.shaped("towards", towards, centre.shape, "It is a point like `centre`.")
        return Perceptron(
            checks.floating(speed) * towards[:, None], centre[None], -jnp.cos(checks.floating(radius))[None]
        )

    @staticmethod
    def drift(velocity: Numbers) -> "Perceptron":
        """One unit that moves every token the same way: `v(x) = velocity`."""
        velocity = checks.floating(velocity)
        checks.shaped("velocity", velocity, ("d",), "It is one vector.")
        return Perceptron(velocity[:, None], jnp.zeros_like(velocity)[None], jnp.ones_like(velocity[:1]))

    def widened(self, width: int) -> "Perceptron":
        """The same field with more hidden units, which do nothing."""
        more = width - len(self.b)
        if more < 0:
            raise ValueError(f"`width` must be at least the {len(self.b)} units that there are; got {width}.")
        W, U, b = jnp.pad(self.W, ((0, 0), (0, more))), jnp.pad(self.U, ((0, more), (0, 0))), jnp.pad(self.b, (0, more))
        return Perceptron(W, U, b, self.activation)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity `W s(U x + b)`."""
        return self.activation(xs @ self.U.T + self.b[None]) @ self.W.T
