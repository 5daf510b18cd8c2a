"""A gradient flow of tokens has a symmetric Jacobian, and softmax attention has not.

For an energy `F` of the measure, `x_i' = -n grad_i F`, so the joint field of all tokens is a gradient and its Jacobian
symmetric. Each row of softmax attention is the gradient of a log mass for a frozen measure, but its denominator weighs
the pair `(i, j)` differently seen from `i` and from `j`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float

from measureflow.fields import SoftmaxAttention, UnnormalisedAttention
from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal

CLAIM = Claim(
    "softmax-attention-is-not-a-wasserstein-gradient-flow",
    "The softmax field is the x-gradient of log∫e^{<x,y>}dμ for frozen μ, yet no energy of μ generates it, because the "
    "joint token field has a non-symmetric Jacobian.",
    reference="sander:22",
)

SWEEPS = 300

Tokens = Float[Array, "n d"]


def cloud(tokens: Tokens) -> Particles:
    """The empirical measure."""
    return Particles(Euclidean(tokens.shape[1]), tokens)


def softmax(tokens: Tokens) -> Tokens:
    """Softmax attention with `A = V = I`."""
    return SoftmaxAttention.isotropic(2, beta=1.0)(0.0, tokens, cloud(tokens))


def unnormalised(tokens: Tokens) -> Tokens:
    """The same without the denominator."""
    return UnnormalisedAttention.isotropic(2, beta=1.0)(0.0, tokens, cloud(tokens))


def weighted_softmax(tokens: Tokens) -> Tokens:
    """Softmax attention, each token sped up by its own denominator `Z_i`: a gradient in the metric `Σ Z_i |v_i|²`."""
    row_sums = len(tokens) * jnp.exp(cloud(tokens).attend(tokens).log_mass)
    return row_sums[:, None] * softmax(tokens)


def sinkhorn(tokens: Tokens) -> Tokens:
    """Attention with the doubly stochastic kernel `e^{<x, y> + f(x) + f(y)}`, by damped symmetric sweeps for `f`."""
    scores = tokens @ tokens.T - jnp.log(float(len(tokens)))

    def sweep(f, _):
        return (f - logsumexp(scores + f[None, :], axis=1)) / 2, None

    f, _ = jax.lax.scan(sweep, jnp.zeros(len(tokens)), length=SWEEPS)
    return jnp.exp(scores + f[:, None] + f[None, :]) @ tokens


def asymmetry(field, tokens: Tokens) -> Float[Array, ""]:
    """How far the Jacobian is from symmetric, `|J - J^T| / |J|`."""
    J = jax.jacfwd(field)(tokens).reshape(tokens.size, tokens.size)
    return jnp.linalg.norm(J - J.T) / jnp.linalg.norm(J)


def frozen_gradient(tokens: Tokens) -> Tokens:
    """The gradient of the log mass of the tokens at each of them, while the measure stays."""
    mu = cloud(tokens)
    return jax.vmap(jax.grad(lambda x: mu.attend(x[None, :]).log_mass[0]))(tokens)


@eqx.filter_jit
def measure(clouds: Float[Array, "k n d"]) -> dict[str, Float[Array, " k"]]:
    """The asymmetries of the four fields and the error of the frozen gradient, for each cloud."""
    fields = (softmax, unnormalised, sinkhorn, weighted_softmax)
    found = {field.__name__: jax.vmap(lambda xs, field=field: asymmetry(field, xs))(clouds) for field in fields}
    error = jax.vmap(lambda xs: jnp.abs(frozen_gradient(xs) - softmax(xs)).max())
    return found | {"frozen gradient": error(clouds)}


def run(size: Size = SMALL) -> Verdict:
    """Differentiate the four fields at 20 clouds of 6 tokens in the plane."""
    found = measure(jax.random.normal(jax.random.key(0), (20, 6, 2)))
    zeros = [
        equal(f"asymmetry, {name}", 0.0, found[field].max(), 1e-10)  # automatic differentiation: rounding only
        for name, field in (
            ("unnormalised", "unnormalised"),
            ("sinkhorn", "sinkhorn"),
            ("Z softmax", "weighted_softmax"),
        )
    ]
    return CLAIM.judge(
        # Its size depends on the tokens; the least over the clouds is asked to be far from rounding.
        at_least("asymmetry, softmax", 0.01, found["softmax"].min()),
        *zeros,
        equal("frozen gradient", 0.0, found["frozen gradient"].max(), 1e-10),  # rounding only
    )
