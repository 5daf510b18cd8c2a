"""One training step of many heads: measureflow against the same model written the usual way in PyTorch.

    python benchmarks/heads.py [--heads 1024 4096] [--batch 1] [--dtype float32]

Both do the same work: forward, cross-entropy, gradient of every head and the update. PyTorch is optional; without it our
times and their growth with the number of heads are still printed. On a GPU both run there.
"""

import argparse
import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import measureflow as mf
from measureflow import training

T, D, V, K = 32, 16, 64, 4


def data(batch: int, dtype: str):
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((batch, T, D)).astype(dtype)
    return tokens, rng.integers(0, V, (batch, T)), rng.standard_normal((D, V)).astype(dtype)


def ours(heads: int, batch: int, dtype: str):
    tokens, labels, W = data(batch, dtype)
    risk = training.HeadRisk(tokens, labels, W, training.FullHeads(D, K, K))
    field = training.Descent(risk)
    points = 0.1 * np.random.default_rng(1).standard_normal((heads, risk.heads.size)).astype(dtype)
    mu = mf.Particles(risk.heads.space, points)

    @eqx.filter_jit
    def step(field, mu):
        return eqx.tree_at(lambda m: m.points, mu, mu.points + jnp.asarray(1e-3, dtype) * field(0.0, mu.points, mu))

    def run():
        nonlocal mu
        mu = step(field, mu)
        jax.block_until_ready(mu.points)

    return run, lambda: np.asarray(step(field, mf.Particles(risk.heads.space, points)).points)


def naive(heads: int, batch: int, dtype: str):
    import torch

    tokens, labels, W = data(batch, dtype)
    device = "cuda" if jax.default_backend() == "gpu" else "cpu"
    x, y, unembedding = (torch.tensor(array, device=device) for array in (tokens, labels, W))
    points = 0.1 * np.random.default_rng(1).standard_normal((heads, 4 * D * K)).astype(dtype)
    theta = torch.tensor(points, device=device, requires_grad=True)
    mask = torch.full((T, T), float("-inf"), dtype=x.dtype, device=device).triu(1)

    def step():
        q, k, v = (theta[:, i * D * K : (i + 1) * D * K].reshape(heads, 1, D, K) for i in range(3))
        o = theta[:, 3 * D * K :].reshape(heads, 1, K, D)
        scores = (x @ q) @ (x @ k).transpose(-1, -2) / K**0.5 + mask
        logits = (scores.softmax(-1) @ (x @ v) @ o).mean(0) @ unembedding
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, V), y.reshape(-1), reduction="sum") / batch
        (gradient,) = torch.autograd.grad(loss, theta)
        with torch.no_grad():
            theta.sub_(2e-3 * heads * gradient)
        if device == "cuda":
            torch.cuda.synchronize()
        return theta

    return step, lambda: step().detach().cpu().numpy().copy()


def medians(runs, repeats: int) -> list[float]:
    """The median seconds of each run; they take turns, so that a busy machine slows all of them alike.

    A turn is several runs in a row, as in training; its first one wakes the threads and does not count.
    """
    times = [[turn(run) for run in runs] for _ in range(repeats)]
    return [statistics.median(seen) for seen in zip(*times, strict=True)]


def turn(run, least: float = 0.05) -> float:
    run()
    start, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - start < least:
        run()
        count += 1
    return (time.perf_counter() - start) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heads", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    if options.dtype == "float64":
        jax.config.update("jax_enable_x64", True)
    try:
        import torch

        print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    except ImportError:
        torch = None
        print("PyTorch is not installed: its column is skipped.")
    print(
        f"{'heads':>6} {'ours (ms)':>10} {'PyTorch (ms)':>13} {'ratio':>6}   T={T}, d={D}, V={V}, batch={options.batch}"
    )
    for heads in options.heads:
        run, first = ours(heads, options.batch, options.dtype)
        if torch is None:
            (mine,) = medians([run], options.repeats)
            print(f"{heads:>6} {1e3 * mine:>10.2f} {'skipped':>13}")
            continue
        _, other_first = naive(heads, options.batch, options.dtype)
        np.testing.assert_allclose(first(), other_first(), atol=1e-5)  # the two do the same step
        mine, other = medians([run, naive(heads, options.batch, options.dtype)[0]], options.repeats)
        print(f"{heads:>6} {1e3 * mine:>10.2f} {1e3 * other:>13.2f} {other / mine:>6.2f}")


if __name__ == "__main__":
    main()
