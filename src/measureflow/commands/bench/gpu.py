"""What a GPU does: sums, gradients, sums below all pairs, flows and training, with PyTorch beside where it is installed.

The table is that of `docs/performance.md`. A row says the work, who does it, its size, the median of some runs in a row, what
that makes in a second (pairs; tokens for sums below all pairs; heads for training) and the largest error, relative to the
largest entry, against float64 on a sample. With `shrink` all sizes are divided, to see that it runs.
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

SAMPLE = 128
"""The error of a sum is measured at so many covectors."""

TURNS = 3
"""A time is the median of so many turns."""

TURN = 0.05
"""A turn takes at least so many seconds."""


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
    yield from _loops(shrink)
    yield from _flows(shrink)
    yield from _training(shrink)
    if importlib.util.find_spec("torch") is not None:
        yield from _torch(shrink)


def _tokens(n: int, dim: int, dtype: str, seed: int = 0) -> jax.Array:
    y = jax.random.normal(jax.random.key(seed), (n, dim), dtype)
    return y / jnp.sqrt(jnp.sum(y**2, 1, keepdims=True))


def _row(case: Case) -> dict[str, Any]:
    y = _tokens(case.n, case.dim, case.dtype)
    w = jnp.zeros(case.n, case.dtype)
    if case.weighted:
        w = jnp.log(jax.random.uniform(jax.random.key(1), (case.n,), case.dtype, 1e-3))
    beta = jnp.asarray(case.beta, y.dtype)
    slope = case.work.startswith("gradient")
    run = jax.jit(_gradient(case.engine) if slope else _mean(case.engine))
    seconds = timed(lambda: run(beta, y, w))
    error = _slope_error(case, beta, y, w) if slope else _error(run, beta, y, w)
    done = case.n if "below" in case.work else case.n**2
    return _said(case.work, case.name, case.n, case.dim, case.dtype, seconds, done, error)


def _said(
    work: str, name: str, n: int, dim: int, dtype: str, seconds: float, done: int, error: float | None = None
) -> dict[str, Any]:
    figures = {"seconds": seconds, "per_second": done / seconds, "error": error}
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
    once = lambda: jax.block_until_ready(run())  # noqa: E731
    once()
    begun = time.perf_counter()
    once()
    count = max(1, int(TURN / max(time.perf_counter() - begun, 1e-6)))

    def turn():
        begun = time.perf_counter()
        for _ in range(count):
            once()
        return (time.perf_counter() - begun) / count

    return statistics.median(turn() for _ in range(TURNS))


def _loops(shrink: int) -> Iterator[dict[str, Any]]:
    """Sums one after the other, of one cloud and of many."""
    engine = _pairs()

    def steps(y, w, count):
        attend = engine.attend if y.ndim == 2 else jax.vmap(engine.attend)
        return jax.lax.fori_loop(0, count, lambda _, a: a + 0.01 * attend(4 * a, y, w).mean, y)

    run = jax.jit(steps, static_argnums=2)
    for n, batch in ((4096, 0), (128, 256)):
        n, shape = max(64, n // shrink), (batch,) if batch else ()
        y = jnp.broadcast_to(_tokens(n, 3, "float32"), (*shape, n, 3))
        w = jnp.zeros((*shape, n), y.dtype)
        seconds = timed(lambda y=y, w=w: run(y, w, 200)) / 200
        name = engine.name + (f", batch of {batch}" if batch else "")
        yield _said("sum in a loop", name, n, 3, "float32", seconds, n**2 * (batch or 1))


def _flows(shrink: int) -> Iterator[dict[str, Any]]:
    """Flows by `evolve` with steps of `RK4`: of few tokens, of many such clouds at once and one by one, and of a million."""
    n, batch = max(64, 4096 // shrink), max(2, 256 // shrink)
    run, engine = _flow(4.0, 50)
    tokens = _tokens(n, 3, "float32")
    yield _said("flow of 50 steps", engine(tokens), n, 3, "float32", timed(lambda: run(tokens)), 200 * n**2)
    many = jnp.stack([_tokens(128, 3, "float32", seed) for seed in range(batch)])
    at_once = jax.jit(jax.vmap(run))
    for name, call in ((", at once", lambda: at_once(many)), (", one by one", lambda: [run(one) for one in many])):
        name = f"{batch} of {engine(many[0])}{name}"
        yield _said("flow of 50 steps", name, 128, 3, "float32", timed(call), 200 * batch * 128**2)
    n = max(64, 2**20 // shrink)
    run, engine = _flow(9.0, 20)
    tokens = _tokens(n, 3, "float32")
    yield _said("flow of 20 steps below", engine(tokens), n, 3, "float32", timed(lambda: run(tokens)), 80 * n)


def _flow(beta: float, steps: int) -> tuple[Callable[[jax.Array], jax.Array], Callable[[jax.Array], str]]:
    """A flow of tokens on the sphere up to its end, and the name of the engine that does its sums."""
    import measureflow as mf

    field = mf.SoftmaxAttention.isotropic(3, beta)

    def start(points):
        return mf.Particles(mf.Sphere(3), points)

    @jax.jit
    def run(points):
        return mf.evolve(field, start(points), [0.0, 0.05 * steps], mf.RK4(0.05)).final.points

    return run, lambda points: start(points).engine_name


def _training(shrink: int) -> Iterator[dict[str, Any]]:
    """Steps of training of many heads."""
    from measureflow.commands.bench import peers

    torch = importlib.util.find_spec("torch") is not None
    for heads, sequences, dtype in (
        (4096, 1, "float32"),
        (16384, 1, "float32"),
        (65536, 1, "float32"),
        (4096, 8, "float32"),
        (4096, 1, "float64"),
    ):
        n = max(64, heads // shrink)
        extra = "" if sequences == 1 else f", {sequences} sequences"
        run, exact = peers.ours(n, sequences, dtype), peers.ours(n, sequences, "float64")
        got, truth = (np.asarray(step(), np.float64) for step in (run, exact))
        error = None if dtype == "float64" else float(np.abs(got - truth).max() / np.abs(truth).max())
        yield _said("training step", f"heads{extra}", n, peers.DIM, dtype, timed(run), n * sequences, error)
        if torch:
            seconds = timed(peers.in_torch(n, sequences, dtype))
            yield _said("training step", f"torch heads{extra}", n, peers.DIM, dtype, seconds, n * sequences)


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
            yield _said(work, "torch SDPA", n, dim, str(dtype).removeprefix("torch."), timed(run), n**2)


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
