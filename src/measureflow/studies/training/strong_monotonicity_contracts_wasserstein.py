"""Strong monotonicity contracts the distance to a rest point; the test for it is sufficient and far from necessary."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.energies import GradientFlow
from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import heads
from measureflow.training import Descent, Ridge, fixtures, monotonicity, rest_point

CLAIM = Claim(
    "Theorem 7.1 with Remark 7.2: if m_0>L_0, W_2 to the stationary measure decays at least like exp(-2m∫ξ); the test is "
    "sufficient only.",
    reference="heads:26",
    where="theorem 7.1, remark 7.2",
)


def drift_ratio(energy, rest: jnp.ndarray, radius: float, samples: int) -> float:
    """The least of `∫<grad Psi(x; mu), x - x*> dmu / ∫|x - x*|^2 dmu` over random measures in a ball."""

    @jax.jit
    @jax.vmap
    def ratio(key):
        mu = Particles(Euclidean(4), rest[None] + radius * jax.random.ball(key, 4, shape=(3,)))
        away = mu.points - rest[None]
        return -jnp.sum(away * GradientFlow(energy)(0.0, mu.points, mu)) / jnp.sum(away**2)

    return float(ratio(jax.random.split(jax.random.key(1), samples)).min())


def run(size: Size = SMALL) -> Verdict:
    """Score heads of F2: small features in a ball of radius one, and larger ones in a small ball."""
    weak, strong = fixtures.f2(0.1), fixtures.f2(1.0)
    rests = [rest_point(risk + Ridge(0.3), jnp.zeros(4)) for risk in (weak, strong)]
    samples = size.pick(512, 8192)
    first = monotonicity(weak + Ridge(0.3), weak, rests[0], 1.0, samples=samples)
    second = monotonicity(strong + Ridge(0.3), strong, rests[1], 0.05, samples=samples)
    start = Particles(Euclidean(4), rests[0][None] + jax.random.ball(jax.random.key(0), 4, shape=(8,)))
    times = np.linspace(0.0, 20.0, 41)
    path = evolve(Descent(weak + Ridge(0.3)), start, times, RK4(0.05))
    far = np.sqrt(np.asarray(eqx.filter_jit(path.map)(lambda m: m.expect(lambda x: jnp.sum((x - rests[0]) ** 2)))))
    rate = -np.polyfit(times[20:], np.log(far[20:]), 1)[0]
    bound = np.asarray(heads.contraction(first.m, times))
    return CLAIM.judge(
        # Extrema over samples, which go on growing by a few per cent with their number.
        equal("m_0 and L_0, scale 0.1", [0.26651, 0.02797], [first.m0, first.L0], [0.006, 0.0015]),
        at_least("m = m_0 - L_0, scale 0.1", 0.2, first.m),
        at_most("W_2 over exp(-2mt) W_2(0)", np.ones(41), far / far[0] / bound),
        equal("observed rate, scale 0.1", 0.595, rate, 0.01),
        equal("m_0 and L_0, scale 1", [0.229, 2.29], [second.m0, second.L0], [0.002, 0.06]),
        at_most("m = m_0 - L_0, scale 1: the test fails", 0.0, second.m),
        # Centred clouds feel the Hessian alone, whose least eigenvalue is 0.2329 at the rest point.
        at_least("sampled drift ratio, scale 1", 0.22, drift_ratio(strong + Ridge(0.3), rests[1], 0.05, samples)),
        data=(times, far, far[0] * bound),
    )


def draw(found: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Figure:
    """The distance to the stationary head over time, below its bound."""
    times, far, bound = found
    return curves_figure(
        [Curve("eight heads", times, far, bound)], "time t", "W₂ to the head at rest", log="y", law=r"bound $e^{-2mt}$"
    )
