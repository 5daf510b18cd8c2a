"""Many heads at once: the kernel and the XLA program agree, in values and in derivatives of every kind."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow.sums import native
from measureflow.sums.native.heads import NativeHeadKernel
from measureflow.sums.pallas import heads as card
from measureflow.sums.pallas.heads import PallasHeadKernel
from measureflow.training import FullHeads, ScoreHeads, crowd
from measureflow.training.crowd import XLAHeadKernel

needs_kernel = pytest.mark.skipif(not native.available(), reason="the native kernel is not built here")
ROUNDING = {"float32": 3e-6, "float64": 1e-14}
"""A few tens of roundings: sums over at most 32 tokens and 16 coordinates, relative to the largest entry."""


def draw(n, S, T, heads, dtype="float64", scale=1.0):
    rng = np.random.default_rng(n)
    shapes = (n, heads.size), (n,), (S, T, heads.dim), (S, T, heads.dim)
    points, weights, tokens, cotangents = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    return tuple(map(jnp.asarray, (points * points.dtype.type(scale), weights, tokens, cotangents)))


def agree(found, expected, tolerance):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, atol=tolerance * float(np.abs(other).max()), rtol=0)


def computed(kernel, arrays):
    """The sums and slopes by a kernel."""
    return jax.jit(lambda p, w, x, c: (kernel.total(p, w, x), kernel.gradient(p, x, c)))(*arrays)


@functools.cache
def plainly(n, S, T, d, k, v, dtype):
    """The sums and slopes of the XLA program, which do not depend on the instructions that the kernel may use."""
    heads = FullHeads(d, k, v)
    return computed(XLAHeadKernel(heads), draw(n, S, T, heads, dtype))


@needs_kernel
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(
    ("n", "S", "T", "d", "k", "v"),
    [(1, 1, 1, 1, 1, 1), (37, 2, 9, 5, 3, 2), (70, 11, 4, 3, 1, 4), (16, 1, 32, 16, 4, 4)],
)
def test_the_kernel_computes_heads_and_their_slopes(n, S, T, d, k, v, level, dtype):
    found = computed(NativeHeadKernel(k, v, level=level), draw(n, S, T, FullHeads(d, k, v), dtype))
    agree(found, plainly(n, S, T, d, k, v, dtype), ROUNDING[dtype])


@pytest.mark.parametrize(
    ("n", "S", "T", "d", "k", "v", "dtype"), [(33, 3, 6, 3, 2, 1, "float64"), (2, 1, 4, 6, 1, 2, "float32")]
)
def test_the_kernel_for_a_card_computes_heads_and_their_slopes(n, S, T, d, k, v, dtype, monkeypatch):
    """Two warps of heads, the last nearly empty; strips that are not full; sequences in blocks, the last not full."""
    monkeypatch.setattr(card, "AT_ONCE", 2 * 64 * 8 * (4 * k + 4 * v + 2))
    found = computed(PallasHeadKernel(k, v, interpret=True), draw(n, S, T, FullHeads(d, k, v), dtype))
    agree(found, plainly(n, S, T, d, k, v, dtype), ROUNDING[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_heads_are_lowered_for_a_card_and_keep_no_scores(dtype):
    """Arrays between the kernels grow with the heads and positions, and not with pairs of positions."""
    n, T, d, k = 64, 32, 16, 4
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape in ((n, 4 * d * k), (1, T, d), (1, T, d))]
    step = jax.jit(PallasHeadKernel(k, k).gradient)
    text = step.trace(*shapes).lower(lowering_platforms=("cuda",)).as_text()
    assert all(f"heads_{name}" in text for name in ("look", "see", "see_back", "collect"))
    shapes = re.findall(r"tensor<((?:\d+x)+)f(?:32|64)>", text)
    sizes = [np.prod([int(size) for size in found.split("x")[:-1]]) for found in shapes]
    assert max(sizes) <= n * max(4 * d * k, T * k) < n * T * T


def test_a_card_takes_heads_that_fit_its_registers(monkeypatch):
    monkeypatch.setattr(crowd.pallas, "available", lambda: True)
    points = jnp.zeros((4, 8))
    assert isinstance(crowd.kernel_for(FullHeads(2, 1, 1), points), PallasHeadKernel)
    assert isinstance(crowd.kernel_for(FullHeads(2, 17, 1), points), XLAHeadKernel)
    assert isinstance(crowd.kernel_for(FullHeads(2, 1, 1), points.astype(jnp.float16)), XLAHeadKernel)


@needs_kernel
def test_very_sharp_attention_neither_overflows_nor_divides_by_zero():
    heads, plain = FullHeads(4, 2, 2), XLAHeadKernel(FullHeads(4, 2, 2))
    points, weights, tokens, cotangents = draw(20, 2, 6, heads, scale=40.0)

    @jax.jit
    def both(p, w, x, c):
        slopes = NativeHeadKernel(2, 2).gradient(p, x, c), plain.gradient(p, x, c)
        return (crowd.total(heads, p, w, x), plain.total(p, w, x)), slopes

    totals, slopes = both(points, weights, tokens, cotangents)
    agree(*totals, 1e-12)
    # Scores of a few thousand lose that many roundings before the exponential.
    agree(*slopes, 1e-11)


@needs_kernel
def test_the_number_of_threads_changes_no_bit():
    heads = FullHeads(8, 4, 4)
    points, weights, tokens, _ = draw(700, 3, 8, heads)
    one, four = (NativeHeadKernel(4, 4, threads=k).total(points, weights, tokens) for k in (1, 4))
    assert (one == four).all()


@needs_kernel
def test_a_number_that_is_not_finite_stays_so():
    heads = FullHeads(3, 2, 2)
    points, _, tokens, cotangents = draw(20, 1, 5, heads)
    slopes = NativeHeadKernel(2, 2).gradient(points.at[7, 0].set(jnp.nan), tokens, cotangents)
    assert np.isnan(slopes[7]).any()
    assert np.isfinite(np.delete(slopes, 7, axis=0)).all()


HEADS = FullHeads(5, 3, 2)


def pairings(plain):
    return XLAHeadKernel(HEADS).pairing if plain else functools.partial(crowd.pairing, HEADS)


def totals(plain):
    f = XLAHeadKernel(HEADS).total if plain else functools.partial(crowd.total, HEADS)
    return lambda points, tokens, cotangents: f(points, cotangents[0, :, 0] @ jnp.ones((7, 20)), tokens)


def square(f):
    return lambda *arguments: jnp.sum(f(*arguments) ** 2)


TRANSFORMED = {
    "value": lambda f: f,
    "forward": lambda f: lambda *x: jax.jvp(f, x, tuple(y[::-1] for y in x)),
    "reverse": lambda f: jax.grad(square(f), (0, 1, 2)),
    "forward over reverse": lambda f: lambda *x: jax.jvp(jax.grad(square(f)), x, tuple(y[::-1] for y in x)),
    "reverse over reverse": lambda f: jax.grad(square(jax.grad(square(f))), (0, 1)),
    "batch": lambda f: lambda p, x, c: jax.vmap(f, (0, None, 0))(jnp.stack([p, 2 * p]), x, jnp.stack([c, -c])),
}


@needs_kernel
@pytest.mark.parametrize("make", [pairings, totals])
@pytest.mark.parametrize("transformed", TRANSFORMED.values(), ids=TRANSFORMED.keys())
def test_derivatives_of_both_modes_and_batches_are_those_of_the_xla_program(make, transformed):
    points, _, tokens, cotangents = draw(20, 3, 7, HEADS)
    ours, plain = (transformed(make(plain)) for plain in (False, True))
    found, expected = jax.jit(lambda *x: (ours(*x), plain(*x)))(points, tokens, cotangents)
    agree(found, expected, 1e-12)  # products of up to four factors, each with some tens of roundings


@pytest.mark.parametrize(
    ("heads", "native_call"),
    [(FullHeads(3, 2, 2), True), (ScoreHeads(np.eye(3)), False), (FullHeads(64, 32, 33), False)],
)
def test_full_heads_of_ordinary_size_go_through_the_kernel(heads, native_call):
    points, weights, tokens, _ = draw(3, 2, 4, heads)
    program = str(jax.make_jaxpr(lambda p: crowd.total(heads, p, weights, tokens))(points))
    assert ("ffi_call" in program) == (native_call and native.available())


@needs_kernel
def test_a_batch_of_heads_with_common_data_is_one_call():
    points, _, tokens, cotangents = draw(12, 2, 4, HEADS)

    def search(points):
        return jax.vmap(jax.grad(lambda theta: crowd.pairing(HEADS, theta[None], tokens, cotangents)[0]))(points)

    program = str(jax.make_jaxpr(search)(points))
    assert program.count("ffi_call") == 1
    assert "scan" not in program
    plain = jax.jit(lambda p: XLAHeadKernel(HEADS).gradient(p, tokens, cotangents))
    agree(jax.jit(search)(points), plain(points), ROUNDING["float64"])
