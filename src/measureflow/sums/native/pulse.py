"""Listening to a compiled loop while it runs, and stopping it: `pulse.cc` from Python.

Where the native library is not built, or the loop runs elsewhere than on a CPU, loops have no pulse and run to their end.
"""

import contextlib
import ctypes
import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

PLACES = 256
_places = itertools.count()


class Pulse:
    """The place of one loop: how far it is, and a way to stop it after its step."""

    def __init__(self, library: ctypes.CDLL):
        self._library, self.place = library, next(_places) % PLACES
        library.measureflow_pulse_time.restype = ctypes.c_double
        library.measureflow_pulse_reset(self.place)

    @property
    def time(self) -> float:
        """The time that was reached, if a step was done."""
        return self._library.measureflow_pulse_time(self.place)

    @property
    def steps(self) -> int:
        """How many steps were done or tried."""
        return self._library.measureflow_pulse_steps(self.place)

    def stop(self) -> None:
        """Ask the loop to stop."""
        self._library.measureflow_pulse_stop(self.place)

    @property
    def token(self) -> Int[Array, ""]:
        """What the loop is given, to know its place."""
        return jnp.asarray(np.array(self.place, np.int32), np.int32)


@contextlib.contextmanager
def heard(pulse: Pulse | None) -> Iterator[None]:
    """Stop a loop on Ctrl-C, though Python itself hears nothing while the loop runs in its thread.

    Signals are written to a pipe the moment they come, and a thread that listens there stops the loop; the interruption is then
    raised as always.
    """
    if pulse is None or threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    listener = threading.Thread(target=_listen, args=(reading, before, pulse), daemon=True)
    listener.start()
    try:
        yield
    except KeyboardInterrupt:
        pulse.stop()
        raise
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)
        listener.join()
        os.close(reading)


def _listen(reading: int, before: int, pulse: Pulse) -> None:
    while signals := os.read(reading, 64):
        if signal.SIGINT in signals:
            pulse.stop()
        if before >= 0:  # who listened before still hears
            os.write(before, signals)


def beat(token: Int[Array, ""], time: Float[Array, ""], steps: Int[Array, ""]) -> Bool[Array, ""]:
    """Tell where a loop is; whether it should stop."""
    call = jax.ffi.ffi_call("measureflow_pulse", jax.ShapeDtypeStruct((), jnp.int32), has_side_effect=True)
    return call(time.astype(jnp.float32), steps.astype(jnp.int32), token) != 0
