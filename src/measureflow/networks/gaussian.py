"""The Gaussian-mixture layer: a two-layer network whose neurons have a mixture of Gaussians as their law.

`f(x) = ∫ a s(<w, x> + b) drho(a, w, b)` with `rho = sum_k p_k N(m_k, S_k)` is a sum over components in closed form, so the layer
stands in place of a dense two-layer block and trains like one, with any optimiser, on means and square roots. Plain descent of
these, each component divided by its mass, is the Bures-Wasserstein gradient flow: the flow of the measure of neurons, confined to
mixtures. Adam and its like train as well, but are another flow. yan:25
"""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Number, Numbers, RandomKey
from measureflow.measures import GaussianMixture, Particles
from measureflow.measures.cloud import as_key
from measureflow.networks.covariances import AbstractCovariances, Full
from measureflow.training import Neurons
from measureflow.training.activations import ReLU, averaged


@final
class Dense(eqx.Module):
    """A plain two-layer block, `outputs s(weights x + bias)`."""

    weights: Float[Array, "n d"]
    outputs: Float[Array, "C n"]
    bias: Float[Array, " n"] | None
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " C"]:
        """The outputs for one input."""
        score = self.weights @ x
        return self.outputs @ self.activation(score if self.bias is None else score + self.bias)


@final
class GaussianMixtureLayer(eqx.Module):
    """A two-layer block whose neurons are a mixture of Gaussians over `theta = (a, w[, b])`, laid out as in `Neurons`.

    - `neurons`: what the parameters of a neuron mean, with the activation.
    - `means` `(K, D)`, and `spreads`: the numbers of the square roots, of the shape that `covariances` says.
    - `weights`: masses of the components, equal by default. They are held: their gradient is zero.
    - `exact`: refuse an activation whose averages have no closed form.

    >>> neurons = mf.training.Neurons(1, activation=mf.training.activations.ReLU())
    >>> layer = mf.networks.GaussianMixtureLayer(neurons, [[1.0, 0.0]], np.eye(2)[None])
    >>> layer(jnp.array([2.0])).round(3).tolist()  # E[a] E[relu(2 w)] = 2 / sqrt(2 pi)
    [0.798]
    """

    neurons: Neurons
    means: Float[Array, "K D"]
    spreads: Float[Array, "K *s"]
    log_weights: Float[Array, " K"]
    covariances: AbstractCovariances

    def __init__(
        self,
        neurons: Neurons,
        means: Numbers,
        spreads: Numbers,
        covariances: AbstractCovariances | None = None,
        *,
        weights: Numbers | None = None,
        exact: bool = False,
    ):
        self.neurons, self.covariances = neurons, Full() if covariances is None else covariances
        self.means, self.spreads = checks.floating(means), checks.floating(spreads)
        checks.shaped("means", self.means, ("K", neurons.size), "Rows are the means of the components.")
        shape = self.covariances.shape(len(self.means), neurons.size)
        checks.shaped(
            "spreads", self.spreads, shape, f"It has the numbers of `{type(self.covariances).__name__}` roots."
        )
        self.log_weights = _log_weights(weights, len(self.means), self.means.dtype)
        for name in ("means", "spreads", "log_weights"):
            checks.finite(name, getattr(self, name))
        if exact:
            _closed(neurons.activation)

    @staticmethod
    def normal(
        dim: int,
        outputs: int,
        components: int,
        *,
        key: RandomKey,
        activation: Callable[[Array], Array] | None = None,
        bias: bool = True,
        scale: Number = 1.0,
        spread: Number | None = None,
        covariances: AbstractCovariances | None = None,
        exact: bool = False,
    ) -> "GaussianMixtureLayer":
        """A layer with means drawn at random and one standard deviation, `spread`, in all the directions that there are.

        Means of weights have the size `scale / sqrt(dim)` and the others `scale`, so that scores of inputs with unit entries have
        that size too; without a `spread` of your own it is `scale / sqrt(dim)`, for the same reason.
        """
        checks.count("components", components, 1)
        wide = checks.floating(scale) * dim**-0.5 if spread is None else checks.floating(spread)
        checks.positive("spread", wide)
        family = Full() if covariances is None else covariances
        neurons = Neurons(dim, outputs, ReLU() if activation is None else activation, bias=bias)
        centre, rest = jax.random.split(as_key(key))
        unit = neurons.by_block(**{name: dim**-0.5 if name == "weight" else 1.0 for name in neurons.shapes})
        means = checks.floating(scale) * unit[None] * jax.random.normal(centre, (components, neurons.size))
        spreads = family.start(wide.astype(means.dtype), components, neurons.size, rest)
        return GaussianMixtureLayer(neurons, means, spreads, family, exact=exact)

    @staticmethod
    def from_mixture(neurons: Neurons, mixture: GaussianMixture) -> "GaussianMixtureLayer":
        """The layer of a mixture, such as one that `evolve(Descent(risk), mixture, times)` has trained."""
        checks.shaped("mixture.means", mixture.means, ("K", neurons.size), "Its space is that of the neurons.")
        return GaussianMixtureLayer(neurons, mixture.means, mixture.parts.root, weights=mixture.weights)

    @staticmethod
    def from_dense(
        weights: Numbers,
        outputs: Numbers,
        bias: Numbers | None = None,
        spread: Number = 0.0,
        *,
        activation: Callable[[Array], Array] | None = None,
        covariances: AbstractCovariances | None = None,
        key: RandomKey = 0,
    ) -> "GaussianMixtureLayer":
        """One component about each neuron of the plain block `outputs s(weights x + bias)`.

        Without `spread` it is that block; but a covariance that is zero stays zero in training, so give one to train it.
        """
        W, V = checks.floating(weights), checks.floating(outputs)
        checks.shaped("weights", W, ("n", "d"), "Rows are neurons.")
        checks.shaped("outputs", V, ("C", len(W)), "Columns are neurons.")
        blocks = {"output": len(W) * V.T, "weight": W}
        if bias is not None:
            blocks["bias"] = checks.floating(bias)
            checks.shaped("bias", blocks["bias"], (len(W),), "There is one for each neuron.")
        family = Full() if covariances is None else covariances
        neurons = Neurons(W.shape[1], len(V), ReLU() if activation is None else activation, bias=bias is not None)
        wide = checks.floating(spread).astype(W.dtype)
        if checks.concrete(wide) and wide < 0:
            raise ValueError(f"`spread` is a standard deviation and must not be negative; got {float(wide):g}.")
        return GaussianMixtureLayer(
            neurons, jax.vmap(neurons.fold)(blocks), family.start(wide, len(W), neurons.size, as_key(key)), family
        )

    @property
    def weights(self) -> Float[Array, " K"]:
        """The masses of the components."""
        return jax.nn.softmax(jax.lax.stop_gradient(self.log_weights))

    @property
    def roots(self) -> Float[Array, "K D r"]:
        """The square roots of the covariances."""
        return self.covariances.roots(self.spreads, self.neurons.size)

    @property
    def mixture(self) -> GaussianMixture:
        """The law of the neurons, which `NeuronRisk` takes and `evolve` moves; its roots are filled up with zero columns."""
        roots, D = self.roots, self.neurons.size
        square = jnp.pad(roots, ((0, 0), (0, 0), (0, D - roots.shape[-1])))
        return GaussianMixture.from_roots(self.weights, self.means, square)

    def __call__(self, x: Float[Array, "*d"]) -> Float[Array, " C"]:
        """The mean output for one input: `sum_k p_k (mu_a A(m, v) + S_aw x A_1(m, v))`."""
        if x.shape != (self.neurons.dim,):
            raise ValueError(
                f"`x` must be one input, of shape ({self.neurons.dim},); got {x.shape}. Use `jax.vmap(layer)` for several."
            )
        each = jax.vmap(lambda mean, root: self.neurons.mean(mean, root, x[None])[0])(self.means, self.roots)
        return self.weights @ each

    def bures(self, gradient: "GaussianMixtureLayer") -> "GaussianMixtureLayer":
        """The gradient of a loss in the Bures-Wasserstein geometry, from its plain one: `eqx.filter_grad(loss)(layer)`.

        Each component is divided by its mass, and one number for all coordinates by their count. Descent along it, in small
        steps, is the flow of the measure in time `t`.
        """
        relieved = jax.vmap(lambda g, mass: g / mass)
        means, spreads = (relieved(g, self.weights) for g in (gradient.means, gradient.spreads))
        found = means, self.covariances.share(self.neurons.size) * spreads
        return eqx.tree_at(lambda layer: (layer.means, layer.spreads), gradient, found)

    def sample(self, n: int, *, key: RandomKey) -> Particles:
        """Independent neurons from the law of the layer, as particles of a `NeuronRisk`."""
        return self.mixture.sample(n, key=key)

    def to_dense(self, n: int | None = None, *, key: RandomKey = 0) -> Dense:
        """A plain block: of `n` sampled neurons, or of the means of the components if they have no spread."""
        if n is None:
            if checks.concrete(self.spreads) and np.asarray(self.spreads).any():
                raise ValueError(
                    "`n` says how many neurons to sample, and is needed because the covariances of this layer are not zero."
                )
            points, shares = self.means, self.weights
        else:
            points, shares = self.sample(n, key=key).points, jnp.full(n, 1.0 / n, self.means.dtype)
        blocks = jax.vmap(self.neurons.unfold)(points)
        outputs = (shares[:, None] * self.neurons.out(points)).T
        return Dense(blocks["weight"], outputs, blocks.get("bias"), self.neurons.activation)


def _log_weights(weights: Numbers | None, count: int, dtype) -> Float[Array, " K"]:
    if weights is None:
        return jnp.full(count, -np.log(count), dtype)
    found = checks.floating(weights).astype(dtype)
    checks.shaped("weights", found, (count,), "There is one for each component.")
    checks.positive("weights", found)
    return jax.nn.log_softmax(jnp.log(found))


def _closed(activation: Callable[[Array], Array]) -> None:
    if not averaged(activation).exact:
        name = getattr(activation, "__name__", type(activation).__name__)
        raise ValueError(
            f"`exact=True` needs an `activation` whose mean over a normal law has a closed form; got {name}. Take one of ReLU, "
            "SquaredReLU, LeakyReLU, Erf, Probit, GELU, Sine, Cosine or Exponential of `mf.training`, or leave `exact` out: "
            "then the mean is by quadrature."
        )
