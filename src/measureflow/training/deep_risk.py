"""Several layers of heads with residual connections: one measure of heads for each depth.

Hidden states obey `h_{l+1} = h_l + step ∫ A h_l U dmu_l`, the explicit Euler method of a flow in depth, and the logits are
`h_L W_E`. A particle holds one head for each layer, one after the other, so that the marginals of one measure are the
measures of the layers. The first variation is a sum over layers, `Psi_l(theta) = E <p_{l+1}, A h_l U>`, with the adjoint `p`
that ends in the softmax residual pulled back by the readout.
"""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from measureflow import checks
from measureflow.flows import precision
from measureflow.measures import AbstractMeasure
from measureflow.spaces import Euclidean
from measureflow.training.families import Stacked
from measureflow.training.head_risk import HeadRisk
from measureflow.training.risk import AbstractObjective, Baselines


@final
class DeepHeadRisk(AbstractObjective):
    """The cross-entropy of `depth` residual layers of heads, on the data of a `HeadRisk`."""

    risk: HeadRisk
    depth: int = eqx.field(static=True)
    step: Float[Array, ""] = eqx.field(converter=checks.floating)

    def __init__(self, risk: HeadRisk, depth: int, step: float | None = None):
        if depth < 1:
            raise ValueError(f"`depth` must be at least 1; got {depth}.")
        self.risk, self.depth = risk, depth
        self.step = checks.floating(1 / depth if step is None else step)

    @property
    def family(self) -> Stacked:
        """A head for each layer."""
        return Stacked(self.risk.heads, self.depth)

    @property
    def space(self) -> Euclidean:
        """Where a head of every layer lives."""
        return self.family.space

    @property
    def quality(self) -> str:
        """That of the loss."""
        return self.risk.quality

    def judged(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """The share of positions whose next token is guessed right."""
        return self.risk.judged_by(self._logits(self.states(mu)[-1]))

    def baselines(self) -> Baselines:
        """Those of the data."""
        return self.risk.baselines()

    def draw(self, key: PRNGKeyArray, size: int) -> "DeepHeadRisk":
        """The risk of random sequences."""
        return eqx.tree_at(lambda deep: deep.risk, self, self.risk.draw(key, size))

    def __call__(self, mu: AbstractMeasure) -> Float[Array, ""]:
        """The cross-entropy of the readout of the last states."""
        return self._loss(self.states(mu)[-1])

    def variation(self, mu: AbstractMeasure, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The sum over layers of what a head there adds along the adjoint."""
        states, slopes = self.states(mu)[:-1], self.step.astype(xs.dtype) * self.adjoints(mu)[1:]

        def one(theta):
            each = theta.reshape(self.depth, -1)
            return jnp.vdot(jax.vmap(self._mix)(each, states), slopes)

        return jax.vmap(one)(xs)

    def states(self, mu: AbstractMeasure, push: Float[Array, "L S T d"] | None = None) -> Float[Array, "depth S T d"]:
        """The hidden states before each layer and after the last; `push` is added to what the heads of a layer give."""
        dtype = precision(mu)
        h = self.risk.tokens.astype(dtype)
        push = jnp.zeros((self.depth, *h.shape), dtype) if push is None else push

        def layer(h, now):
            k, extra = now
            moved = mu.integrate(jax.vmap(lambda theta: self._mix(theta.reshape(self.depth, -1)[k], h)))
            h = h + self.step.astype(dtype) * (moved + extra)
            return h, h

        _, rest = jax.lax.scan(layer, h, (jnp.arange(self.depth), push))
        return jnp.concatenate([h[None], rest])

    def adjoints(self, mu: AbstractMeasure) -> Float[Array, "depth S T d"]:
        """How the risk answers to the states before each layer and after the last."""
        h = self.risk.tokens.astype(precision(mu))
        nothing = jnp.zeros((self.depth, *h.shape), h.dtype)
        # Pushing the output of layer l by e moves the state after it by step e.
        later = jax.grad(lambda push: self._loss(self.states(mu, push)[-1]))(nothing) / self.step.astype(h.dtype)
        first = jax.grad(lambda h0: self._loss(self._from(h0, mu)))(h)
        return jnp.concatenate([first[None], later])

    def _from(self, h, mu):
        moved = eqx.tree_at(lambda s: s.risk.tokens, self, h)
        return moved.states(mu)[-1]

    def _loss(self, h: Float[Array, "S T d"]) -> Float[Array, ""]:
        return self.risk.loss(self._logits(h))

    def _logits(self, h: Float[Array, "S T d"]) -> Float[Array, "S T V"]:
        return h @ self.risk.unembedding.astype(h.dtype)

    def _mix(self, theta: Float[Array, " D"], h: Float[Array, "S T d"]) -> Float[Array, "S T d"]:
        return jax.vmap(lambda x: self.risk.heads.mix(theta, x))(h)
