"""Work in threads: in order, with its errors, and interrupted only where nothing is lost."""

import os
import signal
import threading
import time

import jax
import jax.numpy as jnp
import pytest

from measureflow.runs import threads
from measureflow.runs.threads import in_thread, signals, undisturbed


@pytest.fixture
def hearing():
    """With the usual handler of Ctrl-C, which a shell may have taken from processes in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interruption_reaches_a_leg_that_takes_long(hearing):
    """The leg sleeps in its thread; the interruption does not wait for it."""
    hours = (time.sleep(3600) for _ in range(1))
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        next(in_thread(hours))


def test_items_come_in_order_from_another_thread_in_the_precision_of_this_one():
    def items():
        for k in range(4):
            yield k, threading.current_thread() is threading.main_thread(), jnp.asarray(1.0).dtype.name

    assert list(in_thread(items())) == [(k, False, "float64") for k in range(4)]
    with jax.enable_x64(False):
        assert next(in_thread(items())) == (0, False, "float32")


def test_an_error_in_the_thread_is_raised_here_after_the_items_before_it():
    def items():
        yield 1
        raise ValueError("no second one")

    found = in_thread(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="no second one"):
        next(found)


def test_somebody_is_told_while_an_item_takes_long(monkeypatch):
    monkeypatch.setattr(threads, "TICK", 0.01)
    waited = threading.Event()
    assert list(in_thread(("done" for _ in range(1) if waited.wait(10)), waited.set)) == ["done"]


def test_an_interruption_is_put_off_until_the_end(hearing):
    done = []

    def saving():
        with undisturbed():
            signal.raise_signal(signal.SIGINT)
            done.append("saved")
        done.append("never")

    with pytest.raises(KeyboardInterrupt):
        saving()
    assert done == ["saved"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_signals_end_a_run_like_an_interruption():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), signals():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_outside_the_main_thread_signals_are_left_alone():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work():
        with signals(), undisturbed():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
