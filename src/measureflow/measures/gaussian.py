"""A Gaussian that moves: its mean and a square root of its covariance.

Covectors see a Gaussian in closed form, `L(a) = <a, m> + ½ |R^T a|^2` with `R R^T` the covariance, and reweighting by the
exponential of a quadratic gives a Gaussian again. Under an affine velocity `Lx + b` it stays Gaussian: `m' = Lm + b` and
`R' = LR`. Because the root is what moves, the covariance stays positive and keeps its rank by construction.
"""

from collections.abc import Callable
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float

from measureflow import checks
from measureflow.annotations import Number, Numbers, RandomKey
from measureflow.measures.base import AbstractDiffusive
from measureflow.measures.cloud import AbstractSampled, as_key
from measureflow.measures.matrices import Matrix
from measureflow.measures.particles import Particles
from measureflow.measures.quadrature import REACH, Rule, end_rule, normal_rule, second_rule
from measureflow.spaces import Euclidean
from measureflow.sums import AbstractEngine, Attended

Velocity = Callable[[Float[Array, "m d"]], Float[Array, "m d"]]
FAR = 6.0
"""A velocity must be affine out to this many standard deviations; a mass of 1e-9 lies beyond."""
NOT_AFFINE = (
    "`field` is not affine on this Gaussian, which therefore does not stay Gaussian. Use `mf.MomentClosure(field)` for the "
    "nearest flow of Gaussians, or `mf.Particles`."
)
SINGULAR = (
    "Noise on a Gaussian needs a `cov` that is not singular: from a singular one its root starts with infinite speed."
)
COARSE = 0.05
"""How far two quadrature rules may be apart before an average by them is refused, as a part of the average size."""
UNRESOLVED = (
    "Quadrature does not resolve {what} on this Gaussian in {dim} dimensions: two rules differ by {off:.2g} of its size. "
    "Use fewer dimensions, a narrower Gaussian, or `mf.Particles`."
)
NOT_QUADRATIC = "The `potential` that reweights a Gaussian must be quadratic, or use `mf.Particles`."


@final
class Gaussian(AbstractDiffusive, AbstractSampled):
    """The normal law `N(mean, cov)`; the covariance may be singular.

    `root` is a square root of the covariance, `cov = root root^T`. For derivatives with respect to the covariance start
    from a root, `Gaussian.from_root`: eigenvectors, by which a covariance gets its root, have none where eigenvalues meet.
    `rule` is the quadrature for averages that have no closed form.

    >>> mu = mf.Gaussian([1.0, 0.0], np.eye(2))
    >>> mu
    Gaussian(A Gaussian on R²)
    >>> round(float(mu.expect(lambda x: x @ x)), 3)
    3.0
    """

    mean: Float[Array, " d"]
    root: Float[Array, "d d"]
    log_mass: Float[Array, ""]
    rule: Rule = eqx.field(static=True)

    def __init__(self, mean: Numbers, cov: Numbers, rule: Rule = normal_rule):
        mean, cov = _moments(mean, cov, "cov")
        self.mean, self.root = mean, square_root("cov", cov)
        self.log_mass = jnp.zeros((), self.mean.dtype)
        self.rule = rule

    @staticmethod
    def from_root(mean: Numbers, root: Numbers, rule: Rule = normal_rule) -> "Gaussian":
        """The law of `mean + root z` with standard normal `z`."""
        mean, root = _moments(mean, root, "root")
        plain = Gaussian(jnp.zeros_like(mean), jnp.zeros_like(root), rule)
        return eqx.tree_at(lambda mu: (mu.mean, mu.root), plain, (mean, root))

    @property
    def described(self) -> str:
        """What, and where."""
        return f"A Gaussian on {self.space.symbol}"

    @property
    def cov(self) -> Float[Array, "*frames d d"]:
        """The covariance."""
        return self.root @ self.root.mT

    @property
    def space(self) -> Euclidean:
        """The flat space on which the law lives."""
        return Euclidean(self.mean.shape[-1])

    def attend(self, covectors: Float[Array, "m d"]) -> Attended:
        """The cumulants of a normal law: `L(a) = <a, m> + ½ <a, Σa>` and `m + Σa`."""
        spread = covectors @ self.root
        log_mass = self.log_mass + covectors @ self.mean + (spread**2).sum(-1) / 2
        return Attended(log_mass, self.mean[None] + spread @ self.root.T)

    def ridge(
        self, kernel: Callable[[Float[Array, "*s"]], Float[Array, "*s"]], covectors: Float[Array, "m d"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
        """An average over the score `s = <a, m> + τ z` alone, since a token given its score is affine in it.

        The rule meets at `s = 0`, where a kernel may have a kink, and cuts `z` at ten standard deviations: kernels should
        not grow as fast as an exponential; those have `attend`.
        """
        spread, centre = covectors @ self.root, covectors @ self.mean
        mass, slope = jax.vmap(lambda c, u: _score_average(kernel, c, u))(centre, spread)
        moment = mass[:, None] * self.mean[None] + (slope[:, None] * spread) @ self.root.T
        scale = jnp.exp(self.log_mass)
        return scale * mass, scale * moment

    def integrate(self, integrand: Callable[[Float[Array, "m d"]], Float[Array, "m *shape"]]) -> Float[Array, "*shape"]:
        """The average by quadrature: exact for polynomials of degree five at least, and spectral in few dimensions.

        Refused where a second rule says something else, if the numbers are there to look at.
        """
        average, size = self._average(integrand)
        if checks.concrete(average, size):
            other, _ = self.coarser()._average(integrand)
            off = float(np.max(np.abs(average - other) / np.where(size > 0, size, 1.0), initial=0.0))
            if not off <= COARSE:
                raise ValueError(UNRESOLVED.format(what="the integrand", dim=len(self.mean), off=off))
        return average

    def _average(self, integrand: Callable[..., Array]) -> tuple[Array, Array]:
        """The average of a function by quadrature, and that of its absolute value."""
        nodes, weights = self._rule()
        values, scale = checks.rows(integrand(self.place(nodes)), len(nodes)), jnp.exp(self.log_mass)
        return scale * jnp.tensordot(weights, values, 1), scale * jnp.tensordot(jnp.abs(weights), jnp.abs(values), 1)

    def pairing(self, form: Matrix) -> Float[Array, ""]:
        """The average of `e^{<Ax, y>}` over independent pairs in closed form; infinite where it has no bound."""
        return self.meeting(self, form)

    def meeting(self, other: "Gaussian", form: Matrix) -> Float[Array, ""]:
        """`∬ e^{<Ax, y>} dmu(x) dnu(y)`: the mass of this Gaussian reweighted by what it sees of the other."""
        return jnp.exp(self._tilt(self.potential(lambda xs: other.attend(xs @ form.T).log_mass)).log_mass)

    def potential(self, f: Callable[[Float[Array, "m d"]], Float[Array, " m"]]) -> Float[Array, " s"]:
        """The coefficients `c, b, H` of a quadratic function `f(m + Rz) = c + <b, z> + ½ <z, Hz>`, in a row.

        They are derivatives at the mean, since differences of values would be lost where the mean is large.
        """
        d, dtype = len(self.mean), self.mean.dtype
        i, j = np.triu_indices(d)
        z = jnp.asarray(np.concatenate([np.zeros((len(i), d)), _probe(d)]), dtype)
        along, across = (jnp.zeros_like(z).at[: len(i)].set(self.root.T[k]) for k in (i, j))
        # Forward mode twice, on one batch of all pairs of columns: less to compile than a Hessian.
        (values, _), (slopes, bends) = jax.jvp(lambda x: jax.jvp(f, (x,), (along,)), (self.place(z),), (across,))
        row = jnp.concatenate([values[:1], slopes[: len(i)][i == j], bends[: len(i)]])
        c, b, H = _quadratic(row, d)
        bad = _differ(values, c + z @ b + ((z @ H) * z).sum(-1) / 2, row[1:])
        if checks.concrete(bad) and bad:
            raise ValueError(NOT_QUADRATIC)
        return jnp.where(bad, jnp.nan, row)

    def weigh(self, potential: Float[Array, " s"]) -> "Gaussian":
        """The Gaussian `e^g dmu` of a quadratic potential `g`; it needs `H < I` to have a mass.

        With `C C^T = I - H`: root `R C^{-T}`, mean `m + R C^{-T} C^{-1} b`, log mass `c + ½ |C^{-1} b|^2 - log det C`.
        """
        C, shift, log_mass = self._tilt(potential)
        if checks.concrete(C) and not np.isfinite(np.asarray(C)).all():
            raise ValueError(
                "`potential` grows faster than the Gaussian decays, so the reweighted measure has no mass."
            )
        root = solve_triangular(C, self.root.T, lower=True).T
        parts = lambda mu: (mu.mean, mu.root, mu.log_mass)  # noqa: E731
        return eqx.tree_at(parts, self, (self.mean + root @ shift, root, log_mass))

    def _tilt(self, potential: Float[Array, " s"]) -> "Tilt":
        """What a quadratic potential does to this Gaussian; where it has no mass the root is NaN and the mass infinite."""
        c, b, H = _quadratic(potential, len(self.mean))
        C = jnp.linalg.cholesky(jnp.eye(len(b), dtype=b.dtype) - H)
        shift = solve_triangular(C, b, lower=True)
        log_mass = self.log_mass + c + (shift**2).sum() / 2 - jnp.log(jnp.diag(C)).sum()
        lost = jnp.isnan(C).any() & jnp.isfinite(potential).all()
        return Tilt(C, shift, jnp.where(lost, jnp.inf, log_mass))

    def using(self, engine: AbstractEngine) -> "Gaussian":
        """There are no sums to compute."""
        raise ValueError(
            f"`engine` is for kernel sums over particles; a Gaussian has none. Got {type(engine).__name__}."
        )

    @property
    def engine_name(self) -> str:
        """Covectors see a Gaussian in closed form."""
        return "closed form"

    def transport(self, velocity: Velocity) -> "Gaussian":
        """The rates `m' = v(m)` and `R' = LR` of an affine velocity `Lx + b`."""
        mean, root, bent = self._affine(velocity)
        if checks.concrete(bent) and bent:
            raise ValueError(NOT_AFFINE)
        return self.rate(eqx.error_if(mean, bent, NOT_AFFINE), root)

    def admit(self, field: Callable[..., Array], t: Number) -> None:
        """Refuse a field that is not affine, or that reweights by more than a quadratic."""
        if not checks.concrete(field, t, self):
            return
        finite, bent, off = _look(field, t, self)
        if not finite:
            raise ValueError(f"`field` gives this Gaussian no finite velocity. {NOT_QUADRATIC}")
        if bent:
            raise ValueError(NOT_AFFINE)
        if off > COARSE:
            raise ValueError(UNRESOLVED.format(what="`field`", dim=len(self.mean), off=float(off)))

    def project(
        self, velocity: Velocity, exponent: Callable[[Float[Array, "m d"]], Float[Array, " m"]] | None = None
    ) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        """The rates of mean and root under the affine velocity nearest in the mean square: `E v` and `E[v z^T]`.

        They give mean and covariance the rates that the velocity itself gives them; `E[v z^T] = E[Dv] R` (Stein). With a
        quadratic `exponent` the velocity is multiplied by its exponential, whose averages are those of a reweighted Gaussian,
        `z = C^{-T} (C^{-1} b + z')`: no quadrature has to see it.
        """
        z, weights = self._rule()
        if exponent is not None:
            C, shift, log_mass = self._tilt(self.potential(exponent))
            z = solve_triangular(C.T, (shift[None] + z).T).T
            weights = jnp.exp(log_mass - self.log_mass) * weights
        v = weights[:, None] * velocity(self.place(z))
        return v.sum(0), v.T @ z

    def coarser(self) -> "Gaussian":
        """The same law with the second opinion of its quadrature."""
        plain = Gaussian(jnp.zeros_like(self.mean), jnp.zeros_like(self.root), second_rule)
        return eqx.tree_at(leaves, plain, leaves(self))

    def admit_noise(self) -> None:
        """Refuse a singular covariance, also of one of several stacked."""
        if checks.concrete(self.root) and (np.linalg.matrix_rank(np.asarray(self.root)) < self.root.shape[-1]).any():
            raise ValueError(SINGULAR)

    def diffuse(self, temperature: Number) -> "Gaussian":
        """The rate under the heat equation with generator `T` times the Laplacian: `Σ' = 2T I`, so `R' = T R^{-T}`.

        The covariance must not be singular.
        """
        rate = jnp.asarray(temperature, self.root.dtype) * jnp.linalg.inv(self.root).T
        rate = eqx.error_if(rate, ~jnp.isfinite(rate).all(), SINGULAR)
        return self.rate(jnp.zeros_like(self.mean), rate)

    def rate(self, mean: Float[Array, " d"], root: Float[Array, "d d"]) -> "Gaussian":
        """The tangent with given rates of mean and root; the mass stays."""
        still = jnp.zeros_like(self.log_mass)
        return eqx.tree_at(lambda mu: (mu.mean, mu.root, mu.log_mass), self, (mean, root, still))

    def unit(self, mean: Float[Array, " d"], root: Float[Array, "d d"]) -> "Gaussian":
        """The law of mass one with another mean and root."""
        return self.rate(mean, root)

    def settle(self) -> "Gaussian":
        """Every mean and root is a Gaussian."""
        return self

    def place(self, z: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The points `m + Rz`."""
        return self.mean[None] + z @ self.root.T

    def coordinates(self, xs: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The shortest `z` with `m + Rz` nearest to each point."""
        return (xs - self.mean[None]) @ jnp.linalg.pinv(self.root).T

    def sample(self, n: int, *, key: RandomKey) -> Particles:
        """Independent tokens from the law."""
        z = jax.random.normal(as_key(key), (n, len(self.mean)), self.mean.dtype)
        return Particles(self.space, self.place(z))

    def _affine(self, velocity: Velocity) -> tuple[Float[Array, " d"], Float[Array, "d d"], Bool[Array, ""]]:
        """The rates of mean and root if the velocity is affine, and whether it is not.

        `LR` is the derivative along the columns of the root, since differences would lose it where the mean is large. It is
        taken beside the mean: there a kernel of the score may have its kink.
        """
        d = len(self.mean)
        z = jnp.asarray(np.concatenate([np.repeat(_probe(d)[:1], d, 0) / FAR, _crosses(d)]), self.mean.dtype)
        along = jnp.zeros_like(z).at[:d].set(self.root.T)
        v, rates = jax.jvp(velocity, (self.place(z),), (along,))
        centre, columns = v[d], rates[:d]
        return centre, columns.T, _differ(v, centre[None] + z @ columns, columns)

    def _rule(self) -> tuple[Float[Array, "N d"], Float[Array, " N"]]:
        nodes, weights = self.rule(len(self.mean))
        return jnp.asarray(nodes, self.mean.dtype), jnp.asarray(weights, self.mean.dtype)


class Tilt(NamedTuple):
    """What reweighting does: the root `C` of `I - H`, the shift `C^{-1} b`, and the log mass."""

    C: Float[Array, "d d"]
    shift: Float[Array, " d"]
    log_mass: Float[Array, ""]


def square_root(name: str, cov: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The eigenvectors of a covariance times the roots of its eigenvalues, after a look at the covariance."""
    rounding = 1e4 * float(jnp.finfo(cov.dtype).eps) * (float(np.abs(cov).max()) if checks.concrete(cov) else 1.0)
    if checks.concrete(cov) and (off := np.abs(np.asarray(cov) - np.asarray(cov).T).max()) > rounding:
        raise ValueError(f"`{name}` must be symmetric; it is off by {off:.3g}. Use (C + C^T) / 2 if that is rounding.")
    root, least = _root(cov)
    if checks.concrete(least) and float(least) < -rounding:
        raise ValueError(f"`{name}` must be positive semidefinite; its least eigenvalue is {float(least):.3g}.")
    return root


@jax.jit
def _root(cov: Float[Array, "d d"]) -> tuple[Float[Array, "d d"], Float[Array, ""]]:
    values, vectors = jnp.linalg.eigh(cov)
    # What is left below zero is rounding of a zero.
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None], values.min()


def _moments(mean, matrix, name: str) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
    mean, matrix = checks.floating(mean), checks.floating(matrix)
    checks.shaped("mean", mean, ("d",), "It has one entry for each coordinate.")
    checks.shaped(name, matrix, (len(mean), len(mean)), "Its size is that of `mean`.")
    checks.finite("mean", mean)
    checks.finite(name, matrix)
    dtype = np.promote_types(mean.dtype, matrix.dtype)
    return mean.astype(dtype), matrix.astype(dtype)


def _score_average(kernel, centre: Float[Array, ""], spread: Float[Array, " d"]) -> tuple[Array, Array]:
    """`E k(c + τz)` and `E[k(c + τz) z] / τ` with `τ = |spread|`, which at `τ = 0` are `k(c)` and `k'(c)`."""
    square = (spread**2).sum()
    wide = square > 0
    width = jnp.sqrt(jnp.where(wide, square, 1.0))
    nodes, weights = (jnp.asarray(part, centre.dtype) for part in end_rule())
    middle = jax.lax.stop_gradient(jnp.clip(-centre / width, -REACH, REACH))
    z = jnp.concatenate([middle - (middle + REACH) * nodes, middle + (REACH - middle) * nodes])
    w = jnp.concatenate([(middle + REACH) * weights, (REACH - middle) * weights])
    share = w * jnp.exp(-(z**2) / 2) / jnp.sqrt(2 * jnp.pi) * kernel(centre + width * z)
    narrow, steep = jax.jvp(kernel, (centre,), (jnp.ones_like(centre),))
    return jnp.where(wide, share.sum(), narrow), jnp.where(wide, (share * z).sum() / width, steep)


def _probe(d: int) -> np.ndarray:
    """Two opposite points far out in no special direction."""
    w = np.cos(np.arange(1.0, d + 1))
    return FAR * np.stack([w, -w]) / np.linalg.norm(w)


def _crosses(d: int) -> np.ndarray:
    """The origin, far out on the axes, and far out in no special direction."""
    return np.concatenate([np.zeros((1, d)), FAR * np.eye(d), -FAR * np.eye(d), _probe(d)])


def _quadratic(row: Float[Array, " s"], d: int) -> tuple[Array, Array, Array]:
    """The coefficients `c, b, H` from their row."""
    upper = jnp.zeros((d, d), row.dtype).at[np.triu_indices(d)].set(row[d + 1 :])
    return row[0], row[1 : d + 1], upper + jnp.triu(upper, 1).T


def _differ(values: Array, fitted: Array, variation: Array) -> Bool[Array, ""]:
    """Whether numbers far out are off by more than a small part of their variation and of what rounding explains."""
    eps = float(jnp.finfo(values.dtype).eps)
    allowed = eps**0.5 * jnp.abs(variation).max() + 1e3 * eps * jnp.abs(fitted).max()
    return jnp.abs(values - fitted).max() > allowed


def leaves(mu: Gaussian):
    """What moves, and the mass."""
    return mu.mean, mu.root, mu.log_mass


def disagreement(mu: Gaussian, rates: Gaussian, others: Gaussian) -> Float[Array, ""]:
    """How far the rates by one rule are from those by another, as a part of their size; rounding of the law is no size."""
    (mean, root, _), numbers = leaves(rates), jnp.concatenate([mu.mean.ravel(), mu.root.ravel()])
    off = [jnp.abs(a - b).max() for a, b in zip(leaves(rates), leaves(others), strict=True)]
    least = 1e3 * jnp.finfo(numbers.dtype).eps * jnp.abs(numbers).max()
    return jnp.stack(off).max() / jnp.maximum(jnp.maximum(jnp.abs(mean).max(), jnp.abs(root).max()), least)


@eqx.filter_jit
def _look(
    field: Callable[..., Array], t: Number, mu: Gaussian
) -> tuple[Bool[Array, ""], Bool[Array, ""], Float[Array, ""]]:
    """Whether the rates are finite, whether the velocity is bent, and how far another quadrature gives other rates."""
    mean, root, bent = mu._affine(lambda xs: field(t, xs, mu))
    second = mu.coarser()
    other = second._affine(lambda xs: field(t, xs, second))[:2]
    off = disagreement(mu, mu.rate(mean, root), mu.rate(*other))
    return jnp.isfinite(mean).all() & jnp.isfinite(root).all(), bent, off
