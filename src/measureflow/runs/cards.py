"""What a card does: sums, gradients, sums below all pairs and flows, with PyTorch beside where it is installed.

The table is that of `docs/performance.md`. A row says the work, who does it, its size, the median of some runs in a row, what
that makes in a second (pairs; tokens for sums below all pairs) and the largest error, relative to the largest entry, against
float64 on a sample. With `shrink` all sizes are divided, to see that it runs.
"""

import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.sums import AbstractEngine, Blockwise, Dense, Fourier, Harmonics, Pallas, pallas

SAMPLE, TURNS, TURN = 128, 3, 0.05
"""Covectors whose error is looked at; turns, and the seconds of each at least."""


class Case(NamedTuple):
    """A row to be: the work, its name, numbers of tokens and coordinates, precision, inverse temperature."""

    work: str
    engine: AbstractEngine
    n: int
    dim: int
    dtype: str = "float32"
    beta: float = 4.0
    weighted: bool = False

    @property
    def name(self) -> str:
        """The engine, and what it was asked for."""
        tolerance = getattr(self.engine, "tolerance", None)
        extra = "" if tolerance is None else f" ({tolerance:g})"
        return self.engine.name + extra + (", weights" if self.weighted else "")


def _pairs(**options) -> AbstractEngine:
    """The engine for all pairs on the default device."""
    return Pallas(**options) if pallas.available() else Blockwise()


def cases() -> list[Case]:
    """The sums and gradients of the table."""
    exact, half = _pairs(), _pairs(tolerance=1e-2)
    sums = [Case("sum", exact, 2**k, 3) for k in (16, 18, 20)]
    sums += [Case("sum", exact, 2**20, 3, weighted=True), Case("sum", exact, 2**17, 3, beta=100.0)]
    sums += [Case("sum", exact, 2**17, 3, "float64"), Case("sum", Blockwise(), 2**16, 3)]
    sums += [Case("sum", exact, 2**16, dim) for dim in (8, 16, 64, 128)] + [Case("sum", half, 2**16, 64)]
    slopes = [Case("gradient", exact, 2**17, 3), Case("gradient", exact, 2**16, 3, "float64")]
    slopes += [Case("gradient", exact, 2**15, dim) for dim in (8, 64, 128)] + [Case("gradient", Blockwise(), 2**14, 3)]
    return sums + slopes


def below() -> list[Case]:
    """Sums and gradients below all pairs."""
    rows = [Case("below", Fourier(1e-6), n, 2, beta=16.0) for n in (10**6, 10**8)]
    rows += [Case("below", Fourier(1e-10), n, 2, "float64", 16.0) for n in (10**6, 10**8)]
    rows += [
        Case("below", Harmonics(1e-6), 10**6, 3, beta=9.0),
        Case("below", Harmonics(1e-10), 10**6, 3, "float64", 9.0),
    ]
    slopes = [(Fourier(1e-6), 2, 16.0), (Harmonics(1e-6), 3, 9.0)]
    return rows + [Case("gradient below", engine, 10**6, dim, beta=beta) for engine, dim, beta in slopes]


def table(shrink: int = 1) -> Iterator[dict[str, Any]]:
    """The rows of the table, one after the other."""
    for case in cases() + below():
        yield _row(case._replace(n=max(64, case.n // shrink)))
    yield from _flows(shrink)
    if importlib.util.find_spec("torch") is not None:
        yield from _torch(shrink)


def _tokens(n: int, dim: int, dtype: str) -> jax.Array:
    y = jax.random.normal(jax.random.key(0), (n, dim), dtype)
    return y / jnp.sqrt(jnp.sum(y**2, 1, keepdims=True))


def _row(case: Case) -> dict[str, Any]:
    y = _tokens(case.n, case.dim, case.dtype)
    w = jnp.zeros(case.n, case.dtype)
    if case.weighted:
        w = jnp.log(jax.random.uniform(jax.random.key(1), (case.n,), case.dtype, 1e-3))
    beta = jnp.asarray(case.beta, y.dtype)
    slope = case.work.startswith("gradient")
    run = jax.jit(_gradient(case.engine) if slope else _mean(case.engine))
    seconds = timed(lambda: jax.block_until_ready(run(beta, y, w)))
    error = _slope_error(case, beta, y, w) if slope else _error(run, beta, y, w)
    return _said(case.work, case.name, case.n, case.dim, case.dtype, seconds, error)


def _said(
    work: str, name: str, n: int, dim: int, dtype: str, seconds: float, error: float | None, sums: int = 1
) -> dict:
    done = 1 if "below" in work else n
    rate = n * done * sums / seconds
    figures = {"seconds": seconds, "per_second": rate, "error": error}
    return {"work": work, "name": name, "n": n, "dim": dim, "dtype": dtype, **figures}


def _mean(engine: AbstractEngine) -> Callable:
    return lambda beta, y, w: engine.attend(beta * y, y, w).mean


def _gradient(engine: AbstractEngine) -> Callable:
    def observable(y, beta, w):
        return jnp.sum(engine.attend(beta * y, y, w).mean ** 2)

    return lambda beta, y, w: jax.value_and_grad(observable)(y, beta, w)


def _error(run: Callable, beta: jax.Array, y: jax.Array, w: jax.Array) -> float:
    sample = np.linspace(0, len(y) - 1, min(SAMPLE, len(y))).astype(int)
    exact = [x.astype(jnp.float64) for x in (beta, y, w)]
    truth = jax.jit(Blockwise().attend)(exact[0] * exact[1][sample], *exact[1:]).mean
    return float(jnp.abs(run(beta, y, w)[sample].astype(jnp.float64) - truth).max() / jnp.abs(truth).max())


def _slope_error(case: Case, beta: jax.Array, y: jax.Array, w: jax.Array) -> float:
    """That of the first tokens alone, since a gradient has no sample."""
    y, w = y[:1024], w[:1024]
    got = jax.jit(_gradient(case.engine))(beta, y, w)[1]
    truth = jax.jit(_gradient(Dense()))(*(x.astype(jnp.float64) for x in (beta, y, w)))[1]
    return float(jnp.abs(got.astype(jnp.float64) - truth).max() / jnp.abs(truth).max())


def timed(run: Callable[[], Any]) -> float:
    """The median over turns of the seconds of a run among several in a row, after one to compile and one to warm up."""
    run()
    begun = time.perf_counter()
    run()
    count = max(1, int(TURN / max(time.perf_counter() - begun, 1e-6)))

    def turn():
        begun = time.perf_counter()
        for _ in range(count):
            run()
        return (time.perf_counter() - begun) / count

    return statistics.median(turn() for _ in range(TURNS))


def _flows(shrink: int) -> Iterator[dict[str, Any]]:
    """Sums as flows make them: one after the other, of one cloud and of many; and a whole flow of a million tokens."""
    engine = _pairs()

    def steps(y, w, count):
        attend = engine.attend if y.ndim == 2 else jax.vmap(engine.attend)
        return jax.lax.fori_loop(0, count, lambda _, a: a + 0.01 * attend(4 * a, y, w).mean, y)

    run = jax.jit(steps, static_argnums=2)
    for n, batch in ((4096, 0), (128, 256)):
        n, shape = max(64, n // shrink), (batch,) if batch else ()
        y = jnp.broadcast_to(_tokens(n, 3, "float32"), (*shape, n, 3))
        w = jnp.zeros((*shape, n), y.dtype)
        seconds = timed(lambda y=y, w=w: run(y, w, 200).block_until_ready()) / 200
        name = engine.name + (f", batch of {batch}" if batch else "")
        yield _said("sum in a loop", name, n, 3, "float32", seconds, None, batch or 1)
    yield _long(max(64, 2**20 // shrink))


def _long(n: int) -> dict[str, Any]:
    import measureflow as mf

    mu = mf.Particles(mf.Sphere(3), _tokens(n, 3, "float32"))
    field = mf.SoftmaxAttention.isotropic(3, 9.0)

    def run():
        return jax.block_until_ready(mf.evolve(field, mu, [0.0, 1.0], mf.RK4(0.05)).final.points)

    name = mf.evolve(field, mu, [0.0, 1.0], mf.RK4(0.05)).stats["engine"]
    return _said("flow of 20 steps below", str(name), n, 3, "float32", timed(run), None, 80)


def _torch(shrink: int) -> Iterator[dict[str, Any]]:
    import torch  # pyright: ignore[reportMissingImports]

    sizes = [
        (2**16, 4, torch.float32),
        (2**15, 64, torch.float32),
        (2**15, 128, torch.float32),
        (2**15, 64, torch.bfloat16),
    ]
    for n, dim, dtype in sizes:
        n = max(64, n // shrink)
        x = torch.tensor(np.array(_tokens(n, dim, "float32")), device="cuda" if pallas.available() else "cpu")
        x = x.to(dtype)[None, None].requires_grad_()
        for work, run in (("sum", _torch_sum(x)), ("gradient", _torch_slope(x))):
            yield _said(work, "torch SDPA", n, dim, str(dtype).removeprefix("torch."), timed(run), None)


def _torch_sum(x) -> Callable[[], Any]:
    import torch  # pyright: ignore[reportMissingImports]

    def run():
        with torch.no_grad():
            out = torch.nn.functional.scaled_dot_product_attention(x, x, x, scale=4.0)
        return out.sum().item()

    return run


def _torch_slope(x) -> Callable[[], Any]:
    import torch  # pyright: ignore[reportMissingImports]

    def run():
        x.grad = None
        (torch.nn.functional.scaled_dot_product_attention(x, x, x, scale=4.0) ** 2).sum().backward()
        return x.grad.sum().item()  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]

    return run
