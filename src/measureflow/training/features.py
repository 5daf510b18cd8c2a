"""Features of one's own: any function of a parameter vector and a datum, averaged over a measure and judged by a convex loss.

Spikes `a h(x - p)` of a deconvolution, atoms of a dictionary, radial functions: what a particle predicts for one input is
enough. Its derivatives, batches of data and the sum over many particles follow. Work is linear in the number of particles.
"""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.flows import precision
from measureflow.measures import AbstractMeasure, Particles
from measureflow.training.families import AbstractFamily, Theta
from measureflow.training.losses import AbstractLoss, Square
from measureflow.training.risk import AbstractRisk

BLOCK = 2**22
"""Predictions that are held at once; a feature of one's own may keep several numbers for each."""


@final
class Plain(AbstractFamily):
    """Parameters of which no symmetry is known: so many numbers, or named blocks by their shapes.

    >>> mf.training.Plain(3).shapes
    {'theta': (3,)}
    >>> mf.training.Plain(height=(), place=(2,)).unfold(jnp.arange(3.0))["place"].tolist()
    [1.0, 2.0]
    """

    blocks: tuple[tuple[str, tuple[int, ...]], ...] = eqx.field(static=True)

    def __init__(self, size: int | None = None, **shapes: tuple[int, ...]):
        if (size is None) == (not shapes):
            raise ValueError("`Plain` takes a number of parameters or the shapes of named blocks, one of the two.")
        given = {"theta": (size,)} if size is not None else shapes
        for name, shape in given.items():
            for side in shape:
                checks.count("size" if size is not None else name, side, 1)
        self.blocks = tuple((name, tuple(int(side) for side in shape)) for name, shape in given.items())

    @property
    def dim(self) -> int:
        """The number of parameters, since nothing is known of the data."""
        return self.size

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The named blocks, or one called `theta`."""
        return dict(self.blocks)

    def gauge(self, theta: Theta) -> Float[Array, "g D"]:
        """None is known."""
        return jnp.zeros((0, self.size), theta.dtype)

    def invariants(self, theta: Theta) -> Float[Array, " g"]:
        """The parameters themselves."""
        return theta


@final
class FeatureRisk(AbstractRisk):
    """The risk of features of one's own: the mean over the data of a convex loss of `f(x) = ∫ phi(theta, x) dmu(theta)`.

    - `features`: what one particle predicts for one input, `(theta, x) -> (V,)` or one number, in JAX.
    - `inputs` `(S, ...)`, `labels` as the loss takes them: numbers for `Square()`, signs for `Logistic()`, classes for
      `CrossEntropy()`.
    - `family`: what the parameters mean, or their number.
    - `reduction`: average over the data, or add them up.

    >>> spike = lambda theta, x: theta[0] * jnp.exp(-((x[0] - theta[1]) ** 2))
    >>> risk = mf.training.FeatureRisk(spike, [[0.0], [1.0]], [2.0, 2.0], 2)
    >>> both = mf.Particles(risk.family.space, [[4.0, 0.0], [4.0, 1.0]])
    >>> np.round(risk.logits(both)[:, 0], 3).tolist()  # half of each spike
    [2.736, 2.736]
    >>> round(float(risk(both)), 3)
    0.541
    """

    inputs: Float[Array, "S *x"]
    targets: Float[Array, "S V"]
    shares: Float[Array, " S"]
    family: AbstractFamily
    criterion: AbstractLoss
    feature: Callable[[Array, Array], Array]

    def __init__(
        self,
        features: Callable[..., Any],
        inputs: Numbers,
        labels: Numbers,
        family: AbstractFamily | int,
        loss: AbstractLoss | None = None,
        *,
        reduction: str = "mean",
    ):
        if not callable(features):
            raise TypeError(f"`features` must be a function of parameters and an input; got {features!r}.")
        if reduction not in ("sum", "mean"):
            raise ValueError(f"`reduction` must be 'sum' or 'mean'; got {reduction!r}.")
        self.inputs = checks.floating(inputs)
        if not self.inputs.ndim:
            raise ValueError("`inputs` must have one row for each datum; got a single number.")
        checks.finite("inputs", self.inputs)
        self.family = Plain(family) if isinstance(family, int) else family
        self.feature, self.criterion = features, Square() if loss is None else loss
        count, dtype = len(self.inputs), self.inputs.dtype
        self.targets = self.criterion.targets(labels, (count,), self._outputs(), dtype)
        self.shares = jnp.full(count, 1.0 if reduction == "sum" else 1.0 / count, dtype)

    def predicted(self, theta: Theta, x: Float[Array, "*x"]) -> Float[Array, " V"]:
        """What one particle predicts for one input."""
        return jnp.atleast_1d(self.feature(theta, x))

    def features(self, theta: Theta) -> Float[Array, "S V"]:
        """What one particle predicts for all inputs."""
        return jax.vmap(lambda x: self.predicted(theta, x))(self.inputs.astype(theta.dtype))

    def logits(self, mu: AbstractMeasure) -> Float[Array, "S V"]:
        """The average of the features over the measure: `f(x) = ∫ phi(theta, x) dmu(theta)`."""
        if not isinstance(mu, Particles):
            return mu.integrate(jax.vmap(self.features))
        inputs, size = self.inputs.astype(precision(mu)), self._rows(mu.points)
        one = lambda x: mu.weights @ jax.vmap(lambda theta: self.predicted(theta, x))(mu.points)  # noqa: E731
        return (
            jax.vmap(one)(inputs) if size >= len(inputs) else jax.lax.map(jax.checkpoint(one), inputs, batch_size=size)
        )

    def against(self, cotangents: Float[Array, "S V"], xs: Float[Array, "m D"]) -> Float[Array, " m"]:
        """The pairing of what particles predict with given cotangents: `sum_s <phi(theta, x_s), c_s>`."""
        inputs, size = self.inputs.astype(xs.dtype), self._rows(xs)

        def paired(inputs, cotangents):
            one = lambda theta, x, c: self.predicted(theta, x) @ c  # noqa: E731
            return jax.vmap(lambda theta: jax.vmap(lambda x, c: one(theta, x, c))(inputs, cotangents).sum())(xs)

        whole = len(inputs) - len(inputs) % size if size < len(inputs) else 0
        rest = paired(inputs[whole:], cotangents[whole:])
        if not whole:
            return rest
        blocks = [part[:whole].reshape(-1, size, *part.shape[1:]) for part in (inputs, cotangents)]
        add = jax.checkpoint(lambda total, block: (total + paired(*block), None))
        return jax.lax.scan(add, rest, blocks)[0]

    def data(self) -> tuple[Any, Any, Any]:
        """Inputs with their targets."""
        return self.inputs, self.targets, self.shares

    def _rows(self, points: Float[Array, "n D"]) -> int:
        """How many data so many particles see at once."""
        return max(1, BLOCK // (len(points) * self.targets.shape[1]))

    def _outputs(self) -> int:
        theta = jax.ShapeDtypeStruct((self.family.size,), self.inputs.dtype)
        x = jax.ShapeDtypeStruct(self.inputs.shape[1:], self.inputs.dtype)
        found = jax.eval_shape(self.feature, theta, x)
        if len(getattr(found, "shape", (0, 0))) > 1:
            raise ValueError(f"`features` must give one number, or a vector of them, for one input; got {found}.")
        return found.shape[0] if found.shape else 1
