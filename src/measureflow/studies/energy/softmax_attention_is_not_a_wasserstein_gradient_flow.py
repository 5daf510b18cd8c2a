"""A gradient flow of tokens has a symmetric Jacobian, and softmax attention has not.

For an energy `F` of the measure, `x_i' = -n grad_i F`, so the joint field of all tokens is a gradient and its Jacobian
symmetric. Each row of softmax attention is the gradient of a log mass for a frozen measure, but its denominator weighs
the pair `(i, j)` differently seen from `i` and from `j`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.diagnostics import curl
from measureflow.fields import AbstractField, SinkhornAttention, SoftmaxAttention, UnnormalisedAttention
from measureflow.measures import AbstractMeasure, Particles
from measureflow.plotting import Figure, draw_table, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal

CLAIM = Claim(
    "The softmax field is the x-gradient of log∫e^{<x,y>}dμ for frozen μ, yet no energy of μ generates it, because the "
    "joint token field has a non-symmetric Jacobian.",
    reference="sander:22",
    where="section on gradient flows; slides on attention as dynamics of the lecture deck",
)

SOFTMAX = "softmax"


class RowSummed(AbstractField):
    """Softmax attention, each token sped up by its own denominator `Z`: a gradient in the metric `Σ Z_i |v_i|²`."""

    def __call__(self, t, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity `Z(x) v(x)`."""
        softmax = SoftmaxAttention.isotropic(xs.shape[1], beta=1.0)
        return jnp.exp(mu.attend(xs).log_mass)[:, None] * softmax(t, xs, mu)


def fields() -> dict[str, AbstractField]:
    """The four fields with `A = V = I`."""
    return {
        SOFTMAX: SoftmaxAttention.isotropic(2, beta=1.0),
        "unnormalised": UnnormalisedAttention.isotropic(2, beta=1.0),
        "sinkhorn": SinkhornAttention.isotropic(2, beta=1.0),
        "Z softmax": RowSummed(),
    }


def frozen_gradient(mu: Particles) -> Float[Array, "n d"]:
    """The gradient of the log mass of the tokens at each of them, while the measure stays."""
    return jax.vmap(jax.grad(lambda x: mu.attend(x[None, :]).log_mass[0]))(mu.points)


@eqx.filter_jit
@jax.vmap
def measure(tokens: Float[Array, "n d"]) -> dict[str, Float[Array, ""]]:
    """The asymmetries of the four fields and the error of the frozen gradient."""
    mu = Particles(Euclidean(2), tokens)
    error = jnp.abs(frozen_gradient(mu) - fields()[SOFTMAX](0.0, tokens, mu)).max()
    return {name: curl(field, mu) for name, field in fields().items()} | {"frozen gradient": error}


@eqx.filter_jit
def asymmetry(field: AbstractField, tokens: Float[Array, "n d"]) -> Float[Array, "nd nd"]:
    """The entries of `|J - J^T|` for the velocities of all tokens together."""
    J = jax.jacfwd(lambda xs: field(0.0, xs, Particles(Euclidean(2), xs)))(tokens).reshape(tokens.size, -1)
    return jnp.abs(J - J.T)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Differentiate the four fields at 20 clouds of 6 tokens in a square of the plane."""
    # Bounded, since the Sinkhorn sweeps contract by a factor that tends to one with the range of the scores.
    clouds = jax.random.uniform(jax.random.key(seed), (20, 6, 2), minval=-1.5, maxval=1.5)
    found = measure(clouds)
    # Automatic differentiation leaves rounding, and the Sinkhorn sweeps a residual of 1e-12.
    zeros = [equal(f"asymmetry, {name}", 0.0, found[name].max(), 1e-10) for name in fields() if name != SOFTMAX]
    return CLAIM.judge(
        # Its size depends on the tokens; the least over the clouds is asked to be far from rounding.
        at_least("asymmetry, softmax", 0.01, found[SOFTMAX].min()),
        *zeros,
        equal("frozen gradient", 0.0, found["frozen gradient"].max(), 1e-10),  # rounding only
        data={name: np.asarray(asymmetry(field, clouds[0])) for name, field in fields().items()},
    )


def draw(asymmetries: dict[str, np.ndarray]) -> Figure:
    """Where the Jacobian of one cloud differs from its transpose, for each field."""
    figure, axes = panels(len(asymmetries), width=3.2, height=3.4)
    top = max(np.max(entries) for entries in asymmetries.values())
    for ax, (name, entries) in zip(axes, asymmetries.items(), strict=True):
        draw_table(ax, entries, name, top=top, names=(f"largest entry {np.max(entries):.0e}", "|J - Jᵀ|"))
    return figure
