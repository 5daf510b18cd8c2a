"""Sixty-four tokens on the sphere: evolve them, measure them, draw them."""

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

import measureflow as mf

field = mf.SoftmaxAttention.isotropic(3, beta=1.0)
start = mf.Particles.iid(mf.Sphere(3), 64, key=0)
path = mf.evolve(field, start, jnp.linspace(0, 15, 61), verify=True)

energy = path.map(mf.InteractionEnergy(1.0))
counts = mf.diagnostics.cluster_counts(path, tolerance=0.1)
labels = mf.diagnostics.clusters(path.final, tolerance=0.1).labels
print(path.outcome, path.stats)
print("the number of clusters changes at", [change.before for change in mf.diagnostics.merge_times(path)])

title = "64 tokens on S², softmax attention, β = 1"
curves = {
    "energy": mf.plotting.TimeSeries(energy, "interaction energy E"),
    "clusters": mf.plotting.TimeSeries(counts, "number of clusters", counts=True),
}
mf.plotting.run_figure(mf.plotting.Record(path, curves, title), labels=labels).savefig("first_flow.png")
