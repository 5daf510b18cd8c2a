"""Where a run starts: one word, one law, whether it is drawn as tokens or moved as the limit of infinitely many.

With the same word and seed, tokens are a sample of the law that the limit starts from. A law draws tokens on any space it
knows; on the circle and the usual sphere it also has a density, and in flat space it may be a mixture of Gaussians.
"""

import abc
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PRNGKeyArray

from measureflow.measures import CircleDensity, Particles, SphereDensity
from measureflow.measures.sphere import globe
from measureflow.spaces import AbstractSpace, Sphere
from measureflow.words.files import numbers_in
from measureflow.words.settings import InputError, Settings
from measureflow.words.table import load
from measureflow.words.vocabulary import LAWS, SPACES

BLOBS = 5
"""The number of blobs of the law `clusters`."""
SPREAD = 0.2
"""The standard deviation of a blob of the law `clusters` and, on a sphere, of the law `gaussian`."""
WAVES = 8
"""The highest degree of the law `ripples`."""
RIPPLE = 0.5
"""How far the density of the law `ripples` is from uniform at most, relatively."""
TILT = 0.5
"""How much denser the law `tilted` is at the pole than at the equator, relatively."""
OVERLAP = 0.5
"""The overlap of every two tokens of the law `equiangular`."""
FINE = {2: 64, 3: 24}
"""Modes from which tokens of the law `ripples` are drawn: more than its degree needs, for cells that are small."""


class AbstractLaw(abc.ABC):
    """A law from which tokens are drawn with a key."""

    @abc.abstractmethod
    def points(self, space: AbstractSpace, n: int, key: PRNGKeyArray) -> Float[Array, "n d"]:
        """Independent tokens, near the space if not on it."""

    def height(self, xs: Float[Array, "m d"], key: PRNGKeyArray) -> Float[Array, " m"]:
        """The density at points of the circle or usual sphere, with respect to length or area."""
        raise ValueError(f"{type(self).__name__} has no density; draw tokens from it.")


@final
class Uniform(AbstractLaw):
    """The reference law of a space that has a bounded one; in flat space a cube."""

    def points(self, space: AbstractSpace, n: int, key: PRNGKeyArray) -> Float[Array, "n d"]:
        """Uniform tokens."""
        if space.linear:
            return jax.random.uniform(key, (n, space.dim), minval=-1.0, maxval=1.0)
        return Particles.iid(space, n, key=key).points

    def height(self, xs: Float[Array, "m d"], key: PRNGKeyArray) -> Float[Array, " m"]:
        """One over the length or area."""
        return jnp.full(len(xs), even(xs.shape[1]))


@final
class Normal(AbstractLaw):
    """A standard normal; on a sphere the directions of one blob around the last axis."""

    def points(self, space: AbstractSpace, n: int, key: PRNGKeyArray) -> Float[Array, "n d"]:
        """Normal tokens."""
        noise = jax.random.normal(key, (n, space.dim))
        return jnp.eye(space.dim)[-1:] + SPREAD * noise if space.spherical else noise

    def height(self, xs: Float[Array, "m d"], key: PRNGKeyArray) -> Float[Array, " m"]:
        """The density of the blob."""
        return blob(xs, jnp.eye(xs.shape[1])[-1])


@final
class Blobs(AbstractLaw):
    """Equal blobs `N(c, s² I)` around centres drawn from the reference law; on a sphere the directions of that."""

    def points(self, space: AbstractSpace, n: int, key: PRNGKeyArray) -> Float[Array, "n d"]:
        """Tokens of random blobs."""
        _, blob_key, noise_key = jax.random.split(key, 3)
        blobs = jax.random.randint(blob_key, (n,), 0, BLOBS)
        return self.centres(space, key)[blobs] + SPREAD * jax.random.normal(noise_key, (n, space.dim))

    def height(self, xs: Float[Array, "m d"], key: PRNGKeyArray) -> Float[Array, " m"]:
        """The mean of the densities of the blobs."""
        return jax.vmap(lambda c: blob(xs, c))(self.centres(Sphere(xs.shape[1]), key)).mean(0)

    def centres(self, space: AbstractSpace, key: PRNGKeyArray) -> Float[Array, "k d"]:
        """The middles of the blobs."""
        return Particles.iid(space, BLOBS, key=jax.random.split(key, 3)[0]).points


@final
class Ripples(AbstractLaw):
    """Nearly uniform on the circle or the usual sphere, with a wave of each low degree along a drawn axis."""

    def points(self, space: AbstractSpace, n: int, key: PRNGKeyArray) -> Float[Array, "n d"]:
        """Tokens drawn from the density."""
        return density(self, space.dim, FINE[space.dim], key).sample(n, key=jax.random.fold_in(key, 1)).points

    def height(self, xs: Float[Array, "m d"], key: PRNGKeyArray) -> Float[Array, " m"]:
        """The uniform density and the mean of the waves."""
        return even(xs.shape[1]) * (1 + RIPPLE * _waves(xs, jax.random.fold_in(key, 2)))


@final
class Tilted(AbstractLaw):
    """The density `1 + z/2` with respect to the uniform law of a sphere, with `z` the first coordinate."""

    def points(self, space: AbstractSpace, n: int, key: PRNGKeyArray) -> Float[Array, "n d"]:
        """Uniform tokens, turned over so that heights have the right odds to be positive."""
        drawn = Particles.iid(space, n, key=key).points
        z = jnp.abs(drawn[:, 0])
        up = jax.random.uniform(jax.random.fold_in(key, 1), (n,)) < (1 + TILT * z) / 2
        return drawn.at[:, 0].set(jnp.where(up, z, -z))

    def height(self, xs: Float[Array, "m d"], key: PRNGKeyArray) -> Float[Array, " m"]:
        """One plus half the first coordinate, over the length or area."""
        return even(xs.shape[1]) * self.over_uniform(xs[:, 0])

    def over_uniform(self, z: Float[Array, " m"]) -> Float[Array, " m"]:
        """The density at heights with respect to the uniform law."""
        return 1 + TILT * z


@final
class Equiangular(AbstractLaw):
    """Unit vectors of which every two have the overlap rho: nothing is drawn, and each needs a coordinate of its own."""

    def points(self, space: AbstractSpace, n: int, key: PRNGKeyArray) -> Float[Array, "n d"]:
        """The rows `a e_i + b (e_1 + ... + e_n)` with `a^2 = 1 - rho` and `2 a b + n b^2 = rho`."""
        a = (1 - OVERLAP) ** 0.5
        b = ((1 - OVERLAP + n * OVERLAP) ** 0.5 - a) / n
        return jnp.pad(a * jnp.eye(n) + b, ((0, 0), (0, space.dim - n)))


def law_of(config: Settings) -> AbstractLaw:
    """The law that a configuration names."""
    return LAWS[config.init].build(config)


def key_of(config: Settings) -> PRNGKeyArray:
    """The key of the start."""
    return jax.random.key(config.seed)


def space_of(config: Settings) -> AbstractSpace:
    """The space that a configuration names."""
    word = SPACES.choose(config)
    return word.build(config) if "own size" in word.traits else word.build(config, config.dim)


def product(factors: str) -> AbstractSpace:
    """The product of spaces in words, such as `"sphere:2 ball:3:1.5"`."""
    from measureflow.spaces import Product

    return Product(*(_factor(word, *numbers) for word, *numbers in (part.split(":") for part in factors.split())))


def _factor(word: str, *numbers: str) -> AbstractSpace:
    if word not in SPACES or "own size" in SPACES[word].traits or not 1 <= len(numbers) <= 1 + len(SPACES[word].brings):
        raise InputError(
            f"`factors` names spaces with their dim, such as 'sphere:2 ball:3:1.5'; got {':'.join((word, *numbers))!r}."
        )
    try:
        return load(SPACES[word].make)(int(numbers[0]), *map(float, numbers[1:]))
    except ValueError as error:
        raise InputError(f"`factors`: {error}") from None


def density(law: AbstractLaw, dim: int, modes: int, key: PRNGKeyArray) -> Any:
    """The density of a law with a number of moments on the circle, or up to a degree on the usual sphere."""
    values = law.height(jnp.asarray(_nodes(dim, modes), float), key)
    try:
        return SphereDensity(values, modes) if dim == 3 else CircleDensity(values)
    except ValueError:
        raise InputError(f"`modes` {modes} are too few for this `init`: take more.") from None


def tokens(config: Settings, *names: str) -> dict[str, Any]:
    """The space of a configuration, and tokens drawn from its law or read from its file.

    `names` are what a file may hold, of which only `points` must be there; what it does not hold is None.
    """
    space = space_of(config)
    if not config.from_file:
        drawn = law_of(config).points(space, config.n, key_of(config))
        return dict.fromkeys(names) | {"space": space, "points": jax.vmap(space.project)(drawn)}
    held: dict[str, Any] = _tokens_in(config, names)
    if "own size" not in SPACES.choose(config).traits and "dim" not in config.model_fields_set:
        space = SPACES.choose(config).build(config, held["points"].shape[1])
    if config.project:
        held["points"] = jax.vmap(space.project)(jnp.asarray(held["points"]))
    return dict.fromkeys(names) | held | {"space": _holding(space, held["points"], config)}


def named(config: Settings, *names: str) -> dict[str, np.ndarray]:
    """The arrays of the file of the start, if they are those that a limit needs."""
    held = numbers_in(config.init, "init")
    words = " and ".join(f"`{name}`" for name in names)
    if not isinstance(held, dict):
        raise InputError(f"`init`: {config.init!r} must be an npz file with {words} for `measure` {config.measure}.")
    if set(held) != set(names):
        raise InputError(f"`init`: {config.init!r} must hold {words}; it holds {sorted(held)}.")
    return held


def _tokens_in(config: Settings, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    held = numbers_in(config.init, "init")
    held = held if isinstance(held, dict) else {"points": held}
    if "points" not in held or set(held) - set(names):
        optional = " and ".join(f"`{name}`" for name in names[1:])
        raise InputError(
            f"`init`: {config.init!r} must hold `points` and optionally {optional}; it holds {sorted(held)}."
        )
    points = held["points"]
    if points.ndim != 2:
        raise InputError(f"`init`: {config.init!r} must hold tokens as rows; its array has shape {points.shape}.")
    for name, got in zip(("n", "dim"), points.shape, strict=True):
        if name in config.model_fields_set and getattr(config, name) != got:
            raise InputError(
                f"`{name}` is {getattr(config, name)} but {config.init!r} has shape {points.shape}; drop `{name}`."
            )
    return held


def _holding(space: AbstractSpace, points: Any, config: Settings) -> AbstractSpace:
    """The space, if the tokens of a file are in it."""
    try:
        Particles(space, points)
    except ValueError as error:
        hint = "" if config.project else " `--project` puts them there."
        raise InputError(f"`init`: {config.init!r}: {error}{hint}") from None
    return space


def even(dim: int) -> float:
    """The uniform density on the circle or usual sphere."""
    return 1 / (2 * np.pi * (dim - 1))


def _nodes(dim: int, modes: int) -> np.ndarray:
    if dim == 3:
        return globe(modes).nodes
    angles = 2 * np.pi * np.arange(2 * modes + 1) / (2 * modes + 1)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _waves(xs: Float[Array, "m d"], key: PRNGKeyArray) -> Float[Array, " m"]:
    """The mean of one wave of each degree along its own axis, a Chebyshev or Legendre polynomial: between -1 and 1."""
    dim = xs.shape[1]
    t = xs @ Particles.iid(Sphere(dim), WAVES, key=key).points.T
    before, now = jnp.ones_like(t), t
    waves = []
    for k in range(1, WAVES + 1):
        waves.append(now[:, k - 1])
        up = (2 * t * now - before) if dim == 2 else ((2 * k + 1) * t * now - k * before) / (k + 1)
        before, now = now, up
    return jnp.stack(waves).mean(0)


def blob(xs: Float[Array, "m d"], centre: Float[Array, " d"]) -> Float[Array, " m"]:
    """The density of the direction of `N(c, s² I)` with a unit centre, on the circle or the usual sphere.

    With `b = <x, c>/s` it is `(2π)^{-d/2} e^{-1/2s²} ∫ u^{d-1} e^{bu - u²/2} du`; the integral is `1 + bM` on the circle and
    `b + (1 + b²) M` on the sphere, with `M = Φ(b)/φ(b)` the integral of the exponential.
    """
    d = len(centre)
    b, bottom = xs @ centre / SPREAD, jnp.exp(-0.5 / SPREAD**2)
    M = norm.cdf(b) * jnp.sqrt(2 * jnp.pi) * jnp.exp((b**2 - SPREAD**-2) / 2)  # times e^{-1/2s²}, so that it is small
    integral = bottom + b * M if d == 2 else b * bottom + (1 + b**2) * M
    return integral / (2 * jnp.pi) ** (d / 2)
