"""Run folders: what is in them, and that nothing of a user is ever lost."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import equinox as eqx
import numpy as np
import pytest
import xarray

import measureflow as mf
from measureflow.cli import main
from measureflow.runs.command import command
from measureflow.runs.reader import check_inputs
from measureflow.words import InputError

WORDS = {"n": 24, "time": 2.0, "frames": 9, "frames_per_leg": 3}
SIMULATE = command("simulate")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished small run."""
    return mf.runs.run("simulate", **WORDS, out=str(tmp_path_factory.mktemp("runs") / "small"))


def test_xarray_reads_the_frames_by_name(run):
    data = xarray.open_zarr(run.path / "data.zarr")
    assert dict(data.sizes) == {"time": 9, "token": 24, "coordinate": 3}
    assert data.points.dims == ("time", "token", "coordinate")
    np.testing.assert_allclose(data.time, np.linspace(0, 2, 9))
    np.testing.assert_allclose(data.weights.sum(), 1.0)
    np.testing.assert_allclose(np.linalg.norm(data.points, axis=-1), 1.0, atol=1e-14)


def test_series_are_stored_with_their_labels(run):
    path = SIMULATE.job(run.config).flow.run()
    energy = path.map(mf.InteractionEnergy(9.0)) / (np.exp(9.0) / 18.0)
    np.testing.assert_allclose(run.series["energy"].values, energy, rtol=1e-6)
    np.testing.assert_array_equal(run.series["clusters"].values, mf.diagnostics.cluster_counts(path))
    assert run.series["energy"].label == run.data.energy.attrs["label"] == "energy E / max E"
    assert run.series["clusters"].counts


def test_the_run_knows_what_made_it(run):
    info = run.info
    assert info["ok"]
    assert info["finished"]
    assert (info["format"], info["command"], info["precision"], info["seed"]) == (2, "simulate", "float64", 0)
    assert info["outcome"] == "Reached t = 2."
    assert info["engine"] == SIMULATE.job(run.config).flow.start.engine_name
    assert info["versions"]["measureflow"] == mf.__version__
    assert {"device", "platform", "git", "fingerprint"} <= set(info)
    assert 0 < run.stats["error"] < 1e-6
    assert run.stats["steps"] > 0


def test_the_state_is_the_measure_after_the_last_frame(run):
    marker = json.loads((run.path / "commit.json").read_text())
    assert (marker["frames"], marker["state"]) == (9, "state-9.eqx")
    assert [p.name for p in run.path.glob("state-*")] == ["state-9.eqx"]
    state = eqx.tree_deserialise_leaves(run.path / "state-9.eqx", SIMULATE.job(run.config).flow.start)
    # A frame is read off inside the last step, the state at its end: they differ by roundings.
    np.testing.assert_allclose(state.points, run.final.points, atol=1e-11)


def test_numbers_are_stored_in_the_precision_of_the_flow(tmp_path):
    start = mf.Particles(mf.Sphere(3), np.eye(3, dtype=np.float32))
    flow = mf.Flow(mf.SoftmaxAttention.isotropic(3, 1.0), start, [0.0, 0.1], mf.Euler(0.1))
    run = mf.runs.record(flow, tmp_path / "run", verify=False)
    assert run.info["precision"] == "float32"
    assert run.data.points.dtype == np.float32


def test_a_flipped_bit_is_found_when_frames_are_read(run, tmp_path):
    """Each chunk has a checksum."""
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(run.path), str(copy)], check=True)
    chunk = next(file for file in (copy / "data.zarr" / "points" / "c" / "1").rglob("*") if file.is_file())
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 16
    chunk.write_bytes(bytes(data))
    with pytest.raises(ValueError, match=r"[Cc]hecksum|crc32c"):
        _ = mf.runs.open(copy).data.points.values
    with pytest.raises(InputError, match=r"is a run that is broken: frame 4 in data.zarr: .*[Cc]hecksum"):
        mf.runs.open(copy).at(4)
    assert mf.runs.open(copy).at(2).points.shape == (24, 3)


def test_an_existing_folder_is_never_overwritten_without_force(run):
    before = (run.path / "run.json").stat().st_mtime_ns
    with pytest.raises(InputError, match="exists; choose another folder"):
        mf.runs.run("simulate", **WORDS, out=str(run.path))
    assert (run.path / "run.json").stat().st_mtime_ns == before


def test_force_replaces_a_run_and_nothing_else(tmp_path):
    out = tmp_path / "run"
    small = {"n": 4, "time": 0.1, "frames": 2, "verify": False, "out": str(out)}
    mf.runs.run("simulate", **small)
    assert mf.runs.run("simulate", **small, seed=5, force=True).config.seed == 5
    (out / "notes.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"also holds 'notes.txt'"):
        mf.runs.run("simulate", **small, force=True)
    assert (out / "notes.txt").read_text() == "years of work"
    assert mf.runs.open(out).config.seed == 5


@pytest.mark.parametrize("kind", ["project", "working folder", "link", "input", "file"])
def test_force_refuses_what_is_not_a_run(kind, tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text("n = 4\n")
    (tmp_path / "thesis.tex").write_text("years of work")
    target, words = tmp_path, {"n": 4, "time": 0.1, "frames": 2, "verify": False}
    if kind == "working folder":
        monkeypatch.chdir(tmp_path)
        target = Path(".")
    elif kind == "link":
        target = tmp_path / "link"
        target.symlink_to(tmp_path)
    elif kind == "input":
        mf.runs.run("simulate", **words, out=str(tmp_path / "run"))
        target = tmp_path / "run"
        np.savez(target / "tokens.npz", points=np.eye(3))
        words |= {"init": str(target / "tokens.npz")}
        words.pop("n")
    elif kind == "file":
        target = tmp_path / "thesis.tex"
    with pytest.raises(InputError, match="`out`: "):
        mf.runs.run("simulate", **words, out=str(target), force=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    assert kind != "input" or (target / "tokens.npz").is_file()


def test_runs_without_a_name_get_folders_of_their_own_also_at_once(tmp_path):
    code = "from measureflow.runs.folder import make_folder; print(make_folder(None, 'simulate', False)[0])"
    started = [
        subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    names = {process.communicate()[0].strip() for process in started}
    assert names == {f"runs/simulate-{k}" for k in (1, 2, 3)}


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_computed(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="`out`: cannot make"):
        mf.runs.run("simulate", n=4, out=str(tmp_path / "file" / "run"))


def test_frames_that_do_not_fit_on_the_disk_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=2**20))
    with pytest.raises(InputError, match="keep fewer"):
        mf.runs.run("simulate", n=64, frames=2000, out=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_blow_up_keeps_the_frames_before_it(tmp_path):
    words = {"space": "euclidean", "dim": 1, "n": 3, "attention": "unnormalised", "beta": 1, "time": 3, "frames": 61}
    run = mf.runs.run("simulate", **words, out=str(tmp_path / "run"))
    assert run.finished
    assert not run.ok
    assert run.outcome.startswith("Blew up at t = ")
    assert run.times[-1] <= run.stats["blow_up_time"] < run.times[-1] + 0.05
    assert np.isfinite(xarray.open_zarr(run.path / "data.zarr").points).all()


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def changed(path, **words):
    path.write_text(json.dumps(json.loads(path.read_text()) | words))


BROKEN = {
    "half of run.json": (lambda run: cut(run / "run.json"), "run.json: "),
    "run.json without a title": (lambda run: changed(run / "run.json", title=None), "run.json: 'title' is None"),
    "a later format": (lambda run: changed(run / "run.json", format=99), "of a later version"),
    "half of commit.json": (lambda run: cut(run / "commit.json"), "commit.json: "),
    "999 frames": (lambda run: changed(run / "commit.json", frames=999), "999 frames are said to be safe, of 9"),
    "no data": (lambda run: subprocess.run(["rm", "-r", run / "data.zarr"], check=True), "data.zarr: "),
    "half of the metadata": (lambda run: cut(run / "data.zarr" / "points" / "zarr.json"), "data.zarr: "),
    "a lost chunk": (
        lambda run: (run / "data.zarr" / "points" / "c" / "1" / "0" / "0").unlink(),
        "chunk 1 of 'points' is missing",
    ),
    "half of config.toml": (lambda run: cut(run / "config.toml"), "config.toml: "),
}


@pytest.mark.parametrize(("harm", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_folder_says_what_is_broken(run, tmp_path, capsys, harm, words):
    """In every command that reads one."""
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(run.path), str(copy)], check=True)
    harm(copy)
    with pytest.raises(InputError) as caught:
        _ = mf.runs.open(copy).config
    assert words in str(caught.value)
    assert "copy' is a run that is broken" in str(caught.value)
    assert main(["compare", str(copy), str(run.path)]) == 2
    assert words in capsys.readouterr().err


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
    with pytest.raises(InputError, match=r"Cannot read numbers from 'tokens.npz'"):
        mf.runs.rerun("run")


def test_an_archive_that_expands_beyond_memory_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez_compressed("zeros.npz", points=np.zeros((10**5, 3)))
    monkeypatch.setattr("measureflow.words.files.available", lambda: 1e6)
    with pytest.raises(InputError, match=r"it holds 2.4 MB, more than the 1 MB of memory that are free"):
        mf.runs.run("simulate", init="zeros.npz", space="euclidean")


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="is not a run folder"):
        mf.runs.open(tmp_path / "nothing")
    (tmp_path / "config.toml").write_text("n = 3\n")
    with pytest.raises(InputError, match="is not a run folder"):
        mf.runs.open(tmp_path)
