"""Tokens spread over devices and processes give the sums and flows of one device."""

import os
import socket
import subprocess
import sys
import textwrap

import jax
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
from measureflow.sums import Dense, Harmonics, Sharded

field, times = mf.SoftmaxAttention.isotropic(3, 4.0), [0.0, 1.0, 3.0]
mu = mf.Particles.iid(mf.Sphere(3), 120, key=0)
ring = Sharded(Dense())
path = mf.evolve(field, ring.spread(mu), times, mf.RK4(0.05), engine=ring)
alone = mf.evolve(field, mu, times, mf.RK4(0.05), engine=Dense()).final.points
for shard in path.final.points.addressable_shards:
    # Steps of one length, so that nothing but the order of sums differs; neighbours part by less than e^3 up to t = 3.
    np.testing.assert_allclose(shard.data, alone[shard.index], rtol=0, atol=1e-13)
assert path.stats["engine"] == "sharded"

# Chosen for the whole sum: harmonics, whose moments are added up.
spread, many = Sharded(), mf.Particles.iid(mf.Sphere(3), 900, key=0)
flow = mf.Flow(field, spread.spread(many.using(spread)), times)
assert isinstance(flow.start.summing.engine, Harmonics)
assert flow.start.engine.engine.tolerance == 1e-10
alone = mf.evolve(field, many, times)
for shard in flow.run().final.points.addressable_shards:
    # The same steps with sums within 1e-10 of each other, which neighbours that part by less than e^3 multiply.
    np.testing.assert_allclose(shard.data, alone.final.points[shard.index], rtol=0, atol=1e-8)
"""


SERIES = """
import re
from measureflow.sums import Dense, Fourier, Harmonics, Sharded, native, nufft, series

def cloud(rng, n, dim):
    # On one side all but two light tokens, which see so little that their sums must be exact; each on a device of its own.
    points = np.eye(dim)[0] + 0.3 * rng.normal(size=(n, dim))
    light = np.isin(np.arange(n), (1, n - 2))
    points[light] = -np.eye(dim)[0] + 0.01 * rng.normal(size=(2, dim))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    lengths = np.where(light, 40.0, rng.uniform(0, 40.0, n))
    return [jnp.asarray(x) for x in (lengths[:, None] * points, points, np.where(light, -25.0, rng.uniform(-2, 0, n)))]

def observable(engine):
    def of(*x):
        seen = engine.attend(*x)
        return jnp.sum(seen.mean ** 3) + jnp.sum(seen.log_mass ** 2)
    return of

def everything(engine, x, along):
    slope = jax.grad(observable(engine), (0, 1, 2))
    # On the circle also the change of the gradient along a direction: forward over reverse.
    return engine.attend(*x), *(jax.jvp(slope, x, along) if x[0].shape[1] == 2 else slope(*x))

def sent(dim, engine, n):
    # The numbers that leave a device, by the program.
    text = jax.jit(Sharded(engine).attend).lower(*cloud(np.random.default_rng(0), n, dim)).compile().as_text()
    kinds = "all-reduce|all-gather|reduce-scatter|collective-permute|all-to-all"
    shapes = [m.group(1) for m in re.finditer(rf"= (.*?) (?:{kinds})(?:-start)?\\(", text)]
    assert shapes
    found = [m.group(1).split(",") for shape in shapes for m in re.finditer(r"\\w+\\[([\\d,]*)\\]", shape)]
    return sum(int(np.prod([int(k) for k in dims if k])) for dims in found)

built = native.available()
for engine, dim, road in ((Fourier(1e-10), 2, built), (Harmonics(1e-10), 3, built), (Harmonics(1e-10), 3, False)):
    native.available = lambda road=road: road
    x, along = (tuple(cloud(np.random.default_rng(seed), 100, dim)) for seed in (0, 1))
    missed = jax.jit(series.by_averages, static_argnums=0)(series.Expansion(type(engine).series, 1e-10), *x)[2]
    assert list(np.flatnonzero(missed)) == [1, 98]
    got, exact = (jax.jit(everything, static_argnums=0)(e, x, along) for e in (Sharded(engine), Dense()))
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(exact), strict=True):
        # The tolerance, for numbers that scores up to 40 and their squares multiply.
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-8 * (1 + np.abs(other).max()))
    assert sent(dim, engine, 3 * 10**3) == sent(dim, engine, 3 * 10**5)

if nufft.available():
    engine, x = nufft.Nufft(40.0, 1e-10), tuple(cloud(np.random.default_rng(0), 100, 2))
    slopes = lambda e: lambda *x: (e.attend(*x), jax.grad(observable(e), (0, 1, 2))(*x))
    got, exact = (jax.jit(slopes(e))(*x) for e in (Sharded(engine), Dense()))
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(exact), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-8 * (1 + np.abs(other).max()))
    assert sent(2, engine, 3 * 10**3) == sent(2, engine, 3 * 10**4)
"""


def start(*parts: str, arguments: tuple[str, ...] = (), devices: int = 1) -> subprocess.Popen:
    script = "\n".join(textwrap.dedent(part) for part in (PREAMBLE, *parts))
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
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


def test_one_device_loses_nothing(arrays):
    programs = [str(jax.make_jaxpr(engine.attend)(*arrays)) for engine in (Sharded(Dense()), Dense())]
    assert programs[0] == programs[1]


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
    finish(start(FLOW, sums, devices=3), start(SERIES, devices=3))


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
