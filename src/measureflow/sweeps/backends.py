"""Who computes the cells of a sweep: this process, several, a dask cluster, or SLURM.

A backend is given work and its chunks, and gives back each chunk with its rows as they come. It takes chunks as it has room for
them, so that a sweep of any length is never in memory as a whole, and does again what a worker that died had taken along. Workers
have their share of the cores each. Nothing is imported before it is used; all but the first need the extra `cluster`.
"""

import abc
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any, final

import jax

from measureflow.runs.cores import cores, environment
from measureflow.runs.session import adopt, session
from measureflow.sweeps.cells import AbstractWork, Chunk
from measureflow.sweeps.row import Row
from measureflow.words.settings import InputError

Done = tuple[Chunk, list[Row]]

TRIES = 3
"""How often a chunk is begun whose worker died, before its cells are called failed."""
PATIENCE = 10.0
"""Seconds after which a scheduler that does not answer is given up."""


class AbstractBackend(abc.ABC):
    """A way to compute chunks."""

    workers: int
    """How many compute at once."""

    @abc.abstractmethod
    def rows(self, work: AbstractWork, chunks: Iterator[Chunk]) -> Iterator[Done]:
        """The chunks with their rows, as they come."""

    def close(self) -> None:  # noqa: B027
        """Let go of what the backend holds, if anything."""


class AbstractPool(AbstractBackend):
    """Workers that are given chunks and answer later."""

    @abc.abstractmethod
    def submit(self, work: AbstractWork, chunk: Chunk) -> Any:
        """Begin a chunk: an object that stands for its answer."""

    @abc.abstractmethod
    def first(self, pending: list[Any]) -> list[Any]:
        """Those that have answered, at least one."""

    @abc.abstractmethod
    def answer(self, future: Any) -> list[Row]:
        """The rows; raises `LostError` if the worker died."""

    def rows(self, work: AbstractWork, chunks: Iterator[Chunk]) -> Iterator[Done]:
        """Keep every worker busy with one chunk and one in store; a chunk whose worker died is begun again."""
        pending: dict[Any, tuple[Chunk, int]] = {}
        waiting: list[tuple[Chunk, int]] = []
        ended = False
        while True:
            while len(pending) < 2 * self.workers and not (ended and not waiting):
                chunk, tries = waiting.pop() if waiting else (next(chunks, None), 1)
                if chunk is None:
                    ended = True
                    break
                pending[self.submit(work, chunk)] = chunk, tries
            if not pending:
                return
            for future in self.first(list(pending)):
                chunk, tries = pending.pop(future)
                try:
                    yield chunk, self.answer(future)
                except LostError as error:
                    if tries < TRIES:
                        waiting.append((chunk, tries + 1))
                    else:
                        yield chunk, [Row.failed(error) for _ in chunk.cells]


@final
class Here(AbstractPool):
    """Threads of this process, one for each core: a batch of small flows keeps one core busy."""

    def __init__(self):
        self.workers = cores()
        self._executor = ThreadPoolExecutor(self.workers, thread_name_prefix="sweep")

    def submit(self, work: AbstractWork, chunk: Chunk) -> Any:
        """Hand a chunk to a thread."""
        return self._executor.submit(_here, work, chunk, jax.config.read("jax_enable_x64"))

    def first(self, pending: list[Any]) -> list[Any]:
        """Wait for one."""
        return list(wait(pending, return_when=FIRST_COMPLETED).done)

    def answer(self, future: Any) -> list[Row]:
        """The rows."""
        return future.result()

    def close(self) -> None:
        """Begin nothing more; a chunk that is being computed ends by itself."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _here(work: AbstractWork, chunk: Chunk, x64: bool) -> list[Row]:
    with jax.enable_x64(x64):  # a thread does not inherit what a `with` has set
        return work.rows(chunk)


class LostError(RuntimeError):
    """A worker died, and with it what it was computing."""


@final
class Processes(AbstractPool):
    """Processes of this machine, by loky: each with its share of the cores."""

    def __init__(self, workers: int = 0):
        self.workers = workers or cores()
        self.threads = max(1, cores() // self.workers)
        self._executor: Any = None

    def submit(self, work: AbstractWork, chunk: Chunk) -> Any:
        """Hand a chunk to the pool, a new one if a worker has died."""
        from concurrent.futures.process import BrokenProcessPool

        for _ in range(2):
            if self._executor is None:
                self._executor = _loky(self.workers, self.threads)
            try:
                return self._executor.submit(compute, work, chunk, session())
            except BrokenProcessPool:
                self._executor = None
        raise InputError("`backend` processes: no worker stays alive; the machine may be out of memory.")

    def first(self, pending: list[Any]) -> list[Any]:
        """Wait for one."""
        return list(wait(pending, return_when=FIRST_COMPLETED).done)

    def answer(self, future: Any) -> list[Row]:
        """The rows; with a worker that dies the whole pool is lost."""
        from concurrent.futures.process import BrokenProcessPool

        try:
            return future.result()
        except BrokenProcessPool as error:
            self._executor = None
            raise LostError("A worker process was killed.") from error

    def close(self) -> None:
        """End the workers."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, kill_workers=True)


@final
class Dask(AbstractPool):
    """The workers of a dask scheduler: one at an address, or a local cluster of its own."""

    def __init__(self, address: str | None = None, workers: int = 0):
        distributed = _load("distributed", "dask")
        self._stack = contextlib.ExitStack()
        if address is None:
            count = workers or cores()
            share = environment(max(1, cores() // count))
            cluster = distributed.LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0", env=share)
            address = self._stack.enter_context(cluster)
        try:
            self.client = self._stack.enter_context(distributed.Client(address, timeout=PATIENCE))
        except (OSError, TimeoutError, ValueError) as error:
            self._stack.close()
            raise InputError(
                f"`scheduler`: no dask scheduler answers at {str(address)!r} within {PATIENCE:.0f} seconds ({error}). Start one "
                "with `dask scheduler`, and workers with `dask worker ADDRESS`."
            ) from None
        self.workers = max(1, len(self.client.scheduler_info(n_workers=-1)["workers"]))

    def submit(self, work: AbstractWork, chunk: Chunk) -> Any:
        """A task that is never taken for another of the same content."""
        return self.client.submit(compute, work, chunk, session(), pure=False)

    def first(self, pending: list[Any]) -> list[Any]:
        """Wait for one."""
        from distributed import wait as wait_for

        answered: Any = wait_for(pending, return_when="FIRST_COMPLETED")
        return list(answered.done)

    def answer(self, future: Any) -> list[Row]:
        """The rows; dask itself begins a chunk again whose worker died, up to a number of times."""
        from distributed.scheduler import KilledWorker

        try:
            return future.result()
        except KilledWorker as error:
            raise LostError(str(error).split("\n")[0]) from error

    def close(self) -> None:
        """Leave the cluster; end it if it is our own."""
        self._stack.close()


@final
class Slurm(AbstractPool):
    """Jobs of SLURM, by submitit; a chunk is a job. On a machine without SLURM `cluster="local"` runs them here."""

    def __init__(self, folder: str, workers: int = 8, minutes: int = 60, cluster: str | None = None, **parameters: Any):
        submitit = _load("submitit", "SLURM")
        try:
            self.executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        except (RuntimeError, ValueError) as error:
            raise InputError(f"`backend` slurm: {error}. Is `sbatch` on the path?") from None
        if cluster is None and self.executor.cluster == "local":
            raise InputError("`backend` slurm: there is no SLURM here, `sbatch` is not on the path; take `processes`.")
        self.workers = workers
        self.executor.update_parameters(timeout_min=minutes, **parameters)

    def submit(self, work: AbstractWork, chunk: Chunk) -> Any:
        """A job."""
        return self.executor.submit(compute, work, chunk, session())

    def first(self, pending: list[Any]) -> list[Any]:
        """Look at the jobs every second until one is done."""
        import time

        while not (done := [job for job in pending if job.done()]):
            time.sleep(1.0)
        return done

    def answer(self, future: Any) -> list[Row]:
        """The rows of a job that ended by itself."""
        from submitit.core.utils import FailedJobError, UncompletedJobError

        try:
            return future.result()
        except (FailedJobError, UncompletedJobError) as error:
            raise LostError(str(error).split("\n")[0]) from error


def compute(work: AbstractWork, chunk: Chunk, settings: dict[str, Any]) -> list[Row]:
    """What a worker does: the rows, in the precision of the process that asked, with programs kept where it keeps them."""
    adopt(settings)
    return work.rows(chunk)


def _loky(workers: int, threads: int) -> Any:
    loky = _load("loky", "processes")
    return loky.ProcessPoolExecutor(workers, env=environment(threads), context=loky.backend.get_context("loky"))


def _load(module: str, what: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(
            f"`backend` {what} needs {module!r}, which is not installed: `pip install 'measureflow[cluster]'`."
        ) from None


BACKENDS: dict[str, Callable[..., AbstractBackend]] = {
    "here": lambda **_: Here(),
    "processes": lambda workers, **_: Processes(workers),
    "dask": lambda workers, scheduler, **_: Dask(scheduler, workers),
    "slurm": lambda workers, folder, **_: Slurm(folder, workers or 8),
}
"""Backends by the words of the command line."""
