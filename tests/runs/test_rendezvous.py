"""Processes that meet at an address, and what those are told who wait in vain."""

import socket
import threading
import time

import pytest

from measureflow.runs.rendezvous import PeerError, meet


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_processes_meet_and_whoever_waits_in_vain_is_told_for_whom():
    address, told = f"127.0.0.1:{port()}", []

    def come(process, count, patience):
        try:
            meet(address, process, count, patience)
            told.append("met")
        except PeerError as error:
            told.append(str(error))

    def all_of(*guests):
        told.clear()
        threads = [threading.Thread(target=come, args=guest) for guest in guests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        return sorted(told)

    assert all_of((0, 3, 15.0), (1, 3, 15.0), (2, 3, 15.0)) == ["met"] * 3
    begun = time.monotonic()
    assert all_of((0, 3, 1.0), (2, 3, 5.0))[0] == f"Process 1 of 3 did not come to '{address}' in time."
    assert "does not answer" in all_of((1, 2, 0.5))[0]
    assert any("where 2 meet, each once" in said for said in all_of((0, 2, 2.0), (1, 3, 2.0)))
    assert time.monotonic() - begun < 15
    with pytest.raises(PeerError, match=r"must be HOST:PORT"):
        meet("nowhere", 0, 2)
