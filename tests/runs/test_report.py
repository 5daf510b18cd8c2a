"""Reports need the folder alone, whoever shows them."""

import subprocess
import sys

import numpy as np
import pytest

import measureflow as mf
from measureflow.runs.report import figure, movie, save, summary_html, table
from measureflow.runs.results import record_of
from measureflow.words import InputError, Series


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    start = mf.Particles.iid(mf.Sphere(2), 5, key=0)
    flow = mf.Flow(mf.SoftmaxAttention.isotropic(2, 4.0), start, np.linspace(0, 1, 5), mf.Heun(0.1))
    spread = Series("spread", lambda mu: mu.points.std(), "spread of the tokens", ".3g", telling=True)
    return mf.runs.record(flow, tmp_path_factory.mktemp("report") / "run", series=[spread], title="Five tokens")


def test_the_table_has_every_series_by_its_label_and_format(run):
    rows = dict(table(run).rows)
    values = run.series["spread"].values
    assert rows["spread of the tokens"] == f"{values[0]:.3g} to {values[-1]:.3g}"
    assert rows["number of clusters"].endswith(str(int(run.series["clusters"].values[-1])))
    assert {"error estimate", "steps", "seconds"} <= set(rows)
    lines = str(table(run)).splitlines()
    assert len({line.index(text) for line, (_, text) in zip(lines, table(run).rows, strict=True)}) == 1  # aligned


def test_a_noisy_error_estimate_is_of_one_path_and_says_its_step(tmp_path):
    start = mf.Particles.iid(mf.Sphere(2), 5, key=0)
    field = mf.SoftmaxAttention.isotropic(2, 4.0)
    flow = mf.Flow(field, start, np.linspace(0, 1, 5), mf.Euler(0.125), noise=mf.Langevin(0.1), key=0)
    text = dict(table(mf.runs.record(flow, tmp_path / "noisy")).rows)["error estimate"]
    assert "pathwise: of this one Brownian path, at steps of 0.125 " in text


def test_the_error_estimate_without_noise_is_of_steps_and_sums(run):
    assert dict(table(run).rows)["error estimate"].endswith("steps, resolution and sums")


def test_numbers_that_overflow_are_told_as_far_as_they_go():
    start = mf.Particles(mf.Sphere(2), np.eye(2))
    path = mf.evolve(mf.Perceptron(np.zeros((2, 1)), np.zeros((1, 2)), [0.0]), start, np.arange(4.0), mf.Euler(1.0))
    values = {"low": [1.0, 2.0, 3.0, 4.0], "high": [1.0, 2.0, np.inf, np.nan], "beyond": [np.inf, np.inf, 1.0, 1.0]}
    rows = dict(table(record_of(path, curves={name: np.array(of) for name, of in values.items()})).rows)
    assert rows["low"] == "1 to 4"
    assert rows["high"] == "1 to 2 at t = 1, then beyond all numbers"
    assert "beyond" not in rows


def test_a_blow_up_of_tokens_is_in_table_title_and_curves(tmp_path):
    start = mf.Particles(mf.Euclidean(1), [[1.0], [1.1], [-0.5]])
    flow = mf.Flow(mf.UnnormalisedAttention.isotropic(1, 1.0), start, np.linspace(0, 2, 21))
    found = mf.runs.record(flow, tmp_path / "blow-up")
    rows, drawn = dict(table(found).rows), figure(found)
    time = found.stats["blow_up_time"]
    assert rows["blow-up time"] == f"{time:.8g}"
    assert rows["last frame"] == f"t = {found.times[-1]:.6g}"
    assert f"blow-up at t = {time:.4g}" in drawn.get_suptitle()
    for ax in drawn.axes:
        (line,) = (line for line in ax.lines if line.get_gid() == "blow-up")
        assert line.get_xdata()[0] == time < ax.get_xlim()[1]


def test_a_notebook_shows_picture_table_and_outcome(run):
    shown = summary_html(run)
    assert run._repr_html_() == shown
    for word in ("Five tokens", "data:image/png;base64,", "spread of the tokens", "Reached t = 1."):
        assert word in shown
    assert "<td>steps</td>" in run.table._repr_html_()


def test_pictures_are_written_in_every_format(run):
    heads = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    for format, head in heads.items():
        assert save(run, format=format)["picture"].read_bytes().startswith(head)
    assert movie(run, run.path / "movie.gif").read_bytes().startswith(b"GIF")


def test_reports_come_out_in_another_process(run):
    code = "import sys, measureflow as mf; run = mf.runs.open(sys.argv[1]); print(run.table); run.figure"
    found = subprocess.run([sys.executable, "-c", code, str(run.path)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == str(table(run))


def test_a_run_without_frames_has_a_table_and_no_picture(tmp_path):
    def never(job, state):
        raise RuntimeError("before the first leg")

    flow = mf.Flow(mf.SoftmaxAttention.isotropic(2, 4.0), mf.Particles(mf.Sphere(2), np.eye(2)), [0.0, 1.0])
    with pytest.raises(RuntimeError, match="before the first leg"):
        mf.runs.record(flow, tmp_path / "run", watch=never)
    run = mf.runs.open(tmp_path / "run")
    assert run.outcome == "Failed after 0 of 2 frames: RuntimeError: before the first leg"
    assert dict(run.table.rows) == {"seconds": "0.0"}
    with pytest.raises(InputError, match="no saved frames to draw"):
        figure(run)


def test_a_limit_has_no_movie(tmp_path):
    still = mf.Flow(mf.SoftmaxAttention.isotropic(2, 0.0), mf.CircleDensity.uniform(4), [0.0, 1e-3])
    run = mf.runs.record(still, tmp_path / "run", verify=False)
    with pytest.raises(InputError, match="`movie` needs tokens"):
        movie(run, tmp_path / "movie.gif")
