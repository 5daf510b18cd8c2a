"""The stability lab: what happens to heads that start near a stationary measure.

For `N` heads at `theta* + h_i` the linearised flow is `h_i' = -2 xi (H h_i + K mean(h))`: the Hessian `H` of `Psi` at the
frozen measure moves heads apart, `H_tr = H + K` moves them together. So the spectrum of the flow is that of `H_tr` once
and that of `H` `N - 1` times, and a collapsed head may be stable to translation and yet split. All three operators are
derivatives of `grad Psi(theta; mu)`, in the point, in the measure, and in both.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, eigsh

from measureflow import wording
from measureflow.annotations import Numbers, RandomKey
from measureflow.energies import AbstractEnergy, GradientFlow
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.measures.cloud import as_key
from measureflow.precision import keep_all
from measureflow.spaces import Euclidean
from measureflow.training.certificates import ridge_criterion
from measureflow.training.curvature import lanczos
from measureflow.training.dynamics import Descent
from measureflow.training.families import AbstractFamily, Theta
from measureflow.training.glossary import notes
from measureflow.training.risk import AbstractRisk

Operator = Callable[[Float[Array, "n D"]], Float[Array, "n D"]]
Kind = Literal["stable", "translation-unstable", "splitting-unstable", "marginal"]

DENSE = 1500
"""Up to this many coordinates matrices are built and diagonalised; beyond, Lanczos finds the least eigenvalues."""

LIFT = 1e6
"""Where Lanczos puts the directions it should not find: above every eigenvalue of interest."""


def splitting(energy: AbstractEnergy, mu: Particles) -> Operator:
    """The Hessians of `Psi(.; mu)` at the heads, with the measure frozen: `h_i -> H_i h_i`."""
    return lambda h: jax.jvp(lambda x: _gradient(energy, mu, x, mu.points), (mu.points,), (h,))[1]


def coupling(energy: AbstractEnergy, mu: Particles) -> Operator:
    """How moving the measure changes the gradients: `h_i -> sum_j w_j K_ij h_j`, non-negative."""
    return lambda h: jax.jvp(lambda y: _gradient(energy, mu, mu.points, y), (mu.points,), (h,))[1]


def translation(energy: AbstractEnergy, mu: Particles) -> Operator:
    """Both together; for one head the Hessian of its own risk `R(delta_theta)`."""
    return lambda h: jax.jvp(lambda x: _gradient(energy, mu, x, x), (mu.points,), (h,))[1]


@eqx.filter_jit
def _gradient(energy: AbstractEnergy, mu: Particles, xs: Float[Array, "n D"], ys: Float[Array, "n D"]):
    return -GradientFlow(energy)(0.0, xs, eqx.tree_at(lambda m: m.points, mu, ys))


@eqx.filter_jit
def matrix(make: Callable[[AbstractEnergy, Particles], Operator], energy: AbstractEnergy, mu: Particles) -> Array:
    """An operator as a matrix on all coordinates, made symmetric by the roots of the weights."""
    root = jnp.repeat(jnp.sqrt(mu.weights), mu.points.shape[1])
    operator = make(energy, mu)
    columns = jax.vmap(lambda e: operator(e.reshape(mu.points.shape)).ravel())(
        jnp.eye(mu.points.size, dtype=root.dtype)
    )
    return columns.T * root[:, None] / root[None, :]


def least(
    make: Callable[[AbstractEnergy, Particles], Operator],
    energy: AbstractEnergy,
    mu: Particles,
    count: int = 4,
    outside: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The least eigenvalues of an operator and their vectors (rows), outside given orthonormal rows, by Lanczos."""
    size, root = mu.points.size, np.sqrt(np.repeat(np.asarray(mu.weights), mu.points.shape[1]))
    operator = eqx.filter_jit(lambda energy, mu, h: make(energy, mu)(h))
    away = np.zeros((0, size)) if outside is None else outside

    def apply(v):
        inside = v - away.T @ (away @ v)
        image = root * np.asarray(operator(energy, mu, jnp.asarray(inside / root).reshape(mu.points.shape))).ravel()
        return image - away.T @ (away @ image) + LIFT * (away.T @ (away @ v))

    start = np.random.default_rng(0).standard_normal(size)
    operator_of_scipy = LinearOperator((size, size), matvec=apply)  # pyright: ignore[reportCallIssue]
    values, vectors = eigsh(operator_of_scipy, k=count, which="SA", v0=start)
    order = np.argsort(values)
    return values[order], vectors.T[order]


@eqx.filter_jit
def ritz_values(
    make: Callable[[AbstractEnergy, Particles], Operator], energy: AbstractEnergy, mu: Particles, count: int = 40
) -> Float[Array, " k"]:
    """What `count` Lanczos steps see of the spectrum of an operator: its ends well, its inside roughly."""
    root, operator = jnp.sqrt(mu.weights)[:, None], make(energy, mu)
    start = jax.random.normal(jax.random.key(0), mu.points.shape, mu.points.dtype)
    alphas, betas = lanczos(lambda h: root * operator(h / root), start, min(count, mu.points.size))
    return jnp.linalg.eigvalsh(jnp.diag(alphas) + jnp.diag(betas, 1) + jnp.diag(betas, -1))


class Stability(NamedTuple):
    """The verdict on a stationary measure of one or several heads.

    `splitting` and `translation` are the eigenvalues of `H` and `H_tr` outside the `gauge` directions, which change no
    feature; `rate` is the predicted exponential rate in physical time for the profile 1, positive for growth, and
    `direction` the movement of the heads that shows it.
    """

    kind: Kind
    rate: float
    direction: np.ndarray
    splitting: np.ndarray
    translation: np.ndarray
    gauge: int

    @property
    def rounding(self) -> float:
        """The size below which eigenvalues are shown as zero."""
        return rounding_of(self.splitting, self.translation)

    @property
    def movement(self) -> str:
        """What becomes of small movements: growth or decay, and how fast."""
        if abs(self.rate) <= 2 * self.rounding:
            return "neither growth nor decay to first order"
        return f"{'growth' if self.rate > 0 else 'decay'} at rate {abs(self.rate):.4g}"

    @property
    def report(self) -> wording.Report:
        """The verdict in rows, with its words explained."""
        return wording.Report(
            (("moved a little", f"{self.kind}: {self.movement}"), *self.rows()), notes("H", "H_tr", "gauge")
        )

    def rows(self) -> tuple[tuple[str, str], ...]:
        """Spectra and gauge, each with its name."""
        return spectra_row(self.splitting, self.translation), ("gauge", f"{self.gauge} directions change nothing")

    def __repr__(self) -> str:
        value, name = min((self.translation[0], "H_tr"), (self.splitting[0], "H"))
        shown = wording.number(value, self.rounding)
        return f"{self.kind}: smallest eigenvalue {shown} of {name}; {self.movement}"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def rounding_of(*spectra: np.ndarray) -> float:
    """The size below which eigenvalues are rounding: relative to the largest of all of them."""
    return wording.rounding(spectra[0].dtype, *(float(np.abs(values).max(initial=0.0)) for values in spectra))


def spectra_row(splitting: np.ndarray, translation: np.ndarray) -> tuple[str, str]:
    """The least eigenvalues of `H` and `H_tr`, from spectra that begin with them."""
    small = rounding_of(splitting, translation)
    apart, together = (wording.number(float(values[0]), small) for values in (splitting, translation))
    return "least eigenvalues", f"{apart} of H (apart), {together} of H_tr (together)"


def stability(
    energy: AbstractEnergy,
    family: AbstractFamily,
    mu: Particles,
    *,
    tolerance: float = 1e-6,
    stationary: float = 1e-6,
) -> Stability:
    """Classify a stationary measure with finitely many heads.

    A measure that is not stationary is refused, with the size of its gradient. Zero eigenvalues are counted relative
    to the largest one.
    """
    slope = float(jnp.abs(_gradient(energy, mu, mu.points, mu.points)).max())
    if slope > stationary:
        raise ValueError(f"`mu` is not stationary: its gradient is {slope:.3g} in size. Find a rest point first.")
    still = gauge_directions(energy, family, mu)
    split, apart = _outside(splitting, energy, mu, still)
    move, together = _outside(translation, energy, mu, still)
    small = tolerance * max(1e-12, np.abs(move).max(), np.abs(split).max())
    if move[0] < -small:
        kind, value, vector = "translation-unstable", move[0], together
    elif split[0] < -small:
        kind, value, vector = "splitting-unstable", split[0], apart
    else:
        kind = "marginal" if min(split[0], move[0]) <= small else "stable"
        value, vector = min((split[0], apart), (move[0], together), key=lambda pair: pair[0])
    return Stability(kind, -2 * float(value), vector.reshape(mu.points.shape), split, move, len(still))


def gauge_directions(
    energy: AbstractEnergy, family: AbstractFamily, mu: Particles, tolerance: float = 1e-8
) -> Float[np.ndarray, "g nD"]:
    """Orthonormal directions of the gauge group that the Hessian does not feel; weight decay leaves only rotations."""
    n, D = mu.points.shape
    each = [np.asarray(family.gauge(theta)) for theta in mu.points]
    tangents = np.zeros((sum(map(len, each)), n, D))
    for i, block in enumerate(each):
        tangents[i * len(block) : (i + 1) * len(block), i] = block
    span = _row_space(tangents.reshape(-1, n * D), tolerance)
    if not len(span):
        return span
    images = jax.vmap(splitting(energy, mu))(jnp.asarray(span).reshape(-1, n, D)).reshape(len(span), -1)
    turns, sizes, _ = np.linalg.svd(np.asarray(images))
    sizes = np.pad(sizes, (0, len(turns) - len(sizes)))
    return turns.T[sizes <= tolerance * max(1.0, sizes.max())] @ span


def _row_space(rows: np.ndarray, tolerance: float) -> np.ndarray:
    if not rows.size or not np.abs(rows).max() > tolerance:
        return np.zeros((0, rows.shape[1]))
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return basis[sizes > tolerance * sizes[0]]


def _outside(make, energy: AbstractEnergy, mu: Particles, still: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of an operator outside given directions, and the vector of the least."""
    if mu.points.size > DENSE:
        values, vectors = least(make, energy, mu, outside=still)
        return values.astype(mu.points.dtype), vectors[0]  # SciPy's double does not make them more precise
    H = np.asarray(matrix(make, energy, mu))
    complement = np.linalg.svd(still, full_matrices=True)[2][len(still) :] if len(still) else np.eye(len(H))
    values, vectors = np.linalg.eigh(complement @ (H + H.T) @ complement.T / 2)
    return values, complement.T @ vectors[:, 0]


def rest_point(energy: AbstractEnergy, start: Theta, newton: int = 4) -> Theta:
    """A stationary head near a start: the least energy of a single head, by BFGS and then Newton steps.

    Steps are of least norm, so gauge directions do no harm.
    """

    def slope(x):
        return tuple(map(np.asarray, _slope(energy, jnp.asarray(x))))

    found = minimize(slope, start, jac=True, options={"gtol": 1e-9}).x
    for _ in range(newton):
        hessian = np.asarray(matrix(translation, energy, _dirac(jnp.asarray(found))))
        found = found - np.linalg.lstsq(hessian, slope(found)[1], rcond=1e-9)[0]
    return jnp.asarray(found)


@eqx.filter_jit
def _slope(energy: AbstractEnergy, theta: Theta) -> tuple[Float[Array, ""], Theta]:
    return jax.value_and_grad(lambda x: energy(_dirac(x)))(theta)


def _dirac(theta: Theta) -> Particles:
    return Particles(_space(theta), theta[None])


def observed_rate(
    energy: AbstractEnergy,
    theta: Theta,
    displacements: Float[Array, "n D"],
    window: tuple[float, float],
    frames: int = 9,
) -> float:
    """The exponential rate at which heads displaced from a stationary one return or leave, in a window of time.

    The slope of the logarithm of `W_2(mu_t, delta_theta)`, the root of the mean squared distance, under the profile 1.
    """
    times = np.concatenate([[0.0], np.linspace(*window, frames)] if window[0] > 0 else [np.linspace(*window, frames)])
    distance = distances_over_time(energy, theta, displacements, times)
    late = times >= window[0]
    return float(np.polyfit(times[late], np.log(distance[late]), 1)[0])


def distances_over_time(
    energy: AbstractEnergy, theta: Theta, displacements: Float[Array, "n D"], times: Numbers
) -> np.ndarray:
    """The distance `W_2(mu_t, delta_theta)` of heads that were displaced from a stationary one, under the profile 1."""
    mu = Particles(_space(theta), theta[None] + displacements)
    path = evolve(Descent(energy), mu, times, Adaptive(1e-10, 1e-14))
    return np.asarray(path.map(lambda m: jnp.sqrt(m.expect(lambda x: jnp.sum((x - theta) ** 2)))))


def _space(theta: Theta) -> Euclidean:
    return Euclidean(len(theta))


class Monotonicity(NamedTuple):
    """Sampled constants of strong monotonicity in a ball: contraction is certain when `m > 0`, but it is not needed."""

    m0: float
    L0: float

    @property
    def m(self) -> float:
        """What is left of the monotonicity in the points after the worst coupling through the measure."""
        return self.m0 - self.L0


def monotonicity(
    energy: AbstractEnergy,
    risk: AbstractRisk,
    theta: Theta,
    radius: float,
    *,
    samples: int = 256,
    key: RandomKey = 0,
) -> Monotonicity:
    """The least curvature `m0` of `Psi` and the largest coupling `L0 = k sup E sum_t |J_t|^2` in a ball of particles.

    `k` bounds how the loss curves: one for cross-entropy, as in the theory, two for squares. Extrema over samples: `m0` is an
    upper and `L0` a lower estimate.
    """
    offsets = jax.random.ball(as_key(key), len(theta), shape=(2, samples), dtype=theta.dtype)
    m0, L0 = _extremes(energy, risk, theta[None, None] + radius * offsets)
    return Monotonicity(float(m0), float(L0))


@eqx.filter_jit
def _extremes(
    energy: AbstractEnergy, risk: AbstractRisk, points: Float[Array, "2 m D"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The least curvature of `Psi` over pairs of a particle and a place of all others, and the largest coupling."""

    def curvature(x, y):
        mu = Particles(_space(x), y[None])
        return jnp.linalg.eigvalsh(jax.hessian(lambda x: energy.variation(mu, x[None])[0])(x))[0]

    def slopes(x):
        J = jax.jacfwd(risk.features)(x)
        return risk.criterion.smoothness * jnp.sum(risk.shares * jnp.linalg.norm(J, ord=2, axis=(-2, -1)) ** 2)

    return jax.vmap(curvature)(*points).min(), jax.vmap(slopes)(points[0]).max()


def critical_decay(risk: AbstractRisk) -> float:
    """The weight decay below which particles at zero lose their stability.

    The largest `-Psi` of unit particles where factors are all there is; otherwise minus the least eigenvalue of the Hessian of
    `Psi` at zero, which for heads is the largest singular value of `G`.
    """
    family = risk.family
    zero = _dirac(jnp.zeros(family.size, risk.targets.dtype))
    if sum(family.factors, start=()) == tuple(family.shapes):
        return -ridge_criterion(risk, zero).value
    return -float(jnp.linalg.eigvalsh(matrix(splitting, risk, zero))[0])


keep_all(globals())
