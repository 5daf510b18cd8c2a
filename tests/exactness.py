"""What a user calls by itself, in one precision: every attention, mask, norm and energy, diagnostics and distances.

`python tests/exactness.py` compares float32 with float64 on the default device, and is the test of a card: by default it would
round the factors of products to ten bits, an error of 3e-4. Not part of CI, which looks at the programs (`test_precision.py`).
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import measureflow as mf

ALLOWED = 2e-6
"""The error in float32, relative to the size of the result: some roundings of numbers of size one."""


def tokens(dtype) -> jax.Array:
    """Points at which all is called."""
    return jnp.asarray(np.random.default_rng(1).normal(size=(5, 3)), dtype)


def calls(dtype) -> dict:
    """Functions of points, by name."""
    rng = np.random.default_rng(0)
    A, V, Q, K = (jnp.asarray(x, dtype) for x in rng.normal(size=(4, 3, 3)) / 2)
    XS = jnp.asarray(rng.normal(size=(5, 3)), dtype)
    flat = mf.Euclidean(3)
    seen = mf.Particles(flat, XS)
    normal = mf.Gaussian(XS[0], jnp.eye(3, dtype=dtype))
    mixture = mf.GaussianMixture([0.5, 0.5], XS[:2], jnp.stack([jnp.eye(3, dtype=dtype)] * 2))
    softmax = mf.SoftmaxAttention(A, V)
    fields = {
        "softmax": softmax,
        "unnormalised": mf.UnnormalisedAttention(A, V),
        "l2": mf.L2Attention(Q, K, V),
        "sinkhorn": mf.SinkhornAttention(A + A.T, V),
        "sigmoid": mf.SigmoidAttention(A, V),
        "linear": mf.LinearAttention(A, V),
        "relu": mf.ReLUAttention(A, V),
        "hardmax": mf.HardmaxAttention(A, V),
        "heads": mf.MultiHead([softmax] * 2),
        "perceptron": mf.Perceptron(A, V, XS[0]),
        "post": mf.Normalised(softmax, mf.PostNorm()),
        "pre": mf.Normalised(softmax, mf.PreNorm()),
        "peri": mf.Normalised(softmax, mf.PeriNorm()),
        "gradient flow": mf.GradientFlow(mf.BilinearEnergy(A)),
    }
    masks = {"causal": mf.Causal(softmax), "causal, biased": mf.Causal(softmax, mf.ALiBi(0.5))}
    energies = {
        "interaction": mf.InteractionEnergy(1.0),
        "bilinear": mf.BilinearEnergy(A),
        "sinkhorn": mf.SinkhornEnergy(A + A.T),
    }
    return {
        **{name: lambda xs, f=field: f(0.0, xs, seen) for name, field in fields.items()},
        **{name: lambda xs, f=field: f(0.0, xs, mf.Particles(flat, xs)) for name, field in masks.items()},
        **{f"energy: {name}": lambda xs, e=energy: e(mf.Particles(flat, xs)) for name, energy in energies.items()},
        **{f"variation: {name}": lambda xs, e=energy: e.variation(seen, xs) for name, energy in energies.items()},
        "gaussian": lambda xs: normal.attend(xs),
        "mixture": lambda xs: mixture.attend(xs),
        "average": lambda xs: normal.integrate(lambda ys: ys @ xs.T),
        "lipschitz": lambda xs: mf.diagnostics.lipschitz(softmax, mf.Particles(flat, xs)),
        "bures": lambda xs: mf.transport.bures(jnp.diag(1 + xs[0] ** 2), jnp.eye(3, dtype=dtype)),
    }


def errors() -> dict[str, float]:
    """The error of each call in float32, relative to the size of its result."""
    found = {}
    for name, call in calls(jnp.float32).items():
        rough, exact = call(tokens(jnp.float32)), calls(jnp.float64)[name](tokens(jnp.float64))
        pairs = zip(jax.tree.leaves(rough), jax.tree.leaves(exact), strict=True)
        found[name] = max(
            float(jnp.abs(x - y).max() / (1 + jnp.abs(y).max())) for x, y in pairs if y.dtype == jnp.float64
        )
    return found


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    for name, error in (found := errors()).items():
        print(f"{name:<24} {error:.1e} {'' if error <= ALLOWED else 'TOO LARGE'}")  # noqa: T201
    sys.exit(max(found.values()) > ALLOWED)
