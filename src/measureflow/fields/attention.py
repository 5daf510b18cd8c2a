"""Self-attention as a velocity field, with general interaction `A = K^T Q` and value `V`.

With `L(a) = log ∫ e^{<a, y>} dmu(y)`, softmax attention moves a token with `V grad L(Ax)` and unnormalised attention
with `V e^{L} grad L (Ax)`: the same two numbers, whatever the measure. L2 attention is softmax attention of a reweighted
measure. Kernels that are not exponential go through `mu.ridge`.
"""

from collections.abc import Callable
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Number, Numbers
from measureflow.fields.base import AbstractField, Part
from measureflow.measures import AbstractCloud, AbstractMeasure
from measureflow.measures.matrices import Map, Matrix, Multiple, matrix
from measureflow.sums.base import declared


def _scalar(number: Number) -> Float[Array, ""]:
    return jnp.asarray(number, jnp.result_type(float))


class AbstractSelfAttention(AbstractField):
    """Attention of any kind. Each class must declare `exponential`: True if it sees the measure through `attend` alone."""

    def __new__(cls, *arguments: Any, **options: Any):
        """Say how to get what `beta` alone describes."""
        if "beta" in options and hasattr(cls, "isotropic"):
            raise TypeError(
                f"`{cls.__name__}` takes matrices; for scores `beta <x, y>` write `{cls.__name__}.isotropic(dim, beta)`."
            )
        return super().__new__(cls)

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        declared(cls, AbstractSelfAttention, "exponential")


class AbstractAttention(AbstractSelfAttention):
    """A field with an interaction `A` (scores `<Ax, y>`) and a value matrix `V`.

    `V` may have fewer rows than columns when `MultiHead` projects the heads back.
    """

    interaction: eqx.AbstractVar[Matrix]
    value: eqx.AbstractVar[Map]

    def __check_init__(self):
        d = self.interaction.shape[-1] if self.interaction.shape else 0
        checks.shaped("interaction", self.interaction, (d, d), "Scores <Ax, y> need a square matrix; A = K^T Q.")
        checks.shaped("value", self.value, ("k", d), "The value matrix acts on tokens of the size of `interaction`.")
        checks.finite("interaction", self.interaction)
        checks.finite("value", self.value)

    @classmethod
    def isotropic(cls, dim: int, beta: Number = 1.0) -> "AbstractAttention":
        """The model of the sphere papers: scores `beta <x, y>` and values as they are."""
        return cls(Multiple(_scalar(beta), dim), Multiple(_scalar(1.0), dim))


@final
class SoftmaxAttention(AbstractAttention):
    """Each token moves to the average of the others, weighted by the softmax of the scores.

    `v(x) = ∫ V y e^{<Ax, y>} dmu(y) / ∫ e^{<Ax, y>} dmu(y)`; at `A = 0` it is `V` times the mean. This is SA of
    geshkovski:25.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.SoftmaxAttention.isotropic(2, beta=np.log(3))
    >>> field(0.0, mu.points, mu).round(3).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """

    exponential: ClassVar[bool] = True
    interaction: Matrix = eqx.field(converter=matrix)
    value: Map = eqx.field(converter=matrix)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m k"]:
        """The velocity `V grad L(Ax)`."""
        return mu.attend(xs @ self.interaction.T).mean @ self.value.T


@final
class UnnormalisedAttention(AbstractAttention):
    """Attention without the softmax denominator, a gradient flow when `V = A` is symmetric.

    `v(x) = ∫ V y e^{<Ax, y>} dmu(y)`; at `A = 0` it is `V` times the mean. This is USA of geshkovski:25. In Euclidean
    space it can blow up in finite time.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.UnnormalisedAttention.isotropic(2, beta=np.log(3))
    >>> field(0.0, mu.points, mu).round(3).tolist()
    [[1.5, 0.5], [0.5, 1.5]]
    """

    exponential: ClassVar[bool] = True
    interaction: Matrix = eqx.field(converter=matrix)
    value: Map = eqx.field(converter=matrix)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m k"]:
        """The velocity `V e^L grad L (Ax)`."""
        seen = mu.attend(xs @ self.interaction.T)
        return jnp.exp(seen.log_mass)[:, None] * seen.mean @ self.value.T

    def parts(self, t: Number, mu: AbstractMeasure) -> tuple[Part, ...]:
        """The softmax velocity `V grad L(Ax)` times the exponential of `L(Ax)`."""
        seen = lambda xs: mu.attend(xs @ self.interaction.T)  # noqa: E731
        return (Part(lambda xs: seen(xs).mean @ self.value.T, lambda xs: seen(xs).log_mass),)


@final
class L2Attention(AbstractSelfAttention):
    """Attention by distance: the softmax of `-|Qx - Ky|^2`.

    `v(x) = ∫ V y k dmu / ∫ k dmu` with `k = e^{-|Qx - Ky|^2}`. On the unit sphere with `Q = K = sqrt(beta/2) I` it is
    softmax attention at `beta`. castin:25

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.L2Attention.isotropic(2, beta=np.log(3))
    >>> field(0.0, mu.points, mu).round(3).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """

    exponential: ClassVar[bool] = True
    query: Map = eqx.field(converter=matrix)
    key: Map = eqx.field(converter=matrix)
    value: Map = eqx.field(converter=matrix)

    def __check_init__(self):
        checks.shaped("query", self.query, ("h", "d"))
        checks.shaped("key", self.key, self.query.shape, "Queries and keys are compared, so they have one shape.")
        checks.shaped("value", self.value, ("k", self.query.shape[1]), "The value matrix acts on tokens.")
        for name in ("query", "key", "value"):
            checks.finite(name, getattr(self, name))

    @classmethod
    def isotropic(cls, dim: int, beta: Number = 1.0) -> "L2Attention":
        """The kernel `e^{-beta |x - y|^2 / 2}`, which on the unit sphere is that of softmax attention."""
        root = Multiple(jnp.sqrt(_scalar(beta) / 2), dim)
        return cls(root, root, Multiple(_scalar(1.0), dim))

    @classmethod
    def bilinear(cls, interaction: Numbers, value: Numbers) -> "L2Attention":
        """Attention by distance with the scores of `A` among its own: `-|Ax - y|^2 / 2`, which contains `<Ax, y>`.

        On tokens of one norm, such as those of a sphere, it is softmax attention with `A` and `V`.
        """
        A = checks.floating(interaction)
        checks.shaped("interaction", A, (A.shape[-1], A.shape[-1]), "Scores <Ax, y> need a square matrix; A = K^T Q.")
        root = jnp.sqrt(jnp.asarray(0.5, A.dtype))
        return cls(root * A, root * jnp.eye(len(A), dtype=A.dtype), checks.floating(value))

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m k"]:
        """The velocity of softmax attention at `2 K^T Q x` on the measure `e^{-|Ky|^2} dmu(y)`."""
        seen = mu.weigh(mu.potential(lambda y: -jnp.sum((y @ self.key.T) ** 2, -1)))
        return seen.attend(2 * xs @ self.query.T @ self.key).mean @ self.value.T


def _optional(matrix: Numbers | None) -> Array | None:
    return None if matrix is None else checks.floating(matrix)


@final
class KernelAttention(AbstractSelfAttention):
    """Attention with a user's own function of the score.

    `v(x) = ∫ V y k(<Ax, y>) dmu(y)`, divided by `∫ k(<Ax, y>) dmu(y)` if `normalise`. For example
    `KernelAttention(lambda s: 1 / (1 + s**2), normalise=True)`; `A` and `V` are the identity unless given.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.KernelAttention(lambda score: 1 + 2 * score, normalise=True)
    >>> field(0.0, mu.points, mu).round(3).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """

    exponential: ClassVar[bool] = False
    score: Callable[[Float[Array, "*s"]], Float[Array, "*s"]]
    normalise: bool = eqx.field(static=True, default=False)
    interaction: Float[Array, "d d"] | None = eqx.field(converter=_optional, default=None)
    value: Float[Array, "k d"] | None = eqx.field(converter=_optional, default=None)

    def __check_init__(self):
        if self.interaction is not None:
            d = self.interaction.shape[-1]
            checks.shaped("interaction", self.interaction, (d, d), "Scores <Ax, y> need a square matrix; A = K^T Q.")

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m k"]:
        """The velocity `V ∫ k(<Ax, y>) y dmu(y)`, normalised or not."""
        mass, moment = mu.ridge(self.score, xs if self.interaction is None else xs @ self.interaction.T)
        mean = moment / mass[:, None] if self.normalise else moment
        return mean if self.value is None else mean @ self.value.T


@final
class SigmoidAttention(AbstractAttention):
    """Attention with the logistic function of the score and no normalisation: `v(x) = ∫ V y s(<Ax, y>) dmu(y)`.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.SigmoidAttention.isotropic(2, beta=np.log(3))
    >>> field(0.0, mu.points, mu).round(3).tolist()
    [[0.375, 0.25], [0.25, 0.375]]
    """

    exponential: ClassVar[bool] = False
    interaction: Matrix = eqx.field(converter=matrix)
    value: Map = eqx.field(converter=matrix)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m k"]:
        """The velocity `V ∫ s(<Ax, y>) y dmu(y)`."""
        return mu.ridge(jax.nn.sigmoid, xs @ self.interaction.T)[1] @ self.value.T


@final
class LinearAttention(AbstractAttention):
    """Attention with the score itself as kernel: `v(x) = V ∫ y y^T dmu(y) A x`; it can blow up in finite time.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.LinearAttention.isotropic(2)
    >>> field(0.0, jnp.array([[2.0, -2.0]]), mu).round(3).tolist()
    [[1.0, -1.0]]
    """

    exponential: ClassVar[bool] = False
    interaction: Matrix = eqx.field(converter=matrix)
    value: Map = eqx.field(converter=matrix)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m k"]:
        """The velocity through the second moment, which is all that a linear kernel sees."""
        second = mu.integrate(lambda ys: ys[:, :, None] * ys[:, None, :])
        return xs @ self.interaction.T @ second @ self.value.T


@final
class ReLUAttention(AbstractAttention):
    """Attention with the positive part of the score: `v(x) = ∫ V y max(0, <Ax, y>) dmu(y)`.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.ReLUAttention.isotropic(2)
    >>> field(0.0, jnp.array([[2.0, -2.0]]), mu).round(3).tolist()
    [[1.0, 0.0]]
    """

    exponential: ClassVar[bool] = False
    interaction: Matrix = eqx.field(converter=matrix)
    value: Map = eqx.field(converter=matrix)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m k"]:
        """The velocity `V ∫ max(0, <Ax, y>) y dmu(y)`."""
        return mu.ridge(jax.nn.relu, xs @ self.interaction.T)[1] @ self.value.T


@final
class HardmaxAttention(AbstractAttention):
    """The limit of softmax attention at zero temperature: each token looks only at the one it scores highest.

    `v(x) = V y*` with `y*` the token of largest `<Ax, y>`. Ties: tokens whose scores agree with the top to a relative
    `tie` are averaged by weight, which is the limit of the softmax. For particles only.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.HardmaxAttention.isotropic(2)
    >>> field(0.0, jnp.array([[0.6, 0.8], [0.5, 0.5]]), mu).round(3).tolist()
    [[0.0, 1.0], [0.5, 0.5]]
    """

    exponential: ClassVar[bool] = False
    interaction: Matrix = eqx.field(converter=matrix)
    value: Map = eqx.field(converter=matrix)
    tie: float = eqx.field(static=True, default=1e-12)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m k"]:
        """The value of the token that scores highest."""
        if not isinstance(mu, AbstractCloud):
            raise TypeError(f"`HardmaxAttention` needs a measure with support points; got {type(mu).__name__}.")
        return mu.farthest(xs @ self.interaction.T, self.tie) @ self.value.T
