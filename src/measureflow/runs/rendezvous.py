"""Processes of one run find each other: the first one waits at an address until all have come, and tells them to go on.

Each says its number and how many it thinks there are. Whoever waits in vain gets a sentence that says for whom, within a time
limit. Needs no JAX.
"""

import contextlib
import socket
import time

PATIENCE = 30.0
"""Seconds for which processes wait for each other."""
PAUSE = 0.1
"""Seconds between two tries to reach the first process."""


class PeerError(RuntimeError):
    """A process of a run did not come, or died."""


def meet(address: str, process: int, count: int, patience: float | None = None) -> None:
    """Return when all processes are there."""
    limit = time.monotonic() + (PATIENCE if patience is None else patience)
    place = _place(address)
    if process == 0:
        _host(address, place, count, limit)
    else:
        _visit(address, place, process, count, limit)


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise PeerError(f"`coordinator` must be HOST:PORT, such as 10.0.0.1:12345; got {address!r}.")
    return host, int(port)


def _host(address: str, place: tuple[str, int], count: int, limit: float) -> None:
    """Wait until every other process has said its number."""
    guests: dict[int, socket.socket] = {}
    try:
        server = socket.create_server(place)
    except OSError as error:
        raise PeerError(
            f"Process 0 cannot wait at {address!r}: {error.strerror or error}. Choose another port."
        ) from None
    with server, contextlib.ExitStack() as stack:
        while len(guests) < count - 1:
            server.settimeout(max(limit - time.monotonic(), 0.01))
            try:
                guest = stack.enter_context(server.accept()[0])
                guest.settimeout(max(limit - time.monotonic(), 0.01))
                number, many = map(int, guest.recv(64).split())
            except ValueError:
                continue  # somebody else
            except OSError:
                missing = ", ".join(str(i) for i in range(1, count) if i not in guests)
                raise PeerError(f"Process {missing} of {count} did not come to {address!r} in time.") from None
            if many != count or number in guests or not 0 < number < count:
                raise PeerError(f"Process {number} of {many} came to {address!r}, where {count} meet, each once.")
            guests[number] = guest
        for guest in guests.values():
            guest.sendall(b"go")


def _visit(address: str, place: tuple[str, int], process: int, count: int, limit: float) -> None:
    """Say one's number, and wait for the word to go on."""
    while True:
        try:
            with socket.create_connection(place, timeout=max(limit - time.monotonic(), 0.01)) as home:
                home.sendall(f"{process} {count}".encode())
                home.settimeout(max(limit - time.monotonic(), 0.01))
                if home.recv(2) == b"go":
                    return
                raise PeerError(f"The processes at {address!r} did not all come, or are others than {count}.")
        except OSError as error:
            if time.monotonic() > limit - PAUSE:
                raise PeerError(
                    f"Process 0 of {count} does not answer at {address!r}: {error.strerror or error}."
                ) from None
            time.sleep(PAUSE)
