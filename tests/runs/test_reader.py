"""Runs read from their folders: frames, series and outcomes, and sentences for folders that are broken or old."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import measureflow as mf
from measureflow.cli import main
from measureflow.runs.checksums import sealed
from measureflow.runs.command import command
from measureflow.runs.reader import check_inputs
from measureflow.words import InputError


def test_series_are_stored_with_their_labels(run):
    path = command("simulate").job(run.config).flow.run()
    energy = path.map(mf.InteractionEnergy(9.0)) / (np.exp(9.0) / 18.0)
    np.testing.assert_allclose(run.series["energy"].values, energy, rtol=1e-6)
    np.testing.assert_array_equal(run.series["clusters"].values, mf.diagnostics.cluster_counts(path))
    assert run.series["energy"].label == run.data.energy.attrs["label"] == "energy E / max E"
    assert run.series["clusters"].counts


def test_a_run_is_a_sequence_of_measures(run):
    assert len(run) == 9
    assert [type(mu) for mu in run] == 9 * [mf.Particles]
    np.testing.assert_array_equal(run.at(-1).points, run.final.points)
    with pytest.raises(IndexError, match="has 9 frames"):
        run.at(9)


def test_a_run_that_died_says_so(tmp_path, flow, break_after):
    break_after(2, mf.runs.record, flow(), tmp_path / "run", frames_per_leg=2)
    run = mf.runs.open(tmp_path / "run")
    assert not run.alive
    assert run.outcome.startswith("Killed after 2 of 6 frames; `mf.runs.record(flow")


def test_a_flipped_bit_is_found_when_frames_are_read(run, tmp_path):
    """Each chunk has a checksum."""
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(run.path), str(copy)], check=True)
    chunk = next(file for file in (copy / "data.zarr" / "points" / "c" / "1").rglob("*") if file.is_file())
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 16
    chunk.write_bytes(bytes(data))
    with pytest.raises(ValueError, match="its checksum is not the one it was written with"):
        _ = mf.runs.open(copy).data.points.values
    with pytest.raises(InputError, match=r"is a run that is broken: data.zarr/points/c/1/0/0: its checksum"):
        mf.runs.open(copy).at(4)
    assert mf.runs.open(copy).at(2).points.shape == (24, 3)


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def changed(path, **words):
    """Change words of a file of JSON as its writer would: with a checksum that fits."""
    held = json.loads(path.read_text())
    rest = {name: value for name, value in (held | words).items() if name != "checksum"}
    path.write_text(json.dumps(sealed(rest) if "run" in held else rest))


def exchanged(one, other):
    one.rename(one.with_name("aside"))
    other.rename(one)
    one.with_name("aside").rename(other)


def chunk(run, k):
    return run / "data.zarr" / "points" / "c" / str(k) / "0" / "0"


BROKEN = {
    "half of run.json": (lambda run: cut(run / "run.json"), "run.json: "),
    "run.json without a title": (lambda run: changed(run / "run.json", title=None), "run.json: 'title' is None"),
    "a later format": (lambda run: changed(run / "run.json", format=99), "of a later version"),
    "half of commit.json": (lambda run: cut(run / "commit.json"), "commit.json: "),
    "no commit.json": (lambda run: (run / "commit.json").unlink(), "commit.json: it is missing"),
    "999 frames": (lambda run: changed(run / "commit.json", frames=999), "999 frames are said to be safe, of 9"),
    "no data": (lambda run: subprocess.run(["rm", "-r", run / "data.zarr"], check=True), "data.zarr"),
    "half of the metadata": (lambda run: cut(run / "data.zarr" / "points" / "zarr.json"), "points/zarr.json: its checksum"),
    "a lost chunk": (lambda run: chunk(run, 1).unlink(), "data.zarr/points/c/1/0/0: it is missing"),
    "two chunks in each other's place": (
        lambda run: exchanged(chunk(run, 0), chunk(run, 1)), "/0/0: its checksum is not the one"
    ),
    "half of config.toml": (lambda run: cut(run / "config.toml"), "config.toml: its checksum"),
    "no checksums": (lambda run: (run / "checksums").unlink(), "checksums: "),
    "half of the checksums": (lambda run: cut(run / "checksums"), "checksums: its own checksum"),
}  # fmt: skip


def everything(run):
    """All that can be read of a run, as bytes."""
    arrays = {name: run.data[name].values.tobytes() for name in sorted(map(str, run.data.variables))}
    frames = [np.asarray(mu.points).tobytes() for mu in run]
    return repr((run.info, run.config, run.stats, run.outcome, run.times.tolist(), arrays, frames))


@pytest.mark.parametrize(("harm", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_folder_says_what_is_broken(run, tmp_path, capsys, harm, words):
    """In every command that reads one."""
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(run.path), str(copy)], check=True)
    harm(copy)
    with pytest.raises(InputError) as caught:
        everything(mf.runs.open(copy))
    assert words in str(caught.value)
    assert "copy' is a run that is broken" in str(caught.value)
    assert main(["compare", str(copy), str(run.path)]) == 2
    assert words in capsys.readouterr().err


FLIPS = 6
"""Places at which each file is damaged, beside its ends."""


def test_a_flipped_bit_anywhere_is_said_or_changes_nothing(tmp_path, break_after):
    """In every file of a run that can go on, reading gives the same or names the file, and so does going on."""
    words = {
        "n": 4,
        "dim": 2,
        "time": 1.0,
        "frames": 6,
        "frames_per_leg": 2,
        "verify": False,
        "solver": "rk4",
        "dt": 0.25,
    }
    break_after(4, mf.runs.run, "simulate", **words, out=str(tmp_path / "run"))
    whole, seen, chance = everything(mf.runs.open(tmp_path / "run")), set(), np.random.default_rng(0)
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert len(files) > 20
    for file in files:
        held = file.read_bytes()
        for place in {0, len(held) - 1, *chance.integers(0, len(held), FLIPS).tolist()}:
            file.write_bytes(held[:place] + bytes([held[place] ^ (1 << int(chance.integers(8)))]) + held[place + 1 :])
            try:
                assert everything(mf.runs.open(tmp_path / "run")) == whole, (file, place)
            except InputError as error:
                seen.add((file.name, "is a run that is broken" in str(error)))
            if file.suffix == ".eqx":
                with pytest.raises(InputError, match=r"state-4.eqx: its checksum is not the one"):
                    mf.runs.resume(tmp_path / "run")
        file.write_bytes(held)
    # The chunks of all arrays are called 0; the state is read only by a run that goes on.
    names = "run.json", "commit.json", "config.toml", "checksums", "zarr.json", "0", "1"
    assert seen == {(name, True) for name in names}
    assert mf.runs.resume(tmp_path / "run").frames == 6


def test_a_run_can_be_read_when_its_inputs_are_gone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("tokens.npz", points=np.eye(3))
    made = mf.runs.run("simulate", init="tokens.npz", layers=1, out="run")
    check_inputs(made)
    np.savez("tokens.npz", points=-np.eye(3))
    with pytest.raises(InputError, match=r"was made with 'tokens.npz', which has changed since"):
        check_inputs(made)
    Path("tokens.npz").unlink()
    with pytest.raises(InputError, match=r"was made with 'tokens.npz', which is gone"):
        check_inputs(made)
    assert mf.runs.open("run").config.init == "tokens.npz"
    assert mf.runs.open("run").final.points.shape == (3, 3)
    assert made.info["inputs"].keys() == {"tokens.npz"}
    with pytest.raises(InputError, match=r"`init`: 'tokens.npz' cannot be read: No such file"):
        mf.runs.rerun("run")


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="is not a run folder"):
        mf.runs.open(tmp_path / "nothing")
    (tmp_path / "config.toml").write_text("n = 3\n")
    with pytest.raises(InputError, match="is not a run folder"):
        mf.runs.open(tmp_path)


@pytest.fixture
def of_format_1():
    """A function that takes from a folder what its first format did not have: the kind of its outcome."""

    def older(path):
        for name, words in (("run.json", {"format": 1}), ("commit.json", {})):
            held = json.loads((path / name).read_text())
            for new in ("ending", "run", "checksum", "checksums"):
                held.pop(new, None)
            (path / name).write_text(json.dumps(held | words))
        (path / "checksums").unlink()
        return path

    return older


def test_a_folder_of_the_first_format_is_read_told_and_compared(run, tmp_path, of_format_1):
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(run.path), str(copy)], check=True)
    old = mf.runs.open(of_format_1(copy))
    assert (old.ok, old.outcome, old.ended.ok) == (True, "Reached t = 2.", True)
    np.testing.assert_array_equal(old.points, run.points)
    assert old.table == run.table
    (distance,) = mf.runs.compare(copy, run.path).distances
    assert not distance.values.any()
    assert mf.runs.resume(copy).info["format"] == 1  # it is finished, and stays as it is


def test_an_interrupted_run_of_the_first_format_is_read_and_not_gone_on_with(tmp_path, break_after, of_format_1):
    """Its state has no checksum, so it may be damaged."""
    words = {"n": 6, "dim": 2, "time": 1.0, "frames": 6, "frames_per_leg": 2, "beta": 4.0}
    break_after(2, mf.runs.run, "simulate", **words, out=str(tmp_path / "run"))
    old = mf.runs.open(of_format_1(tmp_path / "run"))
    assert old.outcome.startswith("Killed after 2 of 6 frames")
    assert old.points.shape == (2, 6, 2)
    with pytest.raises(InputError, match="kept no checksum of its state"):
        mf.runs.resume(tmp_path / "run")
    assert mf.runs.rerun(tmp_path / "run", str(tmp_path / "anew")).frames == 6


def test_a_run_of_an_older_version_whose_flow_is_another_now_is_refused_with_a_sentence(
    tmp_path, flow, break_after, of_format_1
):
    break_after(2, mf.runs.record, flow(), tmp_path / "run", frames_per_leg=2)
    changed(of_format_1(tmp_path / "run") / "run.json", fingerprint="0" * 16)
    with pytest.raises(InputError, match="cannot go on: its flow was '0000000000000000'"):
        mf.runs.record(flow(), tmp_path / "run", resume=True, frames_per_leg=2)
    assert mf.runs.open(tmp_path / "run").frames == 2
