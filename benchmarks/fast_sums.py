"""Fast sums against their peers, side by side and interleaved in one run.

    python benchmarks/fast_sums.py [rounds]

On the circle (10^6 tokens, 1e-10): Fourier modes against FINUFFT called directly, and against all pairs in plain JAX at
8192 tokens. On the sphere (2 10^5 tokens, beta = 4, 1e-6): the fast engines against the exact kernel, whose time is that of a
hundredth of the covectors times a hundred. Medians; errors are against exact sums of a few covectors.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ive

import measureflow as mf
from measureflow.sums import Dense, native, nufft
from measureflow.sums.fourier import Fourier, modes
from measureflow.sums.harmonics import Harmonics
from measureflow.sums.isolated import exact


def tokens(dim, n, beta):
    points = mf.Particles.iid(mf.Sphere(dim), n, key=0).points
    return beta * points, points, jnp.full(n, -jnp.log(n))


def finufft_circle(beta, precision):
    """What one would write by hand: moments by one transform, mass and mean by a pair of them."""
    import jax_finufft

    top = modes(beta, precision)
    bessel = jnp.asarray(ive(np.abs(np.arange(-top, top + 1)), beta), complex)

    def attend(a, y, w):
        sources, covectors = jnp.arctan2(y[:, 1], y[:, 0]), jnp.arctan2(a[:, 1], a[:, 0])
        moments = jax_finufft.nufft1(2 * top + 3, jnp.exp(w).astype(complex), sources, iflag=-1, eps=precision)
        pair = jnp.stack([moments[1:-1] * bessel, moments[:-2] * bessel])
        mass, moment = jax_finufft.nufft2(pair, covectors, iflag=1, eps=precision)
        mass = mass.real
        return beta + jnp.log(mass), jnp.stack([moment.real, moment.imag], 1) / mass[:, None]

    return attend


def seconds(cases, rounds):
    """The median time of each case, all cases in turn in each round."""
    for function, arguments in cases.values():
        jax.block_until_ready(function(*arguments))
    times = {name: [] for name in cases}
    for _ in range(rounds):
        for name, (function, arguments) in cases.items():
            begun = time.perf_counter()
            jax.block_until_ready(function(*arguments))
            times[name].append(time.perf_counter() - begun)
    return {name: float(np.median(t)) for name, t in times.items()}


def error(function, arguments, some=200):
    a, y, w = arguments
    expected = exact().attend(a[:some], y, w)
    log_mass, mean = function(*arguments)
    return max(
        float(jnp.abs(log_mass[:some] - expected.log_mass).max()), float(jnp.abs(mean[:some] - expected.mean).max())
    )


def report(title, cases, times):
    """Times, ratios to the first case, and errors where all covectors were summed."""
    print(title)
    first = next(iter(times.values()))
    for name, (function, arguments) in cases.items():
        off = f"error {error(function, arguments):.0e}" if len(arguments[0]) == len(arguments[1]) > 8192 else ""
        print(f"  {name:28s} {1e3 * times[name]:10.2f} ms  {times[name] / first:8.1f} x  {off}")


def main(rounds):
    jax.config.update("jax_enable_x64", True)
    print(f"native kernels: {native.level()}")
    for beta in (4.0, 16.0, 256.0):
        many = tokens(2, 10**6, beta)
        cases = {"fourier": (jax.jit(Fourier(1e-10).attend), many)}
        if nufft.available():
            cases["finufft"] = (jax.jit(finufft_circle(beta, 1e-10)), many)
        report(f"circle, n = 10^6, beta = {beta:g}, 1e-10", cases, seconds(cases, rounds))

    few = tokens(2, 8192, 16.0)
    cases = {"fourier": (jax.jit(Fourier(1e-10).attend), few), "all pairs in JAX": (jax.jit(Dense().attend), few)}
    report("circle, n = 8192, beta = 16", cases, seconds(cases, rounds))

    for beta in (4.0, 64.0):
        many = tokens(3, 200_000, beta)
        cases = {
            "harmonics": (jax.jit(Harmonics(1e-6).attend), many),
            "exact": (jax.jit(exact().attend), (many[0][:2000], *many[1:])),
        }
        if nufft.available():
            cases["nufft"] = (jax.jit(nufft.Nufft(beta, 1e-6).attend), many)
        times = seconds(cases, rounds)
        times["exact"] *= 100
        report(f"sphere, n = 2 10^5, beta = {beta:g}, 1e-6", cases, times)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
