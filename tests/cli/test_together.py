"""One simulation over several real processes on loopback: the same numbers, written once; peers that die are told."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import measureflow as mf
from measureflow.cli import main
from measureflow.cli.run import without
from measureflow.runs.comparison import agreement
from measureflow.runs.rendezvous import PeerError, meet

WORDS = ["--n", "16", "--time", "1", "--frames", "5", "--beta", "4"]
COMMAND = [sys.executable, "-m", "measureflow.cli", "simulate"]


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.slow
def test_two_processes_give_the_run_of_one_to_rounding_and_write_it_once(tmp_path):
    words = [*COMMAND, *WORDS, "--out", str(tmp_path / "two"), "--processes", "2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("Reached t = 1.") == 1  # the first process alone reports
    one = mf.runs.run("simulate", out=str(tmp_path / "one"), n=16, time=1.0, frames=5, beta=4.0)
    two = mf.runs.open(tmp_path / "two")
    found = agreement(one, two)
    # Shares of the sources are added in another order: some roundings, which 12 steps do not blow up.
    assert found.difference < 1e-12
    assert two.stats["steps"] == one.stats["steps"]
    assert two.stats["error"] == pytest.approx(one.stats["error"], rel=1e-2)
    assert two.stats["engine"] == "native, sharded over 2"
    assert "processes" not in (tmp_path / "two" / "config.toml").read_text()
    np.testing.assert_array_equal(two.times, one.times)


@pytest.mark.slow
def test_a_peer_that_is_killed_ends_the_run_with_a_sentence_and_what_was_saved_goes_on(tmp_path):
    out = tmp_path / "run"
    words = [*COMMAND, "--n", "16", "--time", "40", "--frames", "4001", "--frames-per-leg", "10", "--no-verify"]
    words += ["--solver", "rk4", "--dt", "0.01", "--out", str(out), "--processes", "2"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + 200
    while not (out / "commit.json").is_file() and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[1][-2000:]
    os.kill(_child(process.pid, "--process-id 1"), signal.SIGKILL)
    begun = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert time.monotonic() - begun < 20
    assert "Process 1 of 2 was killed (signal 9)" in said or "Another process of the run has died" in said
    saved = mf.runs.open(out)
    assert 0 < saved.frames < 4001
    assert not saved.finished
    assert np.isfinite(saved.points).all()


def _child(parent, words):
    """The process that a parent started with some words."""
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdigit() and words in (path / "cmdline").read_text().replace("\0", " "):
                status = (path / "status").read_text()
                if f"PPid:\t{parent}\n" in status:
                    return int(path.name)
        except OSError:
            continue
    raise AssertionError(f"no process with {words!r}")


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


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--processes", "3"], "must be a multiple of the 3 processes; got 16"),
        (["--coordinator", "a:1"], "go together: give all three in every process"),
        (["--coordinator", "a:1", "--process-id", "2", "--num-processes", "2"], "counts from 0"),
        (["--coordinator", "a:1", "--process-id", "0", "--num-processes", "2", "--processes", "2"], "give one"),
        (["--processes", "2", "--merge", "0.1"], "drop `layers`, `merge`, `mask` and `measure`"),
        (["--processes", "0"], "`processes`"),
    ],
)
def test_bad_input_is_a_sentence(words, sentence, capsys):
    assert main(["simulate", *WORDS, *words]) == 2
    assert sentence in capsys.readouterr().err


def test_words_without_an_option():
    assert without(["--n", "4", "--processes", "2", "--beta=3", "--processes=5"], "--processes") == [
        "--n",
        "4",
        "--beta=3",
    ]
