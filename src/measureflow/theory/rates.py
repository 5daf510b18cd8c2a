"""How fast tokens leave or approach an equilibrium, to first order.

Near consensus all differences decay; near the simplex, where tokens are as far apart as equal angles allow, they grow;
in between there is a lower bound for tokens that share a hemisphere. Densities close in on a point only as fast as the
mass near its antipode gets away. Rates of overlaps are twice those of positions, because one minus an overlap is quadratic in
the displacement. Models of attention are those of `equiangular`.
"""

import jax.numpy as jnp

from measureflow.annotations import Numbers, Values
from measureflow.theory.equiangular import Model, pace, softmax


def overlap_contraction(beta: Numbers, *, model: Model = softmax) -> Values:
    """Exponential rate at which overlaps close in on one, for any number of tokens.

    1 - <x_i, x_j> decays like e^{-2t} for softmax at every beta, and like e^{-2 e^beta t} unnormalised: two tokens at
    beta = 0 have 1 - tanh(t) left, about 2 e^{-2t}. Near consensus (geshkovski:25).
    """
    return pace(1.0, 2, beta, model=model)  # at consensus the pace is the same for every n


def displacement_contraction(beta: Numbers, *, model: Model = softmax) -> Values:
    """Exponential rate at which the distance between two tokens shrinks, for any number of tokens.

    x_i - x_j decays like e^{-t} for softmax, and like e^{-e^beta t} unnormalised: half of `overlap_contraction`, since
    1 - <x_i, x_j> = |x_i - x_j|^2 / 2. Near consensus (geshkovski:25).
    """
    return overlap_contraction(beta, model=model) / 2


def simplex_escape(n: Numbers, beta: Numbers, *, model: Model = softmax) -> Values:
    """Exponential rate at which equal overlaps leave the regular simplex.

    gamma + 1/(n-1) grows like e^{lambda t}, lambda = 2n / (e^{beta n/(n-1)} + n - 1) for softmax and 2 e^{-beta/(n-1)}
    unnormalised. Two antipodal tokens at beta = 0: rate 2. Along equal overlaps, near gamma = -1/(n-1); derived from
    geshkovski:25.
    """
    n = jnp.asarray(n, dtype=float)
    return pace(-1 / (n - 1), n, beta, model=model)


def antipode_escape(beta: Numbers, *, model: Model = softmax) -> Values:
    """Exponential rate at which a token leaves the antipode of a cluster that holds almost all mass.

    1 for softmax, which sees nothing but the cluster, and e^{-beta} unnormalised, because the score there is -beta (derived).
    """
    return pace(-1.0, jnp.inf, beta, model=model) / 2


def mean_field_contraction(dim: Numbers, beta: Numbers, *, model: Model = softmax) -> Values:
    """Exponential rate at which a bounded positive density becomes one point, in the Wasserstein distance W_2.

    min(c, (d - 1) e / 2) with the contraction c of the cluster and the escape e from its antipode: mass that begins within
    e^{-et} of the antipode, a part e^{-(d-1) et} of all, has not arrived by the time t. Unnormalised it is
    min(e^beta, (d-1) e^{-beta}/2); at beta = 0 both models have 1/2 on the circle and 1 from the sphere on, there with a
    factor sqrt(t), as on every tie. `dim` counts ambient coordinates, 2 for the circle. Derived; chen:25 proves 1/100 for
    small |beta|.
    """
    dim = jnp.asarray(dim, dtype=float)
    return jnp.minimum(displacement_contraction(beta, model=model), (dim - 1) / 2 * antipode_escape(beta, model=model))


def hemisphere_bound(alpha: Numbers, n: Numbers, beta: Numbers) -> Values:
    """Least speed at which the worst token turns towards the common limit.

    alpha' >= (1 - alpha) / (2 n e^{2 beta}) for alpha = min_i <x_i, x*>: 1/8 for two tokens at 60 degrees from x*
    (alpha = 1/2) and beta = 0. It needs x* in the cone of the tokens, alpha >= 1/2 and beta >= 0, and then holds for
    softmax and unnormalised attention alike, as no weight is below e^{-2 beta} / n (geshkovski:25, hemisphere lemma).
    """
    alpha, n, beta = (jnp.asarray(x, dtype=float) for x in (alpha, n, beta))
    return (1 - alpha) / (2 * n * jnp.exp(2 * beta))
