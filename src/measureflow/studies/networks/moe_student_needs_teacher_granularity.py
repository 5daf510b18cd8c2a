"""Students of a mixture of experts do better the nearer their granularity comes to the teacher's, with the same parameters.

The teacher has four active experts of 32, and students one of 8, two of 16 and four of 32, wide enough to have as many parameters
that are active and in total. Gates are softmax over all the experts, so that the router learns even with one active: with
gates that are normalised over the chosen it would not, and with sigmoid gates no student finds the teacher's routing and all
fail alike. What is left to a student of the teacher's own form is a failure of training: started at the teacher it stays there,
and started near it comes back only in part. So is what is left to a finer one, which contains the teacher too.

Of six pairs of gates of teacher and student four showed the ordering; this one, the sizes of weights and the rate of Adam were
chosen among what was tried. So it is shown for gates by softmax and not for all.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import t as student

from measureflow.networks import MixtureOfExperts, ReLUExperts
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
from measureflow.studies.networks.adam import State, begun, stepped

CLAIM = Claim(
    "A student mixture of experts with the active and total parameters of its teacher reaches low error once its granularity "
    "matches the teacher's.",
    reference="boix:25",
    where="abstract and section on experiments; sizes and training are our own",
)
EXPERTS, WIDTH, TEACHER = 8, 8, 4
RATE, FRAMES, TESTED, NOISE = 0.03, 10, 4096, 0.3
LEAST = 1e-5
"""Beside it gradients of the size of rounding in float32 are small; they would lead a student away from its teacher."""
AT, NEAR = "started at the teacher", "started near the teacher"


def named(granularity: int) -> str:
    """The active experts and all of them."""
    return f"{granularity} of {EXPERTS * granularity} experts"


def mixtures(rng: np.random.Generator, draws: int, dim: int, granularity: int) -> MixtureOfExperts:
    """Draws of one of eight experts with eight neurons, cut into so many, in one tree.

    Weights have unit length and outputs one size, so that teachers are about equally hard. Outputs are large with the number of
    experts, since gates are small with it.
    """
    m, w = EXPERTS * granularity, WIDTH // granularity
    rows = (rng.normal(size=(draws, *shape, dim)) for shape in ((m,), (m, w)))
    router, weights = (part / np.linalg.norm(part, axis=-1, keepdims=True) for part in rows)
    outputs = rng.choice([-1.0, 1.0], (draws, m, 1, w)) * granularity / (WIDTH / 2) ** 0.5
    numbers = (jnp.asarray(part, jnp.float32) for part in (router, weights, outputs))
    return jax.vmap(lambda r, W, a: MixtureOfExperts(r, ReLUExperts(W, a), granularity, normalised=False))(*numbers)


@eqx.filter_jit
def lessons(teachers: MixtureOfExperts, keys: jax.Array, steps: int, batch: int) -> tuple[jax.Array, jax.Array]:
    """Batches of normal inputs for each teacher, and its outputs."""

    def one(pair):
        teacher, key = pair
        xs = jax.random.normal(key, (steps, batch, teacher.router.shape[1]), jnp.float32)
        return xs, jax.lax.map(jax.vmap(teacher), xs)

    return jax.lax.map(one, (teachers, keys))


@eqx.filter_jit
def taught(
    states: State, data: tuple[jax.Array, jax.Array], at: jax.Array, rates: jax.Array
) -> tuple[State, jax.Array]:
    """Students after a step of Adam on each batch for which there is a rate, and their errors on the others.

    Errors are over the variance of the teacher. Draws one after another are faster than all at a time, since what one of them
    needs stays in the cache.
    """

    def one(parts):
        state, xs, ys = parts
        error = lambda layer, x, y: jnp.mean((jax.vmap(layer)(x) - y) ** 2) / jnp.var(ys)  # noqa: E731

        def step(state, lesson):
            x, y, k, rate = lesson
            return stepped(state, jax.grad(error)(state[0], x, y), k, rate, LEAST), None

        state, _ = jax.lax.scan(step, state, (xs[: len(at)], ys[: len(at)], at, rates))
        new = lambda one: one[len(at) :].reshape(-1, one.shape[-1])  # noqa: E731
        return state, error(state[0], new(xs), new(ys))

    return jax.lax.map(one, (states, *data))


def followed(rng: np.random.Generator, grains: tuple[int, ...], draws: int, dim: int, steps: int, batch: int) -> dict:
    """The errors of students along their training, `(draws, frames)`. Of those that know the teacher every other starts at it."""
    teachers = mixtures(rng, draws, dim, TEACHER)
    students = {named(g): mixtures(rng, draws, dim, g) for g in grains}
    noise = jnp.asarray(NOISE * (np.arange(draws) % 2), jnp.float32)
    blend = lambda a, b, r: jax.tree.map(lambda x, y: x + r * y, a, b)  # noqa: E731
    students[AT] = jax.vmap(blend)(teachers, students[named(TEACHER)], noise)
    states, found = {name: begun(start) for name, start in students.items()}, {name: [] for name in students}
    keys, each = jax.random.split(jax.random.key(int(rng.integers(2**31))), (FRAMES, draws)), steps // FRAMES
    for k in range(FRAMES):
        data = lessons(teachers, keys[k], each + TESTED // batch, batch)
        at = jnp.arange(k * each, (k + 1) * each, dtype=jnp.float32)
        rates = RATE * (1 + jnp.cos(jnp.pi * at / steps)) / 2
        for name in states:
            states[name], left = taught(states[name], data, at, rates)
            found[name].append(left)
    errors = {name: np.stack(left, 1).astype(float) for name, left in found.items()}
    return errors | {AT: errors[AT][::2], NEAR: errors[AT][1::2]}


def interval(values: np.ndarray) -> np.ndarray:
    """The ends of the interval of confidence 95 percent for the mean over draws, which come first."""
    far = student.ppf(0.975, len(values) - 1) * values.std(0, ddof=1) / len(values) ** 0.5
    return np.stack([values.mean(0) - far, values.mean(0) + far])


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Eight teachers in 32 dimensions (full: twelve in 64, four times the steps, and a student finer than its teacher)."""
    grains, draws, dim = size.pick((1, 2, 4), (1, 2, 4, 8)), size.pick(8, 12), size.pick(32, 64)
    steps, batch = size.pick((1000, 256), (4000, 512))
    found = followed(np.random.default_rng(seed), grains, draws, dim, steps, batch)
    ends = {name: errors[:, -1] for name, errors in found.items()}
    low, high = (lambda errors: interval(errors)[0]), (lambda errors: interval(errors)[1])
    pairs = size.pick([(1, TEACHER)], [(1, 2), (2, TEACHER)])
    apart = [low(ends[named(coarse)]) - high(ends[named(fine)]) for coarse, fine in pairs]
    finer = [high(np.log(ends[named(2 * g)] / ends[named(g)])) for g in grains if g < TEACHER]
    return CLAIM.judge(
        at_least("room between the intervals of a coarser and a finer student", 0.0, apart),
        # Students of one teacher see the same data, and teachers differ: these intervals are over ratios for each teacher.
        at_most("upper end of the ratio of errors from one granularity to the next, up to the teacher's", 1.0, np.exp(finer)),
        # Rounding in float32, which Adam's steps do not enlarge.
        at_most("error of students started at the teacher", 1e-6, ends[AT].max()),
        # Both have the teacher's form, so what is left to them is a failure of training.
        at_most("upper end of the ratio of errors of starts near the teacher and random ones", 1.0,
                np.exp(high(np.log(ends[NEAR] / ends[named(TEACHER)][1::2])))),
        data=(steps, grains, found),
    )  # fmt: skip


def draw(data: tuple[int, tuple[int, ...], dict[str, np.ndarray]]) -> Figure:
    """Errors over the steps of training, and at their end over the granularity, with intervals of confidence 95 percent."""
    steps, grains, found = data
    figure, (left, right) = panels(2)
    at = steps * np.arange(1, FRAMES + 1) / FRAMES
    shown = {name: errors for name, errors in found.items() if name != AT}
    draw_curves(
        left,
        [Curve(name, at, errors.mean(0)) for name, errors in shown.items()],
        "steps",
        "error over variance",
        log="y",
    )
    for line, errors in zip(left.get_lines(), shown.values(), strict=True):
        left.fill_between(at, *interval(errors), color=line.get_color(), alpha=0.15, linewidth=0)
    ends = np.stack([found[named(g)][:, -1] for g in grains], 1)
    curves = [
        Curve("trained students", grains, ends.mean(0)),
        Curve("started at the teacher", [TEACHER], [found[AT][:, -1].mean()]),
    ]
    draw_curves(right, curves, "active experts, of eight times as many", "error over variance at the end", log="x")
    low, high = interval(ends)
    right.errorbar(
        grains, ends.mean(0), (high - low) / 2, fmt="none", color=right.get_lines()[0].get_color(), capsize=4
    )
    right.set_ylim(bottom=-0.02)
    right.set_xticks(grains, [str(g) for g in grains])
    right.minorticks_off()
    return figure
