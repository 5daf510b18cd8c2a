"""One simulation over several processes, of one machine or of many: each computes its share of the tokens in every leg.

Between legs every process holds all tokens; within a leg they are spread, and sums are those of `sums.Sharded`.
The first process watches, saves and reports; the others compute along. Processes find each other by `jax.distributed`, and a peer
that is missing or dies ends the run with a sentence within a time limit.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.annotations import Number
from measureflow.fields import AbstractField
from measureflow.flows import AbstractFlow, Flow, Trajectory
from measureflow.flows.leg import Keeping, Straight
from measureflow.flows.trajectory import Measure
from measureflow.measures import AbstractCloud
from measureflow.runs.cores import cores, environment
from measureflow.runs.job import Job
from measureflow.runs.rendezvous import PeerError, meet
from measureflow.runs.threads import ENDING, in_thread, signals
from measureflow.sums import Sharded
from measureflow.sums.native.pulse import Pulse
from measureflow.words.settings import InputError

PATIENCE = 60
"""Seconds that JAX has to connect processes which have met."""
HEARTBEAT = 10
"""Seconds after which a process that is silent counts as dead."""
FAREWELL = 30.0
"""Seconds that processes have which were interrupted, to finish what there is and to draw it."""
GRACE = 5.0
"""Seconds that processes have to end by themselves when another one has."""


@final
class SharedFlow(AbstractFlow[Measure]):
    """A flow whose legs all processes compute together; what comes out of a leg is whole in each of them."""

    flow: Flow[Measure]

    def __init__(self, flow: Flow[Measure]):
        self.flow = flow

    @property
    def field(self) -> AbstractField:
        """The field of the flow."""
        return self.flow.field

    @property
    def start(self) -> Measure:
        """The start of the flow, whole."""
        return self.flow.start

    @property
    def times(self) -> Float[Array, " k"]:
        """The times of the flow."""
        return self.flow.times

    @property
    def keeping(self) -> Keeping:
        """What the flow keeps."""
        return self.flow.keeping

    def leg(self, mu: Measure, first: int, last: int, pulse: Pulse | None = None, room: int = 0) -> Trajectory[Measure]:
        """A leg of the flow from spread tokens, gathered; it has no pulse, which one process alone would hear."""
        with _speaking():
            return _gathered(self.flow.leg(_spread(mu), first, last, None, room), mu)

    def error(
        self, final: Measure, end: Number | None = None, pulse: Pulse | None = None, room: int = 0
    ) -> Float[Array, ""] | None:
        """That of the flow, of a run that came to its end: then all processes ask for it."""
        if end is not None and float(np.asarray(end)) != float(np.asarray(self.times)[-1]):
            return None
        with _speaking():
            flow = eqx.tree_at(lambda f: f.start, self.flow, _spread(self.start))
            found = flow.error(_spread(final), end, None, room)
            return jnp.asarray(np.asarray(found))


def _spread(mu: Any) -> Any:
    engine = Sharded(mu.engine)
    return engine.spread(mu.using(engine))


def _gathered(path: Trajectory, like: Any) -> Trajectory:
    """A path with all its numbers in this process, and sums that are done here."""
    from jax.experimental import multihost_utils

    def whole(leaf: Any) -> Any:
        if not eqx.is_array(leaf):
            return leaf
        held = np.asarray(leaf) if leaf.is_fully_replicated else multihost_utils.process_allgather(leaf, tiled=True)
        return jnp.asarray(held, leaf.dtype)

    local = jax.tree.map(whole, path)
    at_home = lambda nu: None if nu is None else eqx.tree_at(lambda m: m.tokens.engine, nu, like.engine)  # noqa: E731
    return replace(
        local,
        kept=at_home(local.kept),
        final=at_home(local.final),
        engine=f"{like.engine_name}, sharded over {jax.process_count()}",
    )


@contextlib.contextmanager
def _speaking() -> Iterator[None]:
    """Say that a peer died where the network does."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        raise PeerError(
            f"Another process of the run has died, or cannot be reached: {str(error).splitlines()[0]}"
        ) from None


def shared(job: Job) -> Job:
    """The same job, computed by all processes."""
    flow, count = job.flow, jax.process_count()
    if not isinstance(flow, Flow) or not isinstance(flow.start, AbstractCloud) or not isinstance(flow.way(), Straight):
        raise InputError("`processes` share the tokens of a continuous flow: drop `measure`, `layers` and `merge`.")
    if len(flow.start.points) % count:
        raise InputError(f"`n` must be a multiple of the {count} processes; got {len(flow.start.points)}.")
    return replace(job, flow=SharedFlow(flow), ahead=False, alone=flow)


def join(address: str, process: int, count: int) -> None:
    """Find the other processes; a sentence if they are not all there in time."""
    meet(address, process, count)  # JAX alone would end a process that waits in vain without a word
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    with _speaking():
        jax.distributed.initialize(
            address, count, process, initialization_timeout=PATIENCE, heartbeat_timeout_seconds=HEARTBEAT
        )
        jax.devices()


def follow_legs(job: Job) -> None:
    """Compute this process's share of the legs of a job, which the first process watches and saves."""
    state, ok = job.flow.start, True
    with signals():
        for path in in_thread(job.flow.legs(job.frames_per_leg)):
            state, ok = path.final, bool(path.outcome.ok)
        if ok and job.verify:
            job.flow.error(state, job.end, None, job.frames_per_leg)


def launch(argv: list[str], count: int) -> int:
    """Run a command in some processes of this machine, each with its share of the cores, and end them all if one dies."""
    address, share = f"127.0.0.1:{_free_port()}", os.environ | environment(max(1, cores() // count))
    command = [sys.executable, "-m", "measureflow.cli", *argv, "--coordinator", address, "--num-processes", str(count)]
    processes: list[subprocess.Popen] = []
    try:
        with _passed_on(processes):
            processes += (subprocess.Popen([*command, "--process-id", str(i)], env=share) for i in range(count))
            return _ended(processes)
    except KeyboardInterrupt:
        limit = time.monotonic() + FAREWELL
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(limit - time.monotonic(), 0.1))
        return 130
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _passed_on(processes: list[subprocess.Popen]) -> Iterator[None]:
    """Signals that end this process end those that it has started, as Ctrl-C does, which reaches them by itself."""

    def end(kind: int, _: Any) -> None:
        for process in processes:
            process.send_signal(kind)
        raise KeyboardInterrupt

    before = {name: signal.signal(getattr(signal, name), end) for name in ENDING if hasattr(signal, name)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _ended(processes: list[subprocess.Popen]) -> int:
    """Wait for all; when one fails, the others have a little time to say so."""
    while all(process.poll() is None for process in processes):
        time.sleep(0.05)
    first = next((i, code) for i, process in enumerate(processes) if (code := process.poll()) is not None)
    limit = time.monotonic() + (GRACE if first[1] else float("inf"))
    while any(process.poll() is None for process in processes) and time.monotonic() < limit:
        time.sleep(0.05)
        failed = [(i, code) for i, process in enumerate(processes) if (code := process.poll())]
        if failed:
            first, limit = failed[0], min(limit, time.monotonic() + GRACE)
    if first[1] < 0:
        raise PeerError(
            f"Process {first[0]} of {len(processes)} was killed (signal {-first[1]}). What was saved is safe; "
            "`measureflow resume RUN` goes on in one process, with the same numbers to rounding."
        )
    return max(process.poll() or 0 for process in processes)


def _free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
