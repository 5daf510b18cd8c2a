"""Many causal attention heads on the same sequences, on a card: what they add up to, and the gradient of every one of them.

A lane holds a head, so tokens and cotangents are the same for all lanes and no sum crosses them before heads are added up.
Arrays have the warps of heads first and the lanes of a warp last, so that lanes read side by side and all that a warp needs lies
together. A program is one warp of heads and a strip of positions, whose queries stay in registers while keys and values pass by;
a strip that looks at its past needs no mask but on the diagonal.

What lies between the programs is kept in memory: queries, keys and values of every head and position, and in the gradient what
each query has seen (`Seen`). Scores are computed again wherever they are needed, and never kept.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.sums.kernels import AbstractHeadKernel
from measureflow.sums.pallas.card import LOG2E, compiled, fma, power_of_two, up, vanishing

LANES = 32
"""Heads of a warp."""
REGISTERS = 256
"""Bytes that a lane has for the queries, or keys and values, of a strip."""
WIDEST = 16
"""Coordinates that keys or values may have: more would not stay in registers."""
AT_ONCE = 2**27
"""Numbers that are kept between programs; more sequences go one block after the other."""


@final
class PallasHeadKernel(AbstractHeadKernel):
    """The kernels of a card for heads with matrices of given widths; `interpret` runs them step by step, for tests."""

    key_dim: int = eqx.field(static=True)
    value_dim: int = eqx.field(static=True)
    interpret: bool = eqx.field(static=True, default=False)

    def suits(self, points: Array) -> bool:
        """Whether the kernels take such heads."""
        return points.dtype.name in ("float32", "float64") and max(self.key_dim, self.value_dim) <= WIDEST

    def total(self, points: Array, weights: Array, tokens: Array) -> Array:
        """What weighted heads add to each position together."""
        crowd = Crowd.of(self, points, tokens)
        theta, shares = crowd.lanes(points), crowd.lanes(weights[:, None])

        def some(x):
            return _added(crowd, theta, shares, *_looks(crowd, theta, x))

        done = jax.lax.map(some, crowd.blocks(tokens))
        return done.reshape(-1, crowd.whole, crowd.d)[: tokens.shape[0], : tokens.shape[1]]

    def gradient(self, points: Array, tokens: Array, cotangents: Array) -> Array:
        """The gradient of every head."""
        crowd = Crowd.of(self, points, tokens)
        theta = crowd.lanes(points)

        def add(total, block):
            query, key, value, slope = _looks(crowd, theta, *block)
            seen = _seen(crowd, query, key, value, slope)
            keys, values = _seen_back(crowd, query, key, value, slope, seen)
            return total + _collected(crowd, *block, seen.query_slope, keys, values, seen.mixed), None

        done, _ = jax.lax.scan(add, jnp.zeros_like(theta), (crowd.blocks(tokens), crowd.blocks(cotangents)))
        return done.mT.reshape(-1, points.shape[1])[: len(points)]


class Matrix(NamedTuple):
    """A matrix of a head: entry `(a, j)` of `d` by `width` is the number `first + a down + j across` of its parameters."""

    first: int
    down: int
    across: int
    width: int

    def at(self, a: int | Array, j: int) -> int | Array:
        """The place of an entry."""
        return self.first + a * self.down + j * self.across


class Crowd(NamedTuple):
    """All that is known of the heads and sequences when programs are compiled.

    - `warps`: of heads, the last filled up; `whole`: positions of a sequence, with those that only fill up its last strip.
    - `strip`: positions of a program. What fills a sequence up sees others, but is seen by none of them.
    """

    warps: int
    whole: int
    d: int
    k: int
    v: int
    strip: int
    dtype: Any
    interpret: bool

    @classmethod
    def of(cls, kernel: PallasHeadKernel, points: Array, tokens: Array) -> "Crowd":
        """The crowd of some heads on some sequences."""
        k, v, strip = kernel.key_dim, kernel.value_dim, 4
        while strip > 1 and strip * (k + v) * points.dtype.itemsize > REGISTERS:
            strip //= 2
        whole, d = up(tokens.shape[1], strip), tokens.shape[2]
        return cls(-(-len(points) // LANES), whole, d, k, v, strip, points.dtype, kernel.interpret)

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """Query, key and value, and the output by its transpose."""
        d, k, v = self.d, self.k, self.v
        wide = [Matrix(0, k, 1, k), Matrix(d * k, k, 1, k), Matrix(2 * d * k, v, 1, v)]
        return *wide, Matrix(d * (2 * k + v), 1, d, v)

    def lanes(self, rows: Float[Array, "n r"]) -> Float[Array, "warps r lanes"]:
        """Rows of heads as columns of warps, with heads of zeros that fill the last lanes."""
        return jnp.pad(rows, ((0, self.warps * LANES - len(rows)), (0, 0))).reshape(self.warps, LANES, -1).mT

    def blocks(self, tokens: Float[Array, "S T d"]) -> Float[Array, "b s whole d"]:
        """Sequences of whole strips, in blocks for which there is room; what fills the last one is zero and moves nothing."""
        S, T, d = tokens.shape
        size = min(S, max(1, AT_ONCE // (self.warps * LANES * self.whole * (4 * self.k + 4 * self.v + 2))))
        return jnp.pad(tokens, ((0, -S % size), (0, self.whole - T), (0, 0))).reshape(-1, size, self.whole, d)

    def full(self, value: float) -> Array:
        """A number for each lane."""
        return jnp.full(LANES, value, self.dtype)

    def dot(self, x: list[Array], y: list[Array], start: Array) -> Array:
        """A number plus the inner product, in each lane."""
        for a, b in zip(x, y, strict=True):
            start = fma(self.interpret, a, b, start)
        return start

    def plus(self, total: tuple[Array, ...], factor: Array, x: list[Array]) -> tuple[Array, ...]:
        """A vector plus a multiple of another, in each lane."""
        return tuple(fma(self.interpret, factor, here, sum) for here, sum in zip(x, total, strict=True))

    def power(self, x: Array) -> Array:
        """The number `2^x`, for any `x` that is not large."""
        return vanishing(x, power_of_two(self.interpret, x))

    def call(
        self, name: str, kernel: Callable, sequences: int, inputs: list[tuple[Array, str]], outputs: list[tuple]
    ) -> tuple[Array, ...]:
        """A program for each warp of heads, strip of positions and sequence; letters say what it gets of the axes of an array.

        `w` is its warp, `s` its sequence, `p` the positions of its strip, `.` all there is.
        """
        from jax.experimental import pallas as pl

        strips = self.whole // self.strip
        places = {
            "w": (None, lambda i: i // (strips * sequences)),
            "s": (None, lambda i: i // strips % sequences),
            "p": (self.strip, lambda i: i % strips),
        }

        def spec(shape, letters):
            chosen = [places.get(letter, (size, lambda i: 0)) for letter, size in zip(letters, shape, strict=True)]
            return pl.BlockSpec(tuple(size for size, _ in chosen), lambda i: tuple(place(i) for _, place in chosen))

        done = pl.pallas_call(
            lambda *refs: kernel(pl.program_id(0) % strips, *refs),
            grid=(self.warps * sequences * strips,),
            in_specs=[spec(x.shape, letters) for x, letters in inputs],
            out_specs=[spec(shape, letters) for shape, letters in outputs],
            out_shape=[jax.ShapeDtypeStruct(shape, self.dtype) for shape, _ in outputs],
            name=f"heads_{name}",
            **compiled(self.interpret, warps=1),
        )(*(x for x, _ in inputs))
        return tuple(done)

    def past(self, strip: Array, visit: Callable, state: Any) -> Any:
        """Call `state = visit(u, rows, state)` for all positions that a strip sees, with the rows of it that do."""
        state = self._strips(0, strip, visit, state)
        for i in range(self.strip):
            state = visit(strip * self.strip + i, range(i, self.strip), state)
        return state

    def future(self, strip: Array, visit: Callable, state: Any) -> Any:
        """The same for all positions that see a strip."""
        for i in range(self.strip):
            state = visit(strip * self.strip + i, range(i + 1), state)
        return self._strips(strip + 1, self.whole // self.strip, visit, state)

    def _strips(self, first: int | Array, last: int | Array, visit: Callable, state: Any) -> Any:
        """The same for all positions of some strips, with all rows."""

        def of(strip, state):
            for i in range(self.strip):
                state = visit(strip * self.strip + i, range(self.strip), state)
            return state

        return jax.lax.fori_loop(first, last, of, state)


def _products(crowd: Crowd, steps: int, rows: int, sources: tuple, scalar: Callable, vector: Callable) -> Iterator:
    """The sums over steps of `scalar(source, row, step)` times `vector(matrix, step)`: matrices, each with its rows of sums.

    The first source belongs to queries, keys and values, the second, if there is one, to outputs. Matrices of a source are summed
    at once where their sums stay in registers.
    """
    *inner, output = crowd.matrices
    few = rows * sum(m.width for m in inner) * np.dtype(crowd.dtype).itemsize <= REGISTERS
    groups = [(sources[0], group) for group in ([inner] if few else [[m] for m in inner])]
    for source, group in groups if len(sources) == 1 else [*groups, (sources[1], [output])]:

        def add(i, sums, source=source, group=group):
            numbers, vectors = [scalar(source, r, i) for r in range(rows)], [vector(m, i) for m in group]
            return tuple(
                tuple(crowd.plus(part, x, here) for x, part in zip(numbers, sum, strict=True))
                for here, sum in zip(vectors, sums, strict=True)
            )

        zero = tuple(((crowd.full(0.0),) * m.width,) * rows for m in group)
        yield from zip(group, jax.lax.fori_loop(0, steps, add, zero), strict=True)


def _looks(crowd: Crowd, theta: Array, *sources: Array) -> tuple[Array, ...]:
    """Queries, in units of powers of two, keys, values and perhaps the slopes of what is mixed, of every head and position."""
    size, matrices = len(sources[0]), crowd.matrices[: 2 + len(sources)]

    def kernel(_, theta_ref, *refs):
        outs = dict(zip(matrices, refs[len(sources) :], strict=True))

        def row(m, a):
            return [theta_ref[m.at(a, j)] for j in range(m.width)]

        number = lambda source, r, a: source[r, a]  # noqa: E731
        for m, sums in _products(crowd, crowd.d, crowd.strip, refs[: len(sources)], number, row):
            factor = LOG2E / crowd.k**0.5 if m == crowd.matrices[0] else 1.0
            for r in range(crowd.strip):
                for j in range(m.width):
                    outs[m][r, j] = factor * sums[r][j]

    inputs = [(theta, "w.."), *((source, "sp.") for source in sources)]
    outputs = [((crowd.warps, size, crowd.whole, m.width, LANES), "wsp..") for m in matrices]
    return crowd.call("look", kernel, size, inputs, outputs)


def _attended(crowd: Crowd, strip: Array, query: list, key_ref: Any, value_ref: Any) -> tuple[list, list, list]:
    """Of each query of a strip the largest score, the mass above it, and the average of the values."""

    def higher(u, rows, tops):
        key, tops = _row(key_ref, u, crowd.k), list(tops)
        for r in rows:
            tops[r] = jnp.maximum(tops[r], crowd.dot(query[r], key, crowd.full(0.0)))
        return tuple(tops)

    tops = crowd.past(strip, higher, (crowd.full(-jnp.inf),) * crowd.strip)

    def add(u, rows, state):
        key, value, state = _row(key_ref, u, crowd.k), _row(value_ref, u, crowd.v), list(state)
        for r in rows:
            e = crowd.power(crowd.dot(query[r], key, -tops[r]))
            state[r] = state[r][0] + e, crowd.plus(state[r][1], e, value)
        return tuple(state)

    nothing = crowd.full(0.0), (crowd.full(0.0),) * crowd.v
    found = crowd.past(strip, add, (nothing,) * crowd.strip)
    return list(tops), [mass for mass, _ in found], [[x / mass for x in sum] for mass, sum in found]


def _row(ref: Any, r: int | Array, width: int) -> list[Array]:
    return [ref[r, j] for j in range(width)]


def _added(crowd: Crowd, theta: Array, shares: Array, query: Array, key: Array, value: Array) -> Array:
    """What all heads add to each position, as sums over warps that are added up afterwards."""
    size, output = query.shape[1], crowd.matrices[3]

    def kernel(strip, theta_ref, share_ref, query_ref, key_ref, value_ref, out_ref):
        rows = [_row(query_ref, r, crowd.k) for r in range(crowd.strip)]
        _, _, mixed = _attended(crowd, strip, rows, key_ref, value_ref)
        mixed = [[share_ref[0] * x for x in row] for row in mixed]

        def coordinate(a, _):
            column = [theta_ref[output.at(a, j)] for j in range(crowd.v)]
            for r in range(crowd.strip):
                out_ref[r, a] = jnp.sum(crowd.dot(mixed[r], column, crowd.full(0.0)))
            return 0

        jax.lax.fori_loop(0, crowd.d, coordinate, 0)

    inputs = [(theta, "w.."), (shares, "w.."), (query, "wsp.."), (key, "ws..."), (value, "ws...")]
    (out,) = crowd.call("add", kernel, size, inputs, [((crowd.warps, size, crowd.whole, crowd.d), "wsp.")])
    return out.sum(0)


class Seen(NamedTuple):
    """What each query has seen: the average of the values, the log of the mass in powers of two, and the slope of that average
    along the cotangents; and the slope of the query itself."""

    mixed: Array
    log_mass: Array
    mean: Array
    query_slope: Array


def _seen(crowd: Crowd, query: Array, key: Array, value: Array, slope: Array) -> Seen:
    """The way forward, and back to the queries."""
    size = query.shape[1]

    def kernel(strip, query_ref, slope_ref, key_ref, value_ref, mixed_ref, log_ref, mean_ref, out_ref):
        strips = range(crowd.strip)
        rows, slopes = ([_row(ref, r, w) for r in strips] for ref, w in ((query_ref, crowd.k), (slope_ref, crowd.v)))
        tops, masses, mixed = _attended(crowd, strip, rows, key_ref, value_ref)
        logs = [top + jnp.log2(mass) for top, mass in zip(tops, masses, strict=True)]
        means = [crowd.dot(slopes[r], mixed[r], crowd.full(0.0)) for r in strips]

        def add(u, seeing, sums):
            key, value = _row(key_ref, u, crowd.k), _row(value_ref, u, crowd.v)
            sums = list(sums)
            for r in seeing:
                p = crowd.power(crowd.dot(rows[r], key, -logs[r]))
                sums[r] = crowd.plus(sums[r], p * crowd.dot(slopes[r], value, -means[r]), key)
            return tuple(sums)

        sums = crowd.past(strip, add, ((crowd.full(0.0),) * crowd.k,) * crowd.strip)
        for r in strips:
            log_ref[r], mean_ref[r] = logs[r], means[r]
            for j in range(crowd.v):
                mixed_ref[r, j] = mixed[r][j]
            for j in range(crowd.k):
                out_ref[r, j] = sums[r][j] * (1 / crowd.k**0.5)

    inputs = [(query, "wsp.."), (slope, "wsp.."), (key, "ws..."), (value, "ws...")]
    numbers = (crowd.warps, size, crowd.whole, LANES)
    outputs = [(value.shape, "wsp.."), (numbers, "wsp."), (numbers, "wsp."), (query.shape, "wsp..")]
    return Seen(*crowd.call("see", kernel, size, inputs, outputs))


def _seen_back(crowd: Crowd, query: Array, key: Array, value: Array, slope: Array, seen: Seen) -> tuple[Array, Array]:
    """The slopes of keys and values, from all positions that see them."""
    size = query.shape[1]

    def kernel(strip, key_ref, value_ref, query_ref, slope_ref, log_ref, mean_ref, key_out, value_out):
        strips = range(crowd.strip)
        keys, values = ([_row(ref, r, w) for r in strips] for ref, w in ((key_ref, crowd.k), (value_ref, crowd.v)))

        def add(t, shown, state):
            query, slope = _row(query_ref, t, crowd.k), _row(slope_ref, t, crowd.v)
            log, mean = log_ref[t], mean_ref[t]
            state = list(state)
            for r in shown:
                p = crowd.power(crowd.dot(query, keys[r], -log))
                c = p * crowd.dot(slope, values[r], -mean)
                state[r] = crowd.plus(state[r][0], c, query), crowd.plus(state[r][1], p, slope)
            return tuple(state)

        nothing = (crowd.full(0.0),) * crowd.k, (crowd.full(0.0),) * crowd.v
        for r, (of_key, of_value) in enumerate(crowd.future(strip, add, (nothing,) * crowd.strip)):
            for j in range(crowd.k):
                key_out[r, j] = of_key[j] * (1 / LOG2E)
            for j in range(crowd.v):
                value_out[r, j] = of_value[j]

    inputs = [(key, "wsp.."), (value, "wsp.."), (query, "ws..."), (slope, "ws...")]
    inputs += [(seen.log_mass, "ws.."), (seen.mean, "ws..")]
    keys, values = crowd.call("see_back", kernel, size, inputs, [(key.shape, "wsp.."), (value.shape, "wsp..")])
    return keys, values


def _collected(crowd: Crowd, x: Array, c: Array, *slopes: Array) -> Array:
    """The gradients of the matrices of all heads: tokens, or cotangents for the output, times slopes at all positions."""
    from jax.experimental import pallas as pl

    rows = next(size for size in (4, 2, 1) if crowd.d % size == 0)
    parts = crowd.d // rows
    positions = x.shape[0] * x.shape[1]

    def kernel(x_ref, c_ref, *refs):
        *slope_refs, out_ref = refs
        found = dict(zip(crowd.matrices, slope_refs, strict=True))
        first = pl.program_id(0) % parts * rows
        number = lambda source, r, t: source[t, first + r]  # noqa: E731
        slope = lambda m, t: _row(found[m], t, m.width)  # noqa: E731
        for m, sums in _products(crowd, positions, rows, (x_ref, c_ref), number, slope):
            for r in range(rows):
                for j in range(m.width):
                    out_ref[m.at(first + r, j)] = sums[r][j]

    flat = [y.reshape(positions, crowd.d) for y in (x, c)]
    flat += [y.reshape(crowd.warps, positions, -1, LANES) for y in slopes]
    whole = [pl.BlockSpec((positions, crowd.d), lambda i: (0, 0))] * 2
    lanes = [pl.BlockSpec((None, positions, m.width, LANES), lambda i: (i // parts, 0, 0, 0)) for m in crowd.matrices]
    size = 2 * crowd.d * (crowd.k + crowd.v)
    return pl.pallas_call(
        kernel,
        grid=(crowd.warps * parts,),
        in_specs=whole + lanes,
        out_specs=pl.BlockSpec((None, size, LANES), lambda i: (i // parts, 0, 0)),
        out_shape=jax.ShapeDtypeStruct((crowd.warps, size, LANES), crowd.dtype),
        name="heads_collect",
        **compiled(crowd.interpret, warps=1),
    )(*flat)
