"""Flows of one's own in run folders: `record` streams any flow to disk, and goes on with it after an interruption."""

from collections.abc import Iterable
from pathlib import Path

import equinox as eqx

from measureflow.diagnostics import extent
from measureflow.energies import AbstractEnergy
from measureflow.flows import AbstractFlow
from measureflow.flows.leg import Keeping
from measureflow.measures import AbstractCloud, AbstractMeasure
from measureflow.runs.executor import Watch, perform
from measureflow.runs.job import Job
from measureflow.runs.reader import Run
from measureflow.words.measures.base import ENERGY, AbstractMeasureWord, Look, load_kind
from measureflow.words.series import Series
from measureflow.words.settings import InputError
from measureflow.words.vocabulary import MEASURES, SERIES


def record(
    flow: AbstractFlow,
    path: str | Path,
    resume: bool = False,
    *,
    series: Iterable[Series] = (),
    title: str = "",
    frames_per_leg: int = 8,
    verify: bool = True,
    force: bool = False,
    watch: Watch = lambda *_: None,
) -> Run:
    """Run a flow into a folder, leg by leg in bounded memory, and return the run.

    A flow that observes stores what it observed, `run.observed`, and no frames unless it keeps them too.

    With `resume` an interrupted recording goes on to the same bits; a folder of another flow is refused, and one that is not
    there yet is begun. `series` are watched beside those that suit the measure.
    """
    job = job_for(flow, series, title, frames_per_leg, verify)
    return perform(job, path, force=force, resume=resume and (Path(path) / "run.json").is_file(), watch=watch)


def job_for(
    flow: AbstractFlow,
    series: Iterable[Series] = (),
    title: str = "",
    frames_per_leg: int = 8,
    verify: bool = True,
) -> Job:
    """The job of a flow: what suits its measure is watched, and `series` beside."""
    if flow.keeping.events is not None:
        raise InputError(
            "`events` are not recorded: take them from `evolve` or `flow.run()`, and record the flow without them."
        )
    keep, flow = flow.keeping.frames, _with_frames(flow)
    word_name, word = word_of(flow.start)
    look = look_at(flow.start)
    watched = (*word.series(look), *SERIES.values(), *series)
    return Job(
        flow=flow,
        word=word,
        word_name=word_name,
        series=tuple(one for one in watched if one.where(flow.start)),
        title=title or flow.start.described,
        frames_per_leg=frames_per_leg,
        verify=verify,
        look=look,
        keep=keep,
    )


def _with_frames(flow: AbstractFlow) -> AbstractFlow:
    """The flow with frames for the series to look at; those of one leg at a time are in memory."""
    if flow.keeping.frames:
        return flow
    keeping = Keeping(observe=flow.keeping.observe)
    return eqx.tree_at(lambda f: f.keeping, flow, keeping, is_leaf=lambda node: isinstance(node, Keeping))


def look_at(start: AbstractMeasure, energy: AbstractEnergy | None = None) -> Look:
    """How measures are looked at of which only the first is known, and an energy if one is given."""
    label = ENERGY if energy is None else energy.label
    return Look(energy, label, extent=extent(start) if isinstance(start, AbstractCloud) else 0.0)


def word_of(mu: AbstractMeasure) -> tuple[str, AbstractMeasureWord]:
    """The word for a measure, by its class."""
    for name, word in MEASURES.items():
        if load_kind(word) is type(mu):
            return name, word
    raise InputError(
        f"There is no word for {type(mu).__name__}, so a run cannot store it: add one with "
        "`mf.words.vocabulary.MEASURES.add(name, word)`."
    )
