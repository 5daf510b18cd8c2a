"""Densities on the circle: what the mean-field equation does to the uniform one, and families it keeps.

The kernel e^{beta cos} has the Fourier coefficients I_k(beta). Unnormalised attention makes mode k of the uniform density
grow at the rate k^2 I_k(beta)/beta (`noise.growth` at temperature zero); softmax attention divides by what a token sees,
I_0(beta). The mode that grows fastest sets the number of clusters that appear first, of order sqrt(beta). At beta = 0
Poisson kernels stay Poisson kernels (ott:08), and with noise the densities e^{kappa r cos} are at rest. Functions
broadcast; beta >= 0 up to about 200.
"""

import jax.numpy as jnp
from jax.scipy.special import i0e

from measureflow.annotations import Numbers, Values
from measureflow.theory.noise import bessel_ratio, growth


def softmax_growth(k: Numbers, beta: Numbers, temperature: Numbers = 0.0, dim: Numbers = 2.0) -> Values:
    """Exponential rate at which softmax attention makes a small disturbance of the uniform state grow.

    k(k + d - 2) (b_k - temperature) with b_k = I_{k+d/2-1}(beta) / (beta I_{d/2-1}(beta)), on the circle
    k^2 (I_k(beta) / (beta I_0(beta)) - temperature). At beta = 0 degree one grows at (d - 1)/d: 1/2 on the circle.
    """
    k, temperature = jnp.asarray(k, float), jnp.asarray(temperature, float)
    return k * (k + jnp.asarray(dim, float) - 2) * (bessel_ratio(k, beta, dim) - temperature)


def first_clusters(beta: Numbers, most: int = 64) -> Values:
    """Number of clusters that a uniform density breaks into first: the mode of fastest growth k^2 I_k(beta)/beta.

    1, 3, 4 at beta = 1, 5, 10, and about sqrt(2 beta) for large beta, where I_k falls like e^{-k^2/(2 beta)}. Softmax and
    unnormalised attention agree, because their rates differ by a factor that does not depend on k.
    """
    beta = jnp.asarray(beta, float)
    k = jnp.arange(1.0, most + 1)
    return 1 + jnp.argmax(growth(k, 0.0, beta[..., None]), axis=-1).astype(float)


def poisson_kernel(angle: Numbers, r: Numbers) -> Values:
    """Density with mean r towards angle zero that uniform attention keeps in its family.

    (1 - r^2) / (1 - 2 r cos + r^2) / (2 pi), with the moments r^k; r moves as `kuramoto.order_parameter` says (ott:08). For
    0 <= r < 1; uniform at r = 0.
    """
    angle, r = jnp.asarray(angle, float), jnp.asarray(r, float)
    return (1 - r**2) / (1 - 2 * r * jnp.cos(angle) + r**2) / (2 * jnp.pi)


def von_mises(angle: Numbers, concentration: Numbers) -> Values:
    """Density of noisy tokens at rest at beta = 0, and of any token in a field of constant direction.

    e^{c cos} / (2 pi I_0(c)), whose mean is I_1(c)/I_0(c): at rest c = kappa r with r = `noise.kuramoto_order(kappa)`.
    """
    angle, c = jnp.asarray(angle, float), jnp.asarray(concentration, float)
    return jnp.exp(c * (jnp.cos(angle) - 1)) / (2 * jnp.pi * i0e(c))
