"""Scaled until it is doubly stochastic, attention becomes the gradient flow of an entropic transport energy.

For a symmetric form the kernel is `e^{<Sx, y> + f(x) + f(y)}` and `F = -∫ f dmu` has first variation `-f`, so its flow is
`grad f`, which is attention with value `-S`. Here the energy of tokens is written out with sweeps of its own, and
differentiated through them, so that neither the potentials nor the velocity come from the attention they judge.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float

from measureflow.diagnostics import curl
from measureflow.energies import GradientFlow, SinkhornEnergy
from measureflow.fields import SinkhornAttention
from measureflow.measures import Particles
from measureflow.plotting import Figure, checks_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, equal

CLAIM = Claim(
    "With symmetric key-query form S and W_V=-S, Sinkhorn attention is the gradient flow of the entropic energy -∫f dμ.",
    reference="sander:22",
    where="section on gradient flows",
)

SWEEPS = 1000  # with a negative form the sweeps alternate, and converge more slowly


def energy(tokens: Float[Array, "n d"], S: Float[Array, "d d"]) -> Float[Array, ""]:
    """Minus the mean of the potential, by damped symmetric sweeps `f <- (f - log∫e^{c + f}dmu) / 2`."""
    scores = tokens @ S @ tokens.T - jnp.log(float(len(tokens)))

    def sweep(f, _):
        return (f - logsumexp(scores + f[None, :], axis=1)) / 2, None

    return -jax.lax.scan(sweep, jnp.zeros(len(tokens)), length=SWEEPS)[0].mean()


@eqx.filter_jit
@jax.vmap
def identities(key: Array) -> dict[str, Float[Array, ""]]:
    """The errors of the identities at one random form and cloud, the largest over all coordinates."""
    of_form, of_tokens = jax.random.split(key)
    G = jax.random.normal(of_form, (2, 2))
    # Scores up to 4.5: sweeps contract by a factor that tends to one with the range of the scores.
    S = (G + G.T) / jnp.linalg.norm(G + G.T, 2)
    mu = Particles(Euclidean(2), jax.random.uniform(of_tokens, (6, 2), minval=-1.5, maxval=1.5))
    attention = SinkhornAttention(S, -S)
    velocity = attention(0.0, mu.points, mu)
    flow = GradientFlow(SinkhornEnergy(S))(0.0, mu.points, mu)
    return {
        "x' + n grad F": jnp.abs(velocity + 6 * jax.grad(energy)(mu.points, S)).max(),
        "asymmetry of the token Jacobian": curl(attention, mu),
        "F against the library's energy": jnp.abs(energy(mu.points, S) - SinkhornEnergy(S)(mu)),
        "velocity against the library's flow": jnp.abs(velocity - flow).max(),
        "marginal error of the kernel": attention.potentials(mu).error,
    }


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Check the identities at 20 random symmetric forms of norm one and clouds of 6 tokens in a square."""
    found = identities(jax.random.split(jax.random.key(seed), 20))
    # Exact identities; what is left are the sweeps, which stop when potentials change by less than 1e-12.
    return CLAIM.judge(
        *(equal(name, 0.0, error.max(), 1e-9) for name, error in sorted(found.items(), reverse=True)),
        data=[equal(name, 0.0, error, 1e-9) for name, error in found.items()],
    )


def draw(data: list[Check]) -> Figure:
    """The errors of the identities for each form and cloud."""
    return checks_figure(data)
