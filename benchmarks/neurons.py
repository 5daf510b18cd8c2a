"""One training step of many neurons on handwritten digits: measureflow against the same network in PyTorch.

    python benchmarks/neurons.py [--neurons 10000 100000] [--batch 32 256] [--dtype float32]

Both do the same work: forward, cross-entropy, gradient of every neuron and the update, on the same digits; ReLU neurons with bias
and ten outputs. Rounds of eight steps of both alternate in one run; ours are one compiled loop, as in training. PyTorch is
optional; without it our times are still printed.
"""

import argparse
import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import measureflow as mf
from measureflow import training

CLASSES, STEP, ROUND = 10, 1e-3, 8


def data(batch: int, dtype: str):
    inputs, labels = load_digits(return_X_y=True)
    return (inputs[:batch] / 16).astype(dtype), labels[:batch]


def start(neurons: int, inputs: int, dtype: str):
    return 0.1 * np.random.default_rng(1).standard_normal((neurons, CLASSES + inputs + 1)).astype(dtype)


def ours(neurons: int, batch: int, dtype: str):
    inputs, labels = data(batch, dtype)
    family = training.Neurons(inputs.shape[1], CLASSES, bias=True)
    risk = training.NeuronRisk(inputs, labels, family, training.CrossEntropy())
    mu = mf.Particles(family.space, start(neurons, inputs.shape[1], dtype))
    field = training.Descent(risk, factor=1.0)

    @eqx.filter_jit(donate="all-except-first")
    def steps(field, mu):
        def step(_, points):
            return points + jnp.asarray(STEP, dtype) * field(0.0, points, mf.Particles(mu.space, points))

        return eqx.tree_at(lambda m: m.points, mu, jax.lax.fori_loop(0, ROUND, step, mu.points))

    state = [mu]

    def run():
        state[0] = steps(field, state[0])
        return np.asarray(jax.block_until_ready(state[0].points[:1]))

    return run, lambda: np.asarray(state[0].points)


def theirs(neurons: int, batch: int, dtype: str):
    import torch

    inputs, labels = data(batch, dtype)
    x, y = torch.tensor(inputs), torch.tensor(labels)
    d = inputs.shape[1]
    first = start(neurons, d, dtype)
    hidden = torch.nn.Linear(d, neurons, dtype=x.dtype)
    out = torch.nn.Linear(neurons, CLASSES, bias=False, dtype=x.dtype)
    with torch.no_grad():
        hidden.weight.copy_(torch.tensor(first[:, CLASSES : CLASSES + d]))
        hidden.bias.copy_(torch.tensor(first[:, -1]))
        out.weight.copy_(torch.tensor(first[:, :CLASSES].T))
    parameters = [*hidden.parameters(), *out.parameters()]
    # The gradient of a parameter has a factor 1/N, which the mean-field clock does not.
    optimiser = torch.optim.SGD(parameters, lr=STEP * neurons)

    def run():
        for _ in range(ROUND):
            loss = torch.nn.functional.cross_entropy(out(torch.relu(hidden(x))) / neurons, y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    def points():
        parts = (out.weight.T, hidden.weight, hidden.bias[:, None])
        return torch.cat(parts, 1).detach().numpy()

    return run, points


def main() -> None:
    """Print the median times of a step, side by side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neurons", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 256])
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--repeats", type=int, default=9)
    words = parser.parse_args()
    if words.dtype == "float64":
        jax.config.update("jax_enable_x64", True)
    try:
        import torch

        print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
        rivals = [theirs]
    except ImportError:
        print("PyTorch is not installed: our times alone")
        rivals = []
    for neurons in words.neurons:
        for batch in words.batch:
            report(neurons, batch, words.dtype, words.repeats, rivals)


def report(neurons: int, batch: int, dtype: str, repeats: int, rivals: list) -> None:
    """One line: our step, theirs and the ratio, and whether both networks are the same after it."""
    runs = [make(neurons, batch, dtype) for make in (ours, *rivals)]
    times: list[list[float]] = [[] for _ in runs]
    for k in range(repeats + 2):
        for (run, _), found in zip(runs, times, strict=True):
            begun = time.perf_counter()
            run()
            if k >= 2:  # the first steps compile and warm up
                found.append(time.perf_counter() - begun)
    middle = [1e3 * statistics.median(found) / ROUND for found in times]
    line = f"{neurons:7d} neurons, {batch:4d} digits, {dtype}: {middle[0]:8.2f} ms a step"
    if rivals:
        apart = np.abs(runs[0][1]() - runs[1][1]()).max()
        line += f", PyTorch {middle[1]:8.2f} ms, ratio {middle[1] / middle[0]:.2f}, networks differ by {apart:.1e}"
    print(line)


if __name__ == "__main__":
    main()
