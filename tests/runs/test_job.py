"""Jobs: what a run stores and how it adds up."""

import jax
import jax.numpy as jnp
import numpy as np

import measureflow as mf
from measureflow.runs.job import Progress
from measureflow.runs.outcomes import STOPPED
from measureflow.runs.recorder import job_for


def test_numbers_are_stored_in_the_precision_of_the_flow(tmp_path):
    start = mf.Particles(mf.Sphere(3), np.eye(3, dtype=np.float32))
    flow = mf.Flow(mf.SoftmaxAttention.isotropic(3, 1.0), start, [0.0, 0.1], mf.Euler(0.1))
    run = mf.runs.record(flow, tmp_path / "run", verify=False)
    assert run.info["precision"] == "float32"
    assert run.data.points.dtype == np.float32


def leg(times, steps):
    """Frames of two tokens that do not move."""
    start = mf.Particles(mf.Sphere(2), np.eye(2))
    return mf.flows.Trajectory(
        times=jnp.asarray(times),
        kept=jax.tree.map(lambda leaf: jnp.stack([leaf] * len(times)), start),
        final=start,
        outcome=mf.flows.Outcome(jnp.asarray(0), jnp.asarray(times[-1]), jnp.asarray(0.0)),
        frames=jnp.asarray(len(times)),
        costs={"steps": jnp.asarray(steps)},
        engine="dense",
    )


def test_costs_of_legs_add_up_and_the_last_values_are_told():
    state = Progress(None)
    assert state.ok
    state.follow(leg([0.0, 1.0], 3), {"order": np.array([0.5, 0.6])})
    state.follow(leg([2.0], 4), {"order": np.array([0.7])})
    assert (state.frames, state.time, state.stats["steps"], state.series) == (3, 2.0, 7, {"order": 0.7})
    state.end(STOPPED, "Enough.")
    assert not state.ok
    assert (state.outcome.kind, state.outcome.sentence, state.outcome.time) == (STOPPED, "Enough.", 2.0)


def test_the_layout_has_the_names_and_sizes_of_what_is_stored(flow):
    job = job_for(flow())
    assert job.layout() == {"points": {"token": 5, "coordinate": 2}}
    assert (job.frames, job.end, job.precision, job.pathwise) == (6, 1.0, "float64", False)
    assert job.fingerprint != job_for(flow(), frames_per_leg=3).fingerprint
    assert job.fingerprint == job_for(flow()).fingerprint
