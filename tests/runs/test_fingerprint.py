"""A fingerprint is equal for equal flows, in every process, and for no others."""

import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.runs.fingerprint import fingerprint

FLOW = """
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import measureflow as mf
from measureflow.runs.fingerprint import fingerprint
scale = 2.0
field = mf.Varying(lambda t: mf.SoftmaxAttention(scale * jnp.eye(2) * jnp.cos(t), jnp.eye(2)))
print(fingerprint(mf.Flow(field, mf.Particles(mf.Sphere(2), jnp.eye(2)), [0.0, 1.0], key=3)))
"""


def test_two_processes_agree_on_a_flow_with_a_function_in_it():
    found = [
        subprocess.run([sys.executable, "-c", FLOW], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert found[0] == found[1]
    assert len(found[0].strip()) == 16


def a_flow(beta=1.0, n=3, end=1.0, solver=None, **words):
    start = mf.Particles.iid(mf.Sphere(2), n, key=0)
    return mf.Flow(mf.SoftmaxAttention.isotropic(2, beta), start, [0.0, end], solver, **words)


CHANGED = {
    "number": a_flow(beta=1.0 + 1e-15),
    "size": a_flow(n=4),
    "times": a_flow(end=1.1),
    "solver": a_flow(solver=mf.Euler(0.1)),
    "tolerance": a_flow(solver=mf.Adaptive(1e-9)),
    "noise": a_flow(solver=mf.Euler(0.1), noise=mf.Langevin(0.1), key=0),
    "merging": a_flow(merge=0.1),
    "engine": a_flow(engine=mf.sums.Dense()),
}


@pytest.mark.parametrize("kind", CHANGED)
def test_whatever_decides_the_result_changes_it(kind):
    assert fingerprint(a_flow()) == fingerprint(a_flow())
    assert fingerprint(CHANGED[kind]) != fingerprint(a_flow())


def test_functions_count_by_their_code_and_what_they_hold():
    def of(scale):
        return lambda x: scale * x

    assert fingerprint(of(2.0)) == fingerprint(of(2.0))
    assert fingerprint(of(2.0)) != fingerprint(of(3.0))
    assert fingerprint(lambda x: x + 1) != fingerprint(lambda x: x + 2)
    assert fingerprint(partial(of, 2.0)) != fingerprint(partial(of, 3.0))


def test_keys_types_and_shapes_count():
    assert fingerprint(jax.random.key(0)) != fingerprint(jax.random.key(1))
    assert fingerprint(np.zeros(3)) != fingerprint(np.zeros(3, np.float32))
    assert fingerprint(jnp.zeros((2, 3))) != fingerprint(jnp.zeros((3, 2)))
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert fingerprint([1, [2]]) != fingerprint([[1], 2])
