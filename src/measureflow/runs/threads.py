"""Work in a thread of its own, so that an interruption is heard while it goes on, and signals that end a run like Ctrl-C."""

import contextlib
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax

from measureflow.sums.native.pulse import Pulse

ENDING = ("SIGTERM", "SIGHUP")
"""Signals that end a run like Ctrl-C, where the system has them."""
TICK = 0.5
"""Seconds between two looks at a leg that is being computed."""


def in_thread(
    items: Iterator[Any], tick: Callable[[], None] = lambda: None, pulse: Pulse | None = None
) -> Iterator[Any]:
    """The items of an iterator, each computed in a thread while the one before it is saved.

    `tick` is called now and then while the next item is computed. An interruption stops the computation by its `pulse`.
    """
    try:
        yield from _in_thread(items, tick)
    except BaseException:
        if pulse is not None:
            pulse.stop()
        raise


def _in_thread(items: Iterator[Any], tick: Callable[[], None]) -> Iterator[Any]:
    box = next_in_thread(items)
    while True:
        try:
            item, error = box.get(timeout=TICK)
        except queue.Empty:
            tick()
            continue
        if isinstance(error, StopIteration):
            return
        if error is not None:
            raise error
        box = next_in_thread(items)
        yield item


def next_in_thread(items: Iterator[Any]) -> queue.SimpleQueue:
    """A queue into which a thread will put the next item, or the error that computing it raised."""
    box: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_next, args=(items, box, jax.config.read("jax_enable_x64")), daemon=True).start()
    return box


def _next(items: Iterator[Any], box: queue.SimpleQueue, x64: bool) -> None:
    try:
        with jax.enable_x64(x64):  # a thread does not inherit what a `with` has set
            box.put((next(items), None))
    except BaseException as error:
        box.put((None, error))


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Put off interruptions, so that what is known of a run and what is saved of it change together."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    kinds = [getattr(signal, name) for name in ("SIGINT", *ENDING) if hasattr(signal, name)]
    before = {kind: handler for kind in kinds if callable(handler := signal.getsignal(kind))}
    for kind in before:
        signal.signal(kind, lambda kind, _: heard.append(kind))
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
        if heard:
            before[heard[0]](heard[0], None)


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end a run like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    names = [name for name in ENDING if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), interrupt) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
