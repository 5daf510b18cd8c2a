"""A simulation as a job: from a configuration to a flow and what is watched along it."""

import jax
import jax.numpy as jnp
import numpy as np

from measureflow import checks, sums
from measureflow.commands.simulate.display import look_of
from measureflow.commands.simulate.settings import Simulation
from measureflow.fields import MomentClosure, SinkhornAttention
from measureflow.flows import AbstractFlow, Flow, Layers
from measureflow.measures import AbstractCloud, AbstractMeasure
from measureflow.runs.job import ExtraArrays, Job, Progress
from measureflow.runs.session import in_float64
from measureflow.words import memory
from measureflow.words.fields import field_of
from measureflow.words.measures.base import Look
from measureflow.words.series import Series
from measureflow.words.settings import InputError
from measureflow.words.table import load
from measureflow.words.vocabulary import MEASURES, NOISES, SERIES, SOLVERS, WATCHES


class SimulationJob(Job):
    """A simulation; under Sinkhorn attention it also says how far the kernel is from doubly stochastic."""

    def finish(self, state: Progress) -> ExtraArrays:
        """Nothing is stored beside; the marginal error is one of the stats."""
        if isinstance(self.flow.field, SinkhornAttention) and state.ok:
            state.stats["marginal_error"] = float(self.flow.field.potentials(state.mu).error)
        return {}


def job_of(config: Simulation) -> SimulationJob:
    """The job that a configuration describes; what is wrong with it is said before anything is written."""
    memory.check(config)
    try:
        flow, look = parts_of(config)
    except InputError:
        raise
    except (ValueError, TypeError) as error:
        hint = " `--closure` does that." if "MomentClosure" in str(error) else ""
        raise InputError(f"{error}{hint}") from None
    return SimulationJob(
        flow=flow,
        word=MEASURES.choose(config),
        word_name=config.measure,
        series=series_of(config, look, flow.start),
        title=_title(config, flow.start),
        frames_per_leg=config.frames_per_leg,
        command="simulate",
        settings=config,
        seed=config.seed,
        verify=config.verify,
        look=look,
    )


def parts_of(config: Simulation) -> tuple[AbstractFlow, Look]:
    """The flow of a configuration and how it is looked at; numbers of the configuration may be traced."""
    start = in_float64(lambda: MEASURES.choose(config).start(config))
    _check_directions(config, start)
    field, look = in_float64(lambda: field_of(config, start.space.dim)), look_of(config, start)
    return _flow(config, MomentClosure(field) if config.closure else field, start), look


def series_of(config: Simulation, look: Look, start: AbstractMeasure) -> tuple[Series, ...]:
    """What is watched along a simulation: what suits its measure, what every run watches, and what was asked for."""
    watched = (
        *MEASURES.choose(config).series(look),
        *SERIES.values(),
        *(load(WATCHES[name].make)() for name in config.series),
    )
    return tuple(one for one in watched if one.where(start))


def _check_directions(config: Simulation, start: AbstractMeasure) -> None:
    """Refuse tokens at the origin, where a norm has no direction to keep."""
    if config.norm != "none" and isinstance(start, AbstractCloud) and checks.concrete(start):
        zero = np.flatnonzero(~np.asarray(start.points).any(axis=1))
        if len(zero):
            raise InputError(f"`norm` {config.norm} needs directions, and token {zero[0]} is zero, which has none.")


def _flow(config: Simulation, field, start: AbstractMeasure) -> AbstractFlow:
    if config.layers:
        return Layers(field, start, config.layers, config.time / config.layers)
    times = jnp.linspace(0.0, config.time, config.frame_count)
    noise = None if config.noise is None else NOISES.choose(config).build(config, config.noise)
    key = jax.random.fold_in(jax.random.key(config.seed), 2 * 10**6)
    engine = None if config.engine == "auto" else sums.engine(config.engine)
    return Flow(
        field,
        start,
        times,
        SOLVERS.choose(config).build(config),
        noise=noise,
        merge=config.merge,
        follow=config.follow and "follow" in MEASURES.choose(config).brings,
        key=key,
        engine=engine,
    )


def _mover(config: Simulation) -> str:
    if config.energy != "none":
        return f"descending the {config.energy} energy"
    return f"{'causal ' if config.mask == 'causal' else ''}{config.attention} attention"


def _title(config: Simulation, start: AbstractMeasure) -> str:
    parts = [
        start.described,
        _mover(config),
        f"β = {config.beta:g}" if config.matrices is None else f"matrices of {config.matrices}",
        *([f"{config.heads} heads"] if config.heads > 1 else []),
        *([f"{config.norm} norm (directions)"] if config.norm != "none" else []),
        *([f"{config.weights} weights"] if config.weights != "identity" else []),
        *([f"{config.schedule} weights"] if config.schedule != "constant" else []),
        *([f"{config.frame} by exp(-tV)"] if config.frame != "fixed" else []),
        *([f"MLP of {config.mlp}"] if config.mlp else []),
        *([f"temperature {config.noise:g}"] if config.noise is not None else []),
        *(["moment closure"] if config.closure else []),
        *([f"{config.layers} layers"] if config.layers else []),
    ]
    return ", ".join(parts)
