"""Planted bugs: one line of the physics is changed at a time, and what must notice is run. `make mutants`; not part of CI.

Each mutant is a file, what is replaced, by what, and the test or study that must turn red. A mutant that nothing notices is
printed, and the exit code is 1. `python tests/mutants.py WORD...` tries those whose file or check holds a word.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
MOST_SECONDS = 600


class Mutant(NamedTuple):
    """A line to change, and who must see it: a study by its id, or a test by its address."""

    file: str
    old: str
    new: str
    seen_by: str


SOFTMAX = "return mu.attend(xs @ self.interaction.T).mean @ self.value.T"
HARDMAX = "return mu.farthest(xs @ self.interaction.T, self.tie) @ self.value.T"
GROWN = "return (mu.attend(xs @ (growth.T @ A @ growth).T).mean - xs) @ V.T"
EXPERTS = "tests/networks/test_experts.py"
LOOKS = "tests/models/test_token_geometry.py"
HEADS = "tests/models/test_head_matrices.py"
INSPECT = "tests/commands/inspect/test_inspect.py"
SHARDED = "tests/sums/test_sharded.py"
CROWD = "tests/training/test_head_sums.py"
MUTANTS = [
    # Kernels for a card, and what its derivatives are made of.
    Mutant(
        "sums/pallas/lanes.py", "shift / LOG2E + jnp.log(mass)", "shift + jnp.log(mass)", "tests/sums/test_pallas.py"
    ),
    Mutant("sums/pallas/lanes.py", "q = product(i, j, q)", "q = product(i, j, -q)", "tests/sums/test_pallas.py"),
    Mutant("sums/pallas/slopes.py", "w, b, None, g, total", "w, b, None, -g, total", "tests/sums/test_pallas.py"),
    Mutant("sums/pallas/products.py", "+ of(x[1], y[0])", "", "tests/sums/test_pallas.py"),
    Mutant(
        "sums/pallas/modes.py",
        "out_ref[k] = here * walk.count(",
        "out_ref[k] = here + 0 * walk.count(",
        "tests/sums/test_pallas.py",
    ),
    Mutant("sums/series.py", "1.1 * jnp.exp(across", "0.1 * jnp.exp(across", "tests/sums/test_pallas.py"),
    Mutant("sums/averages.py", "kernel=kernel.exchanged())", "kernel=kernel)", "tests/sums/test_fast.py"),
    Mutant(
        "sums/tangent.py", "place[columns, rows] = np", "place[columns, columns] = np", "tests/sums/test_averages.py"
    ),
    # Sums that devices share.
    Mutant("sums/devices.py", "else lax.psum(x, self.axis)", "else x", SHARDED),
    Mutant("sums/devices.py", "first = lax.axis_index(self.axis) * len(a)", "first = 0", SHARDED),
    Mutant("sums/devices.py", "old * mean + new * seen_mean", "new * mean + old * seen_mean", SHARDED),
    Mutant("sums/series.py", "moments * jnp.exp(known[0] - everywhere[0])", "moments", SHARDED),
    Mutant(
        "sums/isolated.py",
        "lax.cond(devices.some(missed), repair, lambda *seen",
        "lax.cond(False, repair, lambda *seen",
        SHARDED,
    ),
    # Heads on a card.
    Mutant("sums/pallas/heads.py", "range(i, self.strip), state)", "range(self.strip), state)", CROWD),
    Mutant("sums/pallas/heads.py", "range(i + 1), state)", "range(i), state)", CROWD),
    Mutant("sums/pallas/heads.py", "-means[r]), key)", "crowd.full(0.0)), key)", CROWD),
    Mutant("sums/pallas/heads.py", "of_key[j] * (1 / LOG2E)", "of_key[j]", CROWD),
    Mutant("sums/pallas/heads.py", "% parts * rows", "% parts", CROWD),
    # Three that once escaped every study and test.
    Mutant(
        "training/certificates.py",
        "gap = float(mu.weights @ on_support",
        "gap = float(on_support.mean()",
        "minimiser-support-condition-and-duality-gap",
    ),
    Mutant("theory/gaussian.py", "return V @ A + A.T @ V.T", "return V @ A + A.T @ V", "tests/theory/test_gaussian.py"),
    Mutant("fields/rescaled.py", "(growth.T @ A @ growth)", "(growth @ A @ growth)", "tests/fields/test_attention.py"),
    # Averages over Gaussians, and what errors are made of.
    Mutant("measures/gaussian.py", "- jnp.log(jnp.diag(C)).sum()", "", "tests/measures/test_gaussian.py"),
    Mutant("measures/gaussian.py", "jnp.exp(log_mass - self.log_mass) *", "", "tests/measures/test_gaussian.py"),
    Mutant("measures/gaussian.py", "spread @ self.root.T)", "spread @ self.root)", "tests/measures/test_gaussian.py"),
    Mutant("flows/solvers.py", "return 1 - 1 / TIGHTER", "return TIGHTER", "tests/flows/test_flow.py"),
    Mutant("flows/flow.py", "difference / gain + moved", "difference / gain", "tests/flows/test_flow.py"),
    Mutant("flows/flow.py", "return error + _distance(", "return error + 0 * _distance(", "tests/flows/test_flow.py"),
    # Sweeps: what is drawn, what is known, what is told.
    Mutant(
        "diagnostics/order.py",
        "max(n * (n - 1), 1)\n\n\ndef _scores",
        "max(n * n, 1)\n\n\ndef _scores",
        "tests/diagnostics/test_order.py",
    ),
    Mutant(
        "diagnostics/order.py",
        "total @ total - jnp.sum(mu.points**2)",
        "total @ total",
        "tests/diagnostics/test_order.py",
    ),
    Mutant("spaces/sphere.py", "y[i] for i in range(len(x))]", "y[i] for i in range(len(x) - 1)]", "tests/spaces"),
    Mutant(
        "words/initial_laws.py",
        "(1 - OVERLAP + n * OVERLAP) ** 0.5 - a",
        "(1 + n * OVERLAP) ** 0.5 - a",
        "tests/diagnostics/test_order.py",
    ),
    Mutant(
        "sweeps/design.py",
        "[asked.seed, zlib.crc32(name.encode())]",
        "[asked.seed, len(words)]",
        "tests/sweeps/test_design.py",
    ),
    Mutant("sweeps/cells.py", 'plain | {"files": files} if files else plain', "plain", "tests/sweeps/test_cells.py"),
    Mutant("sweeps/batches.py", "jnp.maximum(path.frames - 1, 0)", "0", "tests/sweeps/test_batches.py"),
    Mutant("sweeps/ledger.py", 'rfind(b"\\n") + 1', 'rfind(b"\\n") + 2', "tests/sweeps/test_ledger.py"),
    Mutant("plotting/sweeps.py", "np.maximum(count - 1, 1)", "np.maximum(count, 1)", "tests/plotting/test_sweeps.py"),
    Mutant("sweeps/overlays.py", 'settings["n"], betas', '2 * settings["n"], betas', "tests/sweeps/test_overlays.py"),
    # Attention.
    Mutant(
        "fields/attention.py", HARDMAX, HARDMAX.replace("n.T,", "n,"), "negative-key-query-contracts-hardmax-to-zero"
    ),
    Mutant(
        "fields/attention.py", HARDMAX, HARDMAX.replace("xs", "-xs"), "negative-key-query-contracts-hardmax-to-zero"
    ),
    Mutant("fields/attention.py", SOFTMAX, SOFTMAX.replace("mu.a", "-mu.a"), "negative-value-matrix-contracts-to-zero"),
    Mutant("fields/attention.py", SOFTMAX, SOFTMAX.replace("xs", "xs / 2"), "negative-value-matrix-contracts-to-zero"),
    Mutant(
        "fields/attention.py",
        SOFTMAX,
        SOFTMAX.replace("interaction.T", "interaction"),
        "attention-slope-bounded-by-value-key-radius",
    ),
    Mutant(
        "fields/attention.py",
        SOFTMAX,
        SOFTMAX.replace("value.T", "value"),
        "attention-slope-bounded-by-value-key-radius",
    ),
    Mutant(
        "fields/attention.py",
        "return jnp.exp(seen.log_mass)[:, None] * seen.mean @",
        "return seen.mean @",
        "layernorm-unnormalised-is-flow-on-the-sphere",
    ),
    Mutant(
        "fields/attention.py",
        "seen.attend(2 * xs @ self.query.T",
        "seen.attend(xs @ self.query.T",
        "attention-slope-bounded-by-value-key-radius",
    ),
    Mutant(
        "measures/cloud.py",
        "self.engine.attend(covectors, self.points, self.log_weights)",
        "self.engine.attend(covectors, self.points, 0 * self.log_weights)",
        "negative-value-matrix-contracts-to-zero",
    ),
    Mutant("fields/sinkhorn.py", "attend(y @ A)", "attend(y @ A.T)", "attention-slope-bounded-by-value-key-radius"),
    Mutant("fields/rescaled.py", GROWN, GROWN.replace(").T)", "))"), "good-triple-gives-at-most-three-hyperplanes"),
    Mutant("fields/rescaled.py", GROWN, GROWN.replace("(xs", "(-xs"), "good-triple-gives-at-most-three-hyperplanes"),
    Mutant("fields/heads.py", "@ self.W.T", "@ self.W", "gaussian-closure-survives-affine-feed-forward"),
    # Energies and spaces.
    Mutant(
        "energies/base.py",
        "return -jax.grad(lambda points",
        "return jax.grad(lambda points",
        "negative-translation-direction-is-unstable",
    ),
    Mutant(
        "spaces/sphere.py", "return v - _inner(x, v) * x", "return v", "layernorm-unnormalised-is-flow-on-the-sphere"
    ),
    # Training.
    Mutant(
        "training/certificates.py",
        "jnp.sum(descent(energy, mu) ** 2, -1))",
        "jnp.sum(descent(energy, mu) ** 2, -1) / 2)",
        "risk-dissipation-identity",
    ),
    Mutant("training/dynamics.py", "FACTOR = 2.0", "FACTOR = 1.0", "orbit-converges-to-the-stationary-set"),
    Mutant(
        "training/risk.py",
        "shares[chosen] * (len(inputs) / size)",
        "shares[chosen]",
        "mean-field-gradient-is-n-times-head-gradient",
    ),
    Mutant("training/losses.py", "return 2 * (z - y)", "return z - y", "tests/training/test_losses.py"),
    Mutant("training/losses.py", "(v - jnp.sum(p * v, -1, keepdims=True))", "v", "tests/training/test_losses.py"),
    Mutant(
        "training/neuron_sums.py",
        "(weights[:, None] * neurons.out(points))",
        "neurons.out(points)",
        "tests/training/test_neurons.py",
    ),
    Mutant(
        "training/neuron_landscape.py",
        "-alpha * low / 2, 0.0)",
        "-alpha * low / 3, 0.0)",
        "tests/training/test_networks.py",
    ),
    Mutant(
        "training/neuron_landscape.py",
        "bounds.curvature * r**2 / 2",
        "bounds.curvature * r**2 / 4",
        "tests/training/test_networks.py",
    ),
    Mutant("training/head_risk.py", "size * a / jnp.maximum", "size / jnp.maximum", "tests/training/test_networks.py"),
    Mutant(
        "training/optimum.py",
        "value, base = loss + float(weights @ costs), loss -",
        "value, base = loss + float(weights @ costs), loss + float(weights @ costs) -",
        "tests/training/test_networks.py",
    ),
    Mutant("training/neurons.py", '2 * blocks["output"] - ', 'blocks["output"] - ', "tests/training/test_networks.py"),
    Mutant(
        "training/chaos.py", "error / sum(part > 0 for part in self)", "error / 3", "tests/training/test_budgets.py"
    ),
    Mutant("training/budgets.py", "exact[n] - limit[None]", "exact[n] - exact[few]", "tests/training/test_budgets.py"),
    Mutant(
        "training/budgets.py",
        "self.risk.any() else 0.0",
        "self.risk.any() else 1.0",
        "tests/training/test_budgets.py",
    ),
    Mutant("training/activations.py", "m * gate.chance + gate.spill", "m * gate.chance", "tests/networks"),
    Mutant("training/activations.py", "m / width**3 * _density", "m / width * _density", "tests/networks"),
    Mutant("training/neurons.py", "law.slope(m, v)[:, None] * covariance", "0 * covariance", "tests/networks"),
    Mutant(
        "training/neurons.py",
        'along = m + centre["bias"], along + spread["bias"][None]',
        'along = m + centre["bias"], along',
        "tests/networks",
    ),
    Mutant("networks/covariances.py", "return 1.0 / dim", "return 1.0", "tests/networks"),
    # Constants of the theory of training.
    Mutant(
        "training/bounds.py",
        "bend = jnp.sqrt(jax.lax.map(row, units).sum(0))",
        "bend = jax.lax.map(row, units).sum(0)",
        "tests/training/test_bounds.py",
    ),
    Mutant(
        "training/bounds.py", "total + pack[0] * one(pack[1])", "total + one(pack[1])", "tests/training/test_bounds.py"
    ),
    Mutant(
        "training/bounds.py",
        "Domination(2 * least * share",
        "Domination(4 * least * share",
        "tests/training/test_bounds.py",
    ),
    Mutant("training/bounds.py", "np.maximum(2 * excess,", "np.maximum(excess,", "tests/training/test_bounds.py"),
    Mutant(
        "training/bounds.py",
        "np.linalg.svd(np.ones((1, V)))[2][1:]",
        "np.linalg.svd(np.ones((1, V)))[2]",
        "tests/training/test_bounds.py",
    ),
    Mutant("training/bounds.py", "1 + 2 * k * slope / (np.e", "1 + k * slope / (np.e", "tests/training/test_bounds.py"),
    Mutant(
        "training/bounds.py",
        "if reach * change <= least",
        "if reach * change <= 8 * least",
        "tests/training/test_bounds.py",
    ),
    Mutant("training/profiles.py", "return 1 / float(self.scale)", "return 1.0", "tests/training/test_bounds.py"),
    Mutant(
        "training/assumptions.py",
        "if settled else None, text)",
        "if settled else False, text)",
        "tests/training/test_bounds.py",
    ),
    Mutant(
        "training/perturbation.py",
        "return risk.criterion.smoothness * jnp.sum",
        "return jnp.sum",
        "tests/training/test_bounds.py",
    ),
    Mutant("networks/gaussian.py", "g, mass: g / mass", "g, mass: g", "tests/networks"),
    # Mixtures of experts.
    Mutant("networks/experts.py", "return gates / gates.sum() if", "return gates if", EXPERTS),
    Mutant("networks/experts.py", "gates = self.gate(scores)[chosen]", "gates = self.gate(scores[chosen])", EXPERTS),
    Mutant("networks/experts.py", "@ self.experts.take(chosen)(x)", "@ self.experts(x)[: self.active]", EXPERTS),
    Mutant(
        "networks/experts.py", "self.outputs, jax.nn.relu(self.weights @ x)", "self.outputs, self.weights @ x", EXPERTS
    ),
    Mutant("networks/experts.py", ".swapaxes(1, 2)", "", EXPERTS),
    Mutant("networks/experts.py", "even[0] / even[1]", "even[1] / even[1]", EXPERTS),
    Mutant(
        "networks/experts.py", "jnp.repeat(self.router, parts, axis=0)", "jnp.tile(self.router, (parts, 1))", EXPERTS
    ),
    Mutant("networks/experts.py", "/ chosen.size", "/ len(xs)", EXPERTS),
    Mutant("networks/experts.py", "jax.lax.stop_gradient(self.load(xs)) @ p", "p @ p", EXPERTS),
    Mutant("theory/experts.py", "- gammaln(k + 1)", "", "tests/theory/test_experts.py"),
    Mutant("theory/experts.py", "* distance**2 / 2", "* distance**2", "tests/theory/test_experts.py"),
    Mutant("theory/experts.py", "math.comb(n - 1, i)", "math.comb(n - 2, i)", "tests/theory/test_experts.py"),
    Mutant("theory/experts.py", "jnp.log2(m / k)", "jnp.log2(m)", "tests/theory/test_experts.py"),
    Mutant("theory/experts.py", "return 2 * active", "return 2 * active - 1", "tests/theory/test_experts.py"),
    Mutant("theory/experts.py", "* distance**2 / 2", "* distance**2", "moe-coarse-student-error-floor"),
    Mutant("energies/base.py", "return -mean, -root", "return -mean, root", "gm-descent-on-square-root-is-bures-flow"),
    # Features of one's own, and training of neurons with samples and with noise.
    Mutant("training/features.py", "total + paired(*block)", "paired(*block)", "tests/training/test_features.py"),
    Mutant(
        "training/features.py",
        "one = lambda x: mu.weights @",
        "one = lambda x: jnp.full_like(mu.weights, 1 / len(mu.points)) @",
        "tests/training/test_features.py",
    ),
    Mutant(
        "training/chaos.py",
        "curved(z, risk.targets, d), -1)) / 2",
        "curved(z, risk.targets, d), -1))",
        "static-gap-below-monte-carlo-bound",
    ),
    Mutant(
        "training/bounds.py",
        "return Basin(reach / (1 +",
        "return Basin(reach * (1 +",
        "stable-head-attracts-its-basin",
    ),
    Mutant(
        "theory/bounds.py",
        "u = 2 * interaction * query * radius",
        "u = interaction * query * radius",
        "flow-is-stable-in-wasserstein-distance",
    ),
    Mutant(
        "theory/heads.py",
        "return x * b * e * jnp.sqrt(2 + 2 * x**4 * b**4 / k)",
        "return b * e * jnp.sqrt(2 + 2 * x**4 * b**4 / k) / 2",
        "attention-feature-derivatives-are-bounded",
    ),
    Mutant(
        "training/dynamics.py",
        "FACTOR = 2.0",
        "FACTOR = 1.0",
        "neurons-follow-the-radial-equation-of-isotropic-gaussians",
    ),
    Mutant("training/dynamics.py", "Langevin(FACTOR * ", "Langevin(", "noisy-neurons-reach-one-law"),
    Mutant("training/free_energies.py", "score = inverse_temperature * ", "score = ", "noisy-neurons-reach-one-law"),
    Mutant("theory/bounds.py", "return 2 * slope", "return 3 * slope", "attention-slope-bounded-by-value-key-radius"),
    Mutant(
        "transport/distances.py",
        "** (1 / p)",
        "",
        "empirical-rate-sees-pieces-and-intrinsic-dimension",
    ),
    # Events, rest points, rates and plateaus.
    Mutant("flows/leg.py", "return events.with_(time,", "return events.with_(state.t,", "tests/flows/test_events.py"),
    Mutant(
        "flows/depth.py",
        "number + step * rate",
        "number + 1.01 * step * rate",
        "residual-depth-has-no-gaussian-blow-up",
    ),
    Mutant("diagnostics/rest.py", "bases, v) / scale)", "bases, v) * scale)", "tests/diagnostics/test_rest.py"),
    Mutant(
        "diagnostics/rest.py",
        "jax.vmap(mu.space.project)(points))",
        "points)",
        "polygons-and-simplices-are-strict-saddles",
    ),
    Mutant(
        "diagnostics/fitting.py", "off = 2 * line.error + line.bend", "off = 0.0", "tests/diagnostics/test_fitting.py"
    ),
    Mutant(
        "diagnostics/fitting.py", "for i in begins if", "for i in begins[:1] if", "tests/diagnostics/test_fitting.py"
    ),
    Mutant("diagnostics/staircase.py", "(low + high) / 2)", "low)", "tests/diagnostics/test_staircase.py"),
    Mutant(
        "diagnostics/dendrogram.py",
        "gaps[other] = width if 2 * tokens[one] >= tokens[other] else gaps[n + i]",
        "gaps[other] = width",
        "tests/diagnostics/test_diagnostics.py",
    ),
    Mutant(
        "diagnostics/dendrogram.py",
        " and self._apart(i, odds[i])",
        "",
        "tests/diagnostics/test_diagnostics.py",
    ),
    Mutant("flows/stepping.py", "weights[0] * k[0]", "weights[0] * k[0] / 2", "tests/flows/test_flow.py"),
    # Closed forms of long times.
    Mutant(
        "theory/metastability.py", "start) * one / (one", "start) * other / (one", "two-cluster-merge-time-and-place"
    ),
    Mutant("theory/metastability.py", "(beta * kappa *", "(2 * beta * kappa *", "two-cluster-merge-time-and-place"),
    Mutant("theory/synchronization.py", "waves @ slopes / q", "waves @ slopes", "tests/theory/test_synchronization.py"),
    Mutant(
        "theory/rates.py", "(dim - 1) / 2 * antipode", "dim / 2 * antipode", "mean-field-rate-is-set-by-the-antipode"
    ),
    Mutant("theory/modes.py", "+ s * norm.pdf(middle / s)", "", "kde-mode-count-table"),
    Mutant("theory/centres.py", "-jnp.expm1(n * jnp.log1p(-p)) / p", "1 / p", "tests/theory/test_centres.py"),
    Mutant("theory/retrieval.py", "-2 * jnp.expm1(-slope)", "-jnp.expm1(-slope)", "tests/theory/test_retrieval.py"),
    # Graph networks.
    Mutant("fields/graphs.py", "degrees[rows] if walk", "degrees[columns] if walk", "tests/fields/test_graphs.py"),
    Mutant("fields/graphs.py", "sums((m * r)[:, None] * x)", "sums(r[:, None] * x)", "tests/fields/test_graphs.py"),
    Mutant("fields/graphs.py", "apply(q) - beta * before", "apply(q)", "tests/fields/test_graphs.py"),
    Mutant(
        "networks/weights.py",
        "s[:, None] * w).max(-1)",
        "s[:, None] * w).min(-1)",
        "gnn-residual-rate-with-fixed-weights",
    ),
    Mutant("networks/weights.py", "psi(k / 2 + p)", "psi(k / 2 + p + 1)", "gnn-residual-rate-with-gaussian-weights"),
    Mutant("networks/weights.py", "s**2 * (k - 4)", "s**2 * (k + 4)", "tests/networks/test_graphs.py"),
    Mutant("networks/weights.py", "scale / np.sqrt(2), 2 * k)", "scale, 2 * k)", "tests/networks/test_graphs.py"),
    Mutant(
        "networks/weights.py",
        "np.log(a) + log_length(b / a, 1)",
        "log_length(b / a, 1)",
        "tests/networks/test_graphs.py",
    ),
    Mutant(
        "networks/weights.py",
        "np.maximum(1 - reach, 0.0)",
        "np.maximum(1 + reach, 0.0)",
        "tests/networks/test_graphs.py",
    ),
    Mutant(
        "networks/graphs.py",
        "exp(min(0.0, growths",
        "exp(max(-9.0, growths",
        "gnn-negative-weights-prevent-oversmoothing",
    ),
    Mutant("networks/graphs.py", "np.abs(rest).max()", "rest.max()", "tests/networks/test_graphs.py"),
    Mutant("networks/graphs.py", "v - graph.project(v), b)", "v, b)", "gnn-rate-without-residual-is-eigenvalue-ratio"),
    Mutant("networks/graphs.py", "b - jnp.logaddexp(2 * a, 2 * b) / 2", "b - a", "tests/networks/test_graphs.py"),
    Mutant("theory/context.py", "c ** (-m / 2)", "c ** (-m)", "uniform-keys-are-critical-at-a-power-of-their-number"),
    # Measures to measures.
    Mutant("fields/heads.py", "centre[None], -jnp.cos(", "centre[None], jnp.cos(", "gate-acts-only-inside-its-ball"),
    Mutant(
        "fields/heads.py",
        "logs = logs - jax.nn.logsumexp(logs)",
        "logs = logs + 0",
        "tests/networks/test_interpolation.py",
    ),
    Mutant(
        "networks/routing.py",
        "/ ((np.cos(s) - np.cos(radius)) * np.cos(s))",
        "/ (np.cos(s) - np.cos(radius))",
        "tests/networks/test_interpolation.py",
    ),
    Mutant(
        "networks/routing.py",
        "np.log(np.tan(half) / np.tan(within / 2))",
        "np.log(half / 2 / within)",
        "tests/networks/test_interpolation.py",
    ),
    Mutant("networks/routing.py", "CLEAR * (angles", "1.5 * (angles", "tests/networks/test_interpolation.py"),
    Mutant(
        "networks/interpolation.py",
        "logs = -0.5 * np.log(",
        "logs = -0.4 * np.log(",
        "tests/networks/test_interpolation.py",
    ),
    Mutant(
        "networks/interpolation.py",
        "np.tan((np.pi - free) / 2)",
        "((np.pi - free) / 2)",
        "tests/networks/test_interpolation.py",
    ),
    Mutant(
        "networks/interpolation.py",
        "(faster(field, -1.0), time)",
        "(faster(field, 1.0), time)",
        "tests/networks/test_interpolation.py",
    ),
    # Checkpoints.
    Mutant(
        "fields/blocks.py",
        "[x * cos - y * sin, x * sin + y * cos], -1)",
        "[x * cos, x * sin + y * cos], -1)",
        "tests/models",
    ),
    Mutant("fields/blocks.py", "jax.vmap(self.after)(xs + v) - xs", "jax.vmap(self.after)(xs + v)", "tests/models"),
    Mutant("fields/blocks.py", "_moved(tokens, at))", "_moved(tokens, 2 * at))", "tests/models"),
    Mutant(
        "models/architectures.py",
        "reshape(len(matrix), heads, -1).swapaxes(0, 1)",
        "reshape(heads, len(matrix), -1)",
        "tests/models",
    ),
    Mutant("models/architectures.py", ".reshape(3, H, d // H,", ".reshape(3, d // H, H,", "tests/models"),
    Mutant("models/model.py", "hke,hkd->hed", "hkd,hke->hed", "tests/models"),
    # Looks at checkpoints.
    Mutant("models/token_geometry.py", "(pairs * cos).sum()", "(both * cos).sum()", LOOKS),
    Mutant("models/token_geometry.py", "jnp.exp(beta * (cos - 1))", "jnp.exp(beta * cos)", LOOKS),
    Mutant("models/attention_maps.py", "others = visible & ~jnp.eye(n, dtype=bool)", "others = visible", LOOKS),
    Mutant("models/attention_maps.py", "jnp.where(visible, beta * cos, -jnp.inf)", "beta * cos", LOOKS),
    Mutant("models/token_geometry.py", "pairs & now & ~was", "pairs & now", LOOKS),
    Mutant("models/head_matrices.py", "(1 + trace / square) / 2", "trace / square", HEADS),
    Mutant("models/head_matrices.py", "np.maximum(-real, real / 8)", "np.maximum(-real, real)", HEADS),
    Mutant("models/head_matrices.py", "one[0].swapaxes(1, 2) @ other[0]", "other[0].swapaxes(1, 2) @ one[0]", HEADS),
    Mutant("models/head_matrices.py", "left.transpose(1, 0, 2).reshape(d, n * k)", "left.reshape(d, n * k)", HEADS),
    Mutant("models/head_matrices.py", "(np.real(first) > 0) &", "", HEADS),
    Mutant("models/null_models.py", "part.up @ rotations(), rotations()", "part.up, rotations()", HEADS),
    Mutant("models/lipschitz.py", " - np.outer(heads.value[h] @ u, u)", "", HEADS),
    Mutant("models/lipschitz.py", "else (1.0, 0.5)", "else (1.0, 1.0)", HEADS),
    Mutant("models/lipschitz.py", "float(np.hypot(radius, 1.0))", "radius", HEADS),
    Mutant("models/lipschitz.py", "else scale * np.asarray(bias", "else np.asarray(bias", HEADS),
    Mutant("models/extended_depth.py", "int(last[-1])", "int(last[0])", HEADS),
    Mutant("models/windows.py", "(0, 1, 3, 5, 2, 4)", "(0, 1, 3, 2, 4, 5)", INSPECT),
    Mutant("fields/blocks.py", "group = h // (len(self.query) // len(self.key))", "group = h % len(self.key)", HEADS),
    Mutant("fields/blocks.py", "else self.places.astype(xs.dtype)", "else jnp.arange(len(xs)).astype(xs.dtype)", HEADS),
    Mutant("commands/inspect/job.py", "Packed(null.stack", "Packed(model.stack", INSPECT),
    Mutant("commands/inspect/analysis.py", "(values * x).sum(-1) / (x**2).sum()", "(values * x).sum(-1)", INSPECT),
    Mutant("runs/folder.py", 'array.with_config({"write_empty_chunks": True})', "array", INSPECT),
    Mutant(
        "diagnostics/spread.py",
        "jnp.exp(mu.log_weights / 2)",
        "jnp.exp(mu.log_weights)",
        "tests/diagnostics/test_spread.py",
    ),
    # Claims that could come out otherwise.
    Mutant(
        "training/dynamics.py",
        "jax.random.fold_in(self.key, k), self.batch",
        "jax.random.fold_in(self.key, 0 * k), self.batch",
        "sgd-tracks-the-mean-field-equation-within-the-bound",
    ),
    Mutant(
        "studies/training/split_heads.py",
        "return -GradientFlow(ENERGY)",
        "return mu.points - mu.points.mean(0) - GradientFlow(ENERGY)",
        "strong-monotonicity-over-all-couplings-as-published",
    ),
    Mutant(
        "training/dynamics.py",
        "FACTOR = 2.0",
        "FACTOR = 1.5",
        "strong-monotonicity-over-optimal-couplings-contracts",
    ),
]


def seen(mutant: Mutant) -> bool:
    """Whether what must notice a mutant does."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", Path(folder, "src"))
        file = Path(folder, "src", "measureflow", mutant.file)
        text = file.read_text()
        if mutant.old not in text or mutant.old == mutant.new:
            raise SystemExit(f"{mutant.file} has no {mutant.old!r} to change: the list of mutants is out of date.")
        file.write_text(text.replace(mutant.old, mutant.new))
        test = mutant.seen_by.startswith("tests/")
        study = f"import sys; from measureflow.cli import main; sys.exit(main(['study', 'run', {mutant.seen_by!r}]))"
        command = (
            ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(ROOT / mutant.seen_by)]
            if test
            else ["-c", study]
        )
        environment = os.environ | {"PYTHONPATH": str(Path(folder, "src")), "JAX_PLATFORMS": "cpu"}
        done = subprocess.run(
            [sys.executable, *command],
            env=environment,
            cwd=folder,
            capture_output=True,
            timeout=MOST_SECONDS,
            check=False,
        )
    return done.returncode == 1


def main(words: list[str]) -> int:
    """Try the mutants and say which escaped."""
    chosen = [one for one in MUTANTS if not words or any(word in one.file or word in one.seen_by for word in words)]
    escaped = []
    for k, mutant in enumerate(chosen, 1):
        found = seen(mutant)
        word = "seen" if found else "ESCAPED"
        print(f"{k:3d} of {len(chosen)}  {word}  {mutant.file}: {mutant.new!r} by {mutant.seen_by}", flush=True)  # noqa: T201
        escaped += [] if found else [mutant]
    print(f"{len(chosen) - len(escaped)} of {len(chosen)} planted bugs were seen.")  # noqa: T201
    return 1 if escaped else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
