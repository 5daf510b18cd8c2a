"""Products keep the precision of their numbers wherever a user calls something by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf

rng = np.random.default_rng(0)
A, V, Q, K = jnp.asarray(rng.normal(size=(4, 3, 3)) / 2)
XS = jnp.asarray(rng.normal(size=(5, 3)))
TOKENS = mf.Particles(mf.Euclidean(3), XS)
NORMAL = mf.Gaussian(XS[0], jnp.eye(3))
MIXTURE = mf.GaussianMixture([0.5, 0.5], XS[:2], jnp.stack([jnp.eye(3)] * 2))

CALLS = {
    "softmax": lambda xs: mf.SoftmaxAttention(A, V)(0.0, xs, TOKENS),
    "unnormalised": lambda xs: mf.UnnormalisedAttention(A, V)(0.0, xs, TOKENS),
    "l2": lambda xs: mf.L2Attention(Q, K, V)(0.0, xs, TOKENS),
    "sinkhorn": lambda xs: mf.SinkhornAttention(A + A.T, V)(0.0, xs, TOKENS),
    "sigmoid": lambda xs: mf.SigmoidAttention(A, V)(0.0, xs, TOKENS),
    "linear": lambda xs: mf.LinearAttention(A, V)(0.0, xs, TOKENS),
    "relu": lambda xs: mf.ReLUAttention(A, V)(0.0, xs, TOKENS),
    "hardmax": lambda xs: mf.HardmaxAttention(A, V)(0.0, xs, TOKENS),
    "heads": lambda xs: mf.MultiHead([mf.SoftmaxAttention(A, V)] * 2)(0.0, xs, TOKENS),
    "causal": lambda xs: mf.Causal(mf.SoftmaxAttention(A, V))(0.0, xs, mf.Particles(mf.Euclidean(3), xs)),
    "perceptron": lambda xs: mf.Perceptron(A, V, XS[0])(0.0, xs, TOKENS),
    "norm": lambda xs: mf.Normalised(mf.SoftmaxAttention(A, V), mf.PreNorm())(0.0, xs, TOKENS),
    "gradient flow": lambda xs: mf.GradientFlow(mf.BilinearEnergy(A))(0.0, xs, TOKENS),
    "energy": lambda xs: mf.BilinearEnergy(A)(mf.Particles(mf.Euclidean(3), xs)),
    "variation": lambda xs: mf.BilinearEnergy(A).variation(TOKENS, xs),
    "gaussian": lambda xs: NORMAL.attend(xs),
    "mixture": lambda xs: MIXTURE.attend(xs),
    "average": lambda xs: NORMAL.integrate(lambda ys: ys @ xs.T),
    "lipschitz": lambda xs: mf.diagnostics.lipschitz(mf.SoftmaxAttention(A, V), mf.Particles(mf.Euclidean(3), xs)),
    "bures": lambda xs: mf.transport.bures(jnp.diag(1 + xs[0] ** 2), jnp.eye(3)),
}


def products(call) -> list[str]:
    return [
        line for line in jax.jit(call).lower(XS).as_text().splitlines() if "dot_general" in line and "xf64>" in line
    ]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_products_are_exact_by_default(call):
    inside = products(call)
    assert inside or call is CALLS["hardmax"]
    # On a GPU factors of float32 products are otherwise rounded to ten bits.
    assert all("precision = [HIGHEST, HIGHEST]" in line for line in inside)


def test_who_asks_for_less_gets_less():
    with jax.default_matmul_precision("tensorfloat32"):
        assert not all("HIGHEST" in line for line in products(CALLS["perceptron"]))
