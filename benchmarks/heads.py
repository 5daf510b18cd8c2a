"""One training step of many heads: measureflow against the same model written the usual way in PyTorch.

    python benchmarks/heads.py [--heads 1024 4096] [--batch 1] [--dtype float32]

Both do the same work: forward, cross-entropy, gradient of every head and the update. PyTorch is optional; without it our
times and their growth with the number of heads are still printed. On a GPU both run there.
"""

import argparse
import statistics
import time

import jax
import numpy as np

from measureflow.commands.bench.peers import DIM, LENGTH, VOCABULARY, in_torch, ours


def medians(runs, repeats: int) -> list[float]:
    """The median seconds of each run; they take turns, so that a busy machine slows all of them alike.

    A turn is several runs in a row, as in training; its first one wakes the threads and does not count.
    """
    times = [[turn(run) for run in runs] for _ in range(repeats)]
    return [statistics.median(seen) for seen in zip(*times, strict=True)]


def turn(run, least: float = 0.05) -> float:
    jax.block_until_ready(run())
    start, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - start < least:
        jax.block_until_ready(run())
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
        f"{'heads':>6} {'ours (ms)':>10} {'PyTorch (ms)':>13} {'ratio':>6}   "
        f"T={LENGTH}, d={DIM}, V={VOCABULARY}, batch={options.batch}"
    )
    for heads in options.heads:
        mine = ours(heads, options.batch, options.dtype)
        if torch is None:
            (seconds,) = medians([mine], options.repeats)
            print(f"{heads:>6} {1e3 * seconds:>10.2f} {'skipped':>13}")
            continue
        other = in_torch(heads, options.batch, options.dtype)
        np.testing.assert_allclose(np.asarray(mine()), other().cpu().numpy(), atol=1e-5)  # the two do the same step
        seconds, others = medians([mine, other], options.repeats)
        print(f"{heads:>6} {1e3 * seconds:>10.2f} {1e3 * others:>13.2f} {others / seconds:>6.2f}")


if __name__ == "__main__":
    main()
