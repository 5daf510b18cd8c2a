"""Flows and runs that several tests look at."""

import numpy as np
import pytest

import measureflow as mf


class Broken(BaseException):
    """What ends a run in the middle, as a kill would."""


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A finished small run, which nobody changes."""
    words = {"n": 24, "time": 2.0, "frames": 9, "frames_per_leg": 3}
    return mf.runs.run("simulate", **words, out=str(tmp_path_factory.mktemp("runs") / "small"))


@pytest.fixture(scope="session")
def flow():
    """A function that makes a small flow of six frames."""

    def made(n=5, beta=4.0):
        start = mf.Particles.iid(mf.Sphere(2), n, key=0)
        return mf.Flow(mf.SoftmaxAttention.isotropic(2, beta), start, np.linspace(0, 1, 6), mf.Heun(0.1))

    return made


@pytest.fixture(scope="session")
def break_after():
    """A function that calls another one, which runs something, and breaks it after some frames."""

    def broken(after, run, *arguments, **words):
        def watch(job, state):
            if state.frames >= after:
                raise Broken

        with pytest.raises(Broken):
            run(*arguments, watch=watch, **words)

    return broken
