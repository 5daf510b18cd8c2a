"""Two-layer networks: neurons as particles, `f(x) = ∫ a s(<w, x> + b) dmu(a, w, b)`.

With `N` equal neurons `N dR/dtheta_i = grad Psi(theta_i; mu)`, so the gradient flow of the parameters in Euclidean space runs `N`
times as slowly as that of the measure: `theta^E(N t) = theta^W(t)`. Work is linear in the number of neurons, memory too.
"""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.flows import precision
from measureflow.measures import AbstractMeasure, Gaussian, GaussianMixture, Particles
from measureflow.training import neuron_landscape, neuron_sums
from measureflow.training.activations import LeakyReLU, ReLU, averaged
from measureflow.training.families import AbstractFamily, ByBlock, Theta
from measureflow.training.landscape import PARAMETERS, AbstractLandscape
from measureflow.training.losses import AbstractLoss, Square
from measureflow.training.risk import AbstractRisk


@final
class Neurons(AbstractFamily):
    """Neurons `a s(<w, x> + b)` on inputs of `dim` coordinates, with `outputs` numbers in `a`.

    - `activation`: a function of one number, or one that knows its averages over normal laws, such as `GELU()`.
    - `output`: whether `a` is trained; otherwise it is one, and there is one output.
    - `bias`: whether `b` is trained; otherwise it is zero.
    """

    dim: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True, default=1)
    activation: Callable[[Array], Array] = eqx.field(static=True, default=jax.nn.relu)
    output: bool = eqx.field(static=True, default=True)
    bias: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        for name in ("dim", "outputs"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1; got {getattr(self, name)}.")
        if not self.output and self.outputs > 1:
            raise ValueError(f"Neurons without a trained output have one number; got `outputs` {self.outputs}.")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The blocks `output`, `weight` and `bias`, those that are trained."""
        output = {"output": (self.outputs,)} if self.output else {}
        return output | {"weight": (self.dim,)} | ({"bias": ()} if self.bias else {})

    @property
    def noun(self) -> str:
        """Neurons."""
        return "neurons"

    @property
    def smooth(self) -> bool:
        """Only ReLU and its leaky form have a kink; functions of one's own are taken for smooth."""
        return not isinstance(averaged(self.activation), ReLU | LeakyReLU)

    @property
    def linear(self) -> tuple[str, ...]:
        """The output, where it is trained."""
        return ("output",) if self.output else ()

    @property
    def factors(self) -> tuple[tuple[str, ...], ...]:
        """Where a trained output follows ReLU, the output, and the input with its bias."""
        if not self.output or not isinstance(averaged(self.activation), ReLU):
            return ()
        return ("output",), tuple(name for name in self.shapes if name != "output")

    def balance(self, theta: Theta) -> tuple[Array, ...]:
        """What training conserves for ReLU neurons: `|a|^2 - |w|^2 - b^2`."""
        blocks = {name: jnp.sum(block**2) for name, block in self.unfold(theta).items()}
        return (2 * blocks["output"] - sum(blocks.values()),) if self.factors else ()

    def gauge(self, theta: Theta) -> Float[Array, "g D"]:
        """Where a trained output follows ReLU, `(-a, w, b)`: a factor of the input may be taken out. Otherwise none is known."""
        if not self.factors:
            return jnp.zeros((0, self.size), theta.dtype)
        return (theta * self.by_block(**{name: -1.0 if name == "output" else 1.0 for name in self.shapes}))[None]

    def invariants(self, theta: Theta) -> Float[Array, " g"]:
        """The parameters, with the length of the input moved to the output where that changes nothing."""
        if not self.factors:
            return theta
        blocks = self.unfold(theta)
        length = jnp.sqrt(sum(jnp.sum(part**2) for name, part in blocks.items() if name != "output"))
        safe = jnp.where(length > 0, length, 1.0)
        return self.fold({name: part * length if name == "output" else part / safe for name, part in blocks.items()})

    def active(self, points: Float[Array, "n D"], inputs: Float[Array, "S d"]) -> Float[Array, "n S"]:
        """What neurons make of inputs before their outputs: `s(<w, x> + b)`."""
        blocks = jax.vmap(self.unfold)(points)
        shift = blocks["bias"][:, None] if self.bias else jnp.zeros((len(points), 1), points.dtype)
        return self.activation(blocks["weight"] @ inputs.T + shift)

    def out(self, points: Float[Array, "n D"]) -> Float[Array, "n V"]:
        """The outputs of neurons."""
        return jax.vmap(self.unfold)(points)["output"] if self.output else jnp.ones((len(points), 1), points.dtype)

    @eqx.filter_jit  # one program, also where it is called by itself
    def mean(self, mean: Theta, root: Float[Array, "D r"], inputs: Float[Array, "S d"]) -> Float[Array, "S V"]:
        """What neurons with the law of `mean + root z`, `z` standard normal, predict on average.

        A score is normal with mean `m` and variance `v`, so `E[a s] = E[a] A(m, v) + cov(a, score) A_1(m, v)` (Stein): exact if
        the activation has a closed form, and else up to a quadrature in one dimension.
        """
        centre, spread = self.unfold(mean), jax.vmap(self.unfold, in_axes=1, out_axes=-1)(root)
        m, along = inputs @ centre["weight"], inputs @ spread["weight"]
        if self.bias:
            m, along = m + centre["bias"], along + spread["bias"][None]
        v, law = jnp.sum(along**2, -1), averaged(self.activation)
        if not self.output:
            return law.average(m, v)[:, None]
        covariance = along @ spread["output"].T
        return law.average(m, v)[:, None] * centre["output"][None] + law.slope(m, v)[:, None] * covariance


@final
class NeuronRisk(AbstractRisk):
    """The risk of a two-layer network on data: the mean over the data of a convex loss of `f(x) = ∫ a s(<w, x> + b) dmu`.

    - `inputs` `(S, d)`, `labels` as the loss takes them: numbers for `Square()`, signs for `Logistic()`, classes for
      `CrossEntropy()`.
    - `neurons`: what the parameters of a neuron mean.
    - `reduction`: average over the data, or add them up.

    Neurons are `Particles`, or have a `Gaussian` or a `GaussianMixture` as their law, whose predictions are closed forms where
    the activation has them.

    >>> neurons = mf.training.Neurons(1)
    >>> risk = mf.training.NeuronRisk([[1.0]], [1.0], neurons)  # one datum, and a relu(w) should be 1
    >>> space = neurons.space
    >>> ends = [mf.Particles(space, [[2.0, 0.5]]), mf.Particles(space, [[0.5, 2.0]])]
    >>> [float(risk(mu)) for mu in ends]
    [0.0, 0.0]
    >>> float(risk(mf.Particles(space, [[1.25, 1.25]])))  # half way in space: the risk is not convex along geodesics
    0.31640625
    >>> float(risk(mf.Particles(space, [[2.0, 0.5], [0.5, 2.0]])))  # half of each: it is convex along mixtures
    0.0
    """

    inputs: Float[Array, "S d"]
    targets: Float[Array, "S V"]
    shares: Float[Array, " S"]
    neurons: Neurons
    criterion: AbstractLoss

    def __init__(
        self,
        inputs: Numbers,
        labels: Numbers,
        neurons: Neurons,
        loss: AbstractLoss | None = None,
        *,
        reduction: str = "mean",
    ):
        self.inputs = checks.floating(inputs)
        checks.shaped("inputs", self.inputs, ("S", neurons.dim), "Data, coordinates of an input.")
        checks.finite("inputs", self.inputs)
        if reduction not in ("sum", "mean"):
            raise ValueError(f"`reduction` must be 'sum' or 'mean'; got {reduction!r}.")
        count = len(self.inputs)
        self.neurons, self.criterion = neurons, Square() if loss is None else loss
        self.targets = self.criterion.targets(labels, (count,), neurons.outputs, self.inputs.dtype)
        self.shares = jnp.full(count, 1.0 if reduction == "sum" else 1.0 / count, self.inputs.dtype)

    @property
    def family(self) -> Neurons:
        """The neurons."""
        return self.neurons

    def features(self, theta: Theta) -> Float[Array, "S V"]:
        """What one neuron predicts: `phi(x; theta) = a s(<w, x> + b)`."""
        points = theta[None]
        return self.neurons.active(points, self.inputs.astype(theta.dtype)).T * self.neurons.out(points)

    def logits(self, mu: AbstractMeasure) -> Float[Array, "S V"]:
        """The network: `f(x) = ∫ phi dmu`."""
        inputs = self.inputs.astype(precision(mu))
        if isinstance(mu, Particles):
            return neuron_sums.total(self.neurons, mu.points, mu.weights, inputs)
        if isinstance(mu, GaussianMixture):
            each = lambda x: jax.vmap(lambda part: self._averaged(part, x))(mu.parts)  # noqa: E731
            return neuron_sums.by_data(lambda x: each(x).sum(0), inputs, mu.means.size)
        if isinstance(mu, Gaussian):
            return neuron_sums.by_data(lambda x: self._averaged(mu, x), inputs, mu.mean.size)
        raise TypeError(f"Neurons are `Particles`, a `Gaussian` or a `GaussianMixture`; got {type(mu).__name__}.")

    def _averaged(self, mu: Gaussian, inputs: Float[Array, "S d"]) -> Float[Array, "S V"]:
        return jnp.exp(mu.log_mass) * self.neurons.mean(mu.mean, mu.root, inputs)

    def average(self, mu: AbstractMeasure, nu: AbstractMeasure) -> Float[Array, ""]:
        """The first variation averaged over a measure, `sum_s share_s <∫ phi_s dnu, l'(z_s, y_s)>`."""
        return jnp.sum(self.residuals(mu) * self.logits(nu))

    def against(self, cotangents: Float[Array, "S V"], xs: Float[Array, "m D"]) -> Float[Array, " m"]:
        """The pairing of what neurons predict with given cotangents: `sum_s <a, c_s> s(<w, x_s> + b)`."""
        return neuron_sums.pairing(self.neurons, xs, self.inputs.astype(xs.dtype), cotangents)

    def best_output(self, cotangents: Float[Array, "S V"], radii: ByBlock, decay: ByBlock, theta: Theta) -> Theta:
        """The output `-rho g / |g|` against what it multiplies, or as long as weight decay lets it."""
        if not self.neurons.output:
            return theta
        g = (self.neurons.active(theta[None], self.inputs.astype(theta.dtype)) @ cotangents)[0]
        size = jnp.linalg.norm(g)
        wanted = (
            jnp.where(decay["output"] > 0, size / jnp.where(decay["output"] > 0, decay["output"], 1.0), jnp.inf)
            if decay
            else jnp.inf
        )
        length = jnp.minimum(radii["output"].astype(g.dtype), wanted)
        return self.neurons.fold({**self.neurons.unfold(theta), "output": -length * g / jnp.where(size > 0, size, 1.0)})

    def landscape(self, cotangents: Float[Array, "S V"], radii: ByBlock) -> AbstractLandscape | None:
        """The inputs of neurons, if they are few and lines are known around the activation."""
        names = [name for name in self.neurons.shapes if name != "output"]
        count = self.neurons.dim + self.neurons.bias
        if not radii or count > PARAMETERS or not neuron_landscape.known(self.neurons.activation):
            return None
        inputs = self.inputs.astype(cotangents.dtype)
        inputs = jnp.concatenate([inputs, jnp.ones((len(inputs), count - self.neurons.dim), inputs.dtype)], 1)
        member = np.repeat(np.eye(len(names)), [self.neurons.dim, 1][: len(names)], axis=1)
        return neuron_landscape.NeuronLandscape(
            member=jnp.asarray(member, inputs.dtype),
            radii=jnp.stack([radii[name].astype(inputs.dtype) for name in names]),
            inputs=inputs,
            cotangents=cotangents,
            size=radii["output"].astype(inputs.dtype) if self.neurons.output else jnp.ones((), inputs.dtype),
            activation=self.neurons.activation,
            signed=not self.neurons.output,
        )

    def located(self, point: Float[Array, " k"], radii: ByBlock) -> Theta:
        """The neuron with such inputs, and output zero if it has one."""
        silent = jnp.zeros(self.neurons.size - len(point), point.dtype)
        return jnp.concatenate([silent, point])

    @property
    def provable(self) -> str:
        """Few inputs and an activation with known bounds."""
        return (
            f"neurons of at most {PARAMETERS} inputs, the bias among them, with ReLU, tanh, sigmoid, softplus, sin, cos or erf "
            f"and a ball for each block; got {self.neurons.dim} inputs{' and a bias' * self.neurons.bias}"
        )

    def data(self) -> tuple[Any, Any, Any]:
        """Inputs with their targets."""
        return self.inputs, self.targets, self.shares
