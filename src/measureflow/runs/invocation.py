"""Run commands from Python, go on with what was interrupted, and run again what was run."""

from pathlib import Path
from typing import Any

from measureflow.runs.command import command
from measureflow.runs.executor import Watch, perform
from measureflow.runs.reader import Run
from measureflow.runs.reader import open as open_run
from measureflow.runs.replacement import settled
from measureflow.runs.session import warn_of_float32
from measureflow.runs.trust import use_words_of
from measureflow.words.settings import InputError


def run(name: str, watch: Watch = lambda *_: None, **words: Any) -> Run:
    """Run a command with its options as words: `run("simulate", n=64, beta=4.0)` or `run("train heads", heads=16)`."""
    return run_settings(name, command(name).settings(words), watch)


def run_settings(name: str, settings: Any, watch: Watch = lambda *_: None) -> Run:
    """Run a command with settings that were read before."""
    warn_of_float32()
    job = command(name).job(settings)
    if getattr(settings, "coordinator", None) is not None:
        from measureflow.runs.processes import shared

        job = shared(job)
    return perform(job, settings.out, force=settings.force, watch=watch)


def resume(path: str | Path, watch: Watch = lambda *_: None, *, trust: bool = False) -> Run:
    """Go on with an interrupted run of a command, to the same bits; a finished one stays as it is.

    A file of words (`use`) that the run names is executed if you have run it before, or if you `trust` it.
    """
    found = open_run(path)
    if found.finished:
        return Run(settled(found.path, found.info))
    use_words_of(found, trust)
    return perform(found.command.job(found.config), path, resume=True, watch=watch)


def rerun(path: str | Path, out: str | None = None, watch: Watch = lambda *_: None, *, trust: bool = False) -> Run:
    """Run again, in a new folder, what was asked for in another; its file of words (`use`) is executed as by `resume`."""
    found = open_run(path)
    if out is not None and Path(out).resolve() == Path(path).resolve():
        raise InputError("`out` is the folder of the run itself; choose another.")
    use_words_of(found, trust)
    return perform(found.command.job(found.config), out, watch=watch)
