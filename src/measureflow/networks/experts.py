"""Mixtures of experts: a layer that computes only what a router chooses for its input.

`f(x) = sum_i g_i(x) E_i(x)` over the `k` experts with the largest scores `<r_i, x>`. Only `k` of `m` experts are active, and
there are `binom(m, k)` choices of them. Cutting every expert in `g` keeps the parameters, active and total, and raises the
number of choices exponentially: more, smaller experts express more. boix:25
"""

import abc
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from measureflow import checks
from measureflow.annotations import Number, Numbers, RandomKey
from measureflow.measures.cloud import as_key

SPARSE = 16
"""Experts for each active one beyond which the chosen ones are gathered; up to there products with all are faster in batches."""


class AbstractExperts(eqx.Module):
    """Functions of one kind, with their parameters stacked along the first axis."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " d"]) -> Float[Array, "m C"]:
        """The output of each expert for one input."""

    @property
    def count(self) -> int:
        """The number of experts."""
        return len(jax.tree.leaves(self)[0])

    @property
    def size(self) -> int:
        """The number of parameters of one expert."""
        return sum(leaf.size for leaf in jax.tree.leaves(self)) // self.count

    def take(self, chosen: Int[Array, " k"]) -> "AbstractExperts":
        """The experts with these numbers."""
        return jax.tree.map(lambda leaf: leaf[chosen], self)

    def split(self, parts: int, factor: Float[Array, ""]) -> "AbstractExperts":
        """Every expert cut into so many that add up to it, with outputs times a factor."""
        raise ValueError(
            f"`split` shares out the neurons of an expert, and `{type(self).__name__}` have none. Use `ReLUExperts`."
        )


@final
class ConstantExperts(AbstractExperts):
    """Experts that give one vector each: `values` `(m, C)`."""

    values: Float[Array, "m C"] = eqx.field(converter=checks.floating)

    def __check_init__(self):
        checks.shaped("values", self.values, ("m", "C"), "Rows are the outputs of the experts.")

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, "m C"]:
        """The vectors, whatever the input is."""
        return self.values


@final
class LinearExperts(AbstractExperts):
    """Experts that are matrices: `weights` `(m, C, d)`."""

    weights: Float[Array, "m C d"] = eqx.field(converter=checks.floating)

    def __check_init__(self):
        checks.shaped("weights", self.weights, ("m", "C", "d"), "There is a matrix for each expert.")

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, "m C"]:
        """Every matrix times the input."""
        return self.weights @ x


@final
class ReLUExperts(AbstractExperts):
    """Two-layer networks `outputs_i relu(weights_i x)` of one width: `weights` `(m, w, d)` and `outputs` `(m, C, w)`."""

    weights: Float[Array, "m w d"] = eqx.field(converter=checks.floating)
    outputs: Float[Array, "m C w"] = eqx.field(converter=checks.floating)

    def __check_init__(self):
        checks.shaped(
            "weights", self.weights, ("m", "w", "d"), "There is a matrix with neurons as rows for each expert."
        )
        m, w, _ = self.weights.shape
        checks.shaped(
            "outputs", self.outputs, (m, "C", w), "There is a matrix with neurons as columns for each expert."
        )

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, "m C"]:
        """The output of each network."""
        return jnp.einsum("mcw,mw->mc", self.outputs, jax.nn.relu(self.weights @ x))

    def split(self, parts: int, factor: Float[Array, ""]) -> "ReLUExperts":
        """Every network cut into so many of a fraction of its width."""
        m, w, d = self.weights.shape
        narrow = _fraction(w, parts)
        apart = self.outputs.reshape(m, -1, parts, narrow).swapaxes(1, 2)
        return ReLUExperts(self.weights.reshape(m * parts, narrow, d), factor * apart.reshape(m * parts, -1, narrow))


@final
class MixtureOfExperts(eqx.Module):
    """A layer that sends its input to the `active` experts of largest score, `f(x) = sum_i g_i E_i(x)`.

    - `router` `(m, d)`: the scores of an input are `router @ x`.
    - `experts`: `ReLUExperts`, `LinearExperts`, `ConstantExperts` or a kind of your own.
    - `gate`: the weights `g` as a function of all the scores, of which those of the chosen experts count; `None` for weight one.
      The router learns through them: without a gate its gradient is zero.
    - `normalised`: divide the gates of the chosen by their sum. With one active expert its gate is then one.

    >>> experts = mf.networks.ConstantExperts([[1.0], [10.0], [100.0]])
    >>> layer = mf.networks.MixtureOfExperts([[1.0], [2.0], [-1.0]], experts, active=2, gate=None)
    >>> layer(jnp.array([1.0])).tolist(), layer(jnp.array([-1.0])).tolist()
    ([11.0], [101.0])
    """

    router: Float[Array, "m d"]
    experts: AbstractExperts
    active: int = eqx.field(static=True)
    gate: Callable[[Array], Array] | None = eqx.field(static=True)
    normalised: bool = eqx.field(static=True)

    def __init__(
        self,
        router: Numbers,
        experts: AbstractExperts,
        active: int,
        gate: Callable[[Array], Array] | None = jax.nn.softmax,
        *,
        normalised: bool = True,
    ):
        self.router, self.experts = checks.floating(router), experts
        self.active, self.gate, self.normalised = active, gate, normalised and gate is not None
        checks.shaped("router", self.router, (experts.count, "d"), "There is a row for each expert.")
        checks.finite("router", self.router)
        checks.count("active", active, 1)
        if active > experts.count:
            raise ValueError(
                f"`active` must be at most {experts.count}, the number of experts; got {active}. Take fewer active ones."
            )

    @staticmethod
    def constant(dim: int, outputs: int, experts: int, active: int, *, key: RandomKey, **options) -> "MixtureOfExperts":
        """Normal constants behind a normal router; `options` are those of the layer."""
        _counts(dim=dim, outputs=outputs, experts=experts)
        first, second = jax.random.split(as_key(key))
        values = ConstantExperts(jax.random.normal(second, (experts, outputs)))
        return MixtureOfExperts(_rows(first, experts, dim), values, active, **options)

    @staticmethod
    def linear(dim: int, outputs: int, experts: int, active: int, *, key: RandomKey, **options) -> "MixtureOfExperts":
        """Normal matrices behind a normal router, for inputs with unit entries; `options` are those of the layer."""
        _counts(dim=dim, outputs=outputs, experts=experts)
        first, second = jax.random.split(as_key(key))
        matrices = LinearExperts(_rows(second, experts, outputs, dim))
        return MixtureOfExperts(_rows(first, experts, dim), matrices, active, **options)

    @staticmethod
    def relu(
        dim: int,
        outputs: int,
        experts: int,
        active: int,
        width: int,
        *,
        key: RandomKey,
        granularity: int = 1,
        scale: Number = 1.0,
        **options,
    ) -> "MixtureOfExperts":
        """Normal two-layer networks behind a normal router; `options` are those of the layer.

        A `granularity` of `g` takes `g` times as many experts, and active ones, of a `g`-th of the width: the parameters that are
        active and those in total stay. For inputs with unit entries scores have about unit size, and outputs with weight one
        `scale`.

        >>> layer = mf.networks.MixtureOfExperts.relu(32, 1, experts=8, active=1, width=8, granularity=4, key=0)
        >>> layer.experts.count, layer.active, layer.experts.size, layer.total_parameters
        (32, 4, 66, 2112)
        """
        _counts(dim=dim, outputs=outputs, experts=experts, active=active, width=width, granularity=granularity)
        m, k, w = experts * granularity, active * granularity, _fraction(width, granularity)
        first, second, third = jax.random.split(as_key(key), 3)
        large = checks.floating(scale) * (2 / (k * w)) ** 0.5
        networks = ReLUExperts(_rows(second, m, w, dim), large * jax.random.normal(third, (m, outputs, w)))
        return MixtureOfExperts(_rows(first, m, dim), networks, k, **options)

    @property
    def total_parameters(self) -> int:
        """The parameters of all the experts; the router has as many more as its entries."""
        return self.experts.count * self.experts.size

    @property
    def active_parameters(self) -> int:
        """The parameters of the experts that one input meets."""
        return self.active * self.experts.size

    def route(self, x: Float[Array, "*d"]) -> Int[Array, " k"]:
        """The numbers of the chosen experts, by falling score."""
        return jax.lax.top_k(self._scores(x), self.active)[1]

    def __call__(self, x: Float[Array, "*d"]) -> Float[Array, " C"]:
        """The output for one input."""
        scores, chosen = self._scores(x), self.route(x)
        if self.experts.count > SPARSE * self.active:
            return self._gates(scores, chosen) @ self.experts.take(chosen)(x)
        return self._gates(scores, chosen) @ self.experts(x)[chosen]

    def load(self, xs: Float[Array, "n d"]) -> Float[Array, " m"]:
        """The share of all choices that each expert has among some inputs."""
        chosen = jax.vmap(self.route)(xs).ravel()
        return jnp.bincount(chosen, length=self.experts.count).astype(self.router.dtype) / chosen.size

    def balance(self, xs: Float[Array, "n d"]) -> Float[Array, ""]:
        """A loss to add in training so that no expert is left out: `m sum_i load_i p_i`, with mean probabilities `p`.

        `p` is the mean over the inputs of the softmax of all scores, through which the router learns. The loss is one where
        inputs are shared out evenly, and `m` where one expert gets all of them. fedus:22
        """
        p = jax.nn.softmax(jax.vmap(self._scores)(xs)).mean(0)
        return self.experts.count * jax.lax.stop_gradient(self.load(xs)) @ p

    def split(self, parts: int) -> "MixtureOfExperts":
        """The same function by experts of a fraction of the width, with as many parameters that are active and in total.

        The parts of an expert have its score and are chosen together, until training moves them apart. So finer mixtures express
        all that coarser ones do.
        """
        checks.count("parts", parts, 1)
        m, k = self.experts.count, self.active
        even = self._gates(jnp.zeros(m), jnp.arange(k))[0], self._gates(jnp.zeros(parts * m), jnp.arange(parts * k))[0]
        experts = self.experts.split(parts, (even[0] / even[1]).astype(self.router.dtype))
        router = jnp.repeat(self.router, parts, axis=0)
        return MixtureOfExperts(router, experts, parts * k, self.gate, normalised=self.normalised)

    def _scores(self, x: Float[Array, "*d"]) -> Float[Array, " m"]:
        if x.shape != self.router.shape[1:]:
            raise ValueError(
                f"`x` must be one input, of shape {self.router.shape[1:]}; got {x.shape}. Use `jax.vmap(layer)` for several."
            )
        return self.router @ x

    def _gates(self, scores: Float[Array, " m"], chosen: Int[Array, " k"]) -> Float[Array, " k"]:
        # A gate over itself is one, without a gradient of the size of rounding that an optimiser may enlarge.
        if self.gate is None or (self.normalised and len(chosen) == 1):
            return jnp.ones_like(scores, shape=chosen.shape)
        gates = self.gate(scores)[chosen]
        return gates / gates.sum() if self.normalised else gates


def _rows(key, *shape: int) -> Array:
    """Normal rows of about unit length."""
    return jax.random.normal(key, shape) * shape[-1] ** -0.5


def _counts(**numbers: int) -> None:
    for name, number in numbers.items():
        checks.count(name, number, 1)


def _fraction(width: int, parts: int) -> int:
    if width % parts:
        raise ValueError(
            f"A `width` of {width} neurons cannot be cut into {parts} equal parts. Take a width that {parts} divides."
        )
    return width // parts
