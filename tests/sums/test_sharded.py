"""Tokens spread over devices and processes give the sums and flows of one device."""

import os
import socket
import subprocess
import sys
import textwrap

import jax.numpy as jnp
import numpy as np
import pytest

from measureflow.sums import Dense, Sharded

PREAMBLE = """
import sys
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
"""

FLOW = """
import measureflow as mf
from measureflow.sums import Dense, Sharded

field, times = mf.SoftmaxAttention.isotropic(3, 4.0), [0.0, 1.0, 3.0]
mu = mf.Particles.iid(mf.Sphere(3), 120, key=0)
ring = Sharded(Dense())
path = mf.evolve(field, ring.spread(mu), times, mf.RK4(0.05), engine=ring)
alone = mf.evolve(field, mu, times, mf.RK4(0.05), engine=Dense()).final.points
for shard in path.final.points.addressable_shards:
    # Steps of one length, so that nothing but the order of sums differs; neighbours part by less than e^3 up to t = 3.
    np.testing.assert_allclose(shard.data, alone[shard.index], rtol=0, atol=1e-13)
assert path.stats["engine"] == "sharded"
"""


def start(*parts: str, arguments: tuple[str, ...] = (), devices: int = 1) -> subprocess.Popen:
    script = "\n".join(textwrap.dedent(part) for part in (PREAMBLE, *parts))
    flags = f"--xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(*processes: subprocess.Popen) -> None:
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert all(process.returncode == 0 for process in processes), "\n".join(outputs)


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=shape)) for shape in ((10, 3), (17, 3), (17,))]


def test_one_device_is_a_ring_of_one(arrays):
    got, expected = Sharded(Dense()).attend(*arrays), Dense().attend(*arrays)
    np.testing.assert_allclose(got.mean, expected.mean, atol=1e-14)


@pytest.mark.slow
def test_three_devices_give_the_sums_gradients_and_flows_of_one():
    sums = """
    rng = np.random.default_rng(0)
    arrays = [jnp.asarray(rng.normal(size=shape)) for shape in ((10, 3), (17, 3), (17,))]
    ring = Sharded(Dense())
    assert ring.mesh.size == 3

    def observable(engine):
        return lambda *x: jnp.sum(engine.attend(*x).mean ** 3) + jnp.sum(engine.attend(*x).log_mass ** 2)

    for f in (lambda g: g, lambda g: jax.grad(g, (0, 1, 2))):
        got, expected = (jax.tree.leaves(jax.jit(f(observable(e)))(*arrays)) for e in (ring, Dense()))
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)
    try:
        ring.spread(jnp.ones((4, 2)))
    except ValueError as error:
        assert "4 tokens cannot be spread evenly over 3 devices; take a multiple of 3" in str(error)
    else:
        raise AssertionError("four tokens were spread over three devices")
    row = lambda a: jnp.tanh(arrays[1] @ a).sum()
    np.testing.assert_allclose(ring.rows(row, 17, arrays[0]), Dense().rows(row, 17, arrays[0]), atol=1e-13)
    """
    finish(start(FLOW, sums, devices=3))


@pytest.mark.slow
def test_two_processes_give_the_flow_of_one():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    join = """
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize("127.0.0.1:" + sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))
    assert jax.device_count() == 2 and jax.local_device_count() == 1
    """
    finish(*(start(join, FLOW, arguments=(str(port), str(i))) for i in range(2)))
