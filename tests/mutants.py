"""Planted bugs: a line of the physics is changed, and what must notice is run. `make mutants`; not part of CI.

Each mutant is a file, what is replaced, by what, and the test that must turn red; those that studies must see are in
`tests/planted.py`. A mutant that escapes somebody who must see it is printed, and the exit code is 1. `python tests/mutants.py
WORD...` tries the mutants whose file holds a word, and of the others those whose test or study does, by these alone.

A bug is planted in a copy of the package. All studies that must see it run in one process, one after the other, so that imports
and compiled programs are shared; a study that takes too long ends the process, and the rest goes on in another. Bugs in settings
of single studies are planted together, theme by theme.
"""

import faulthandler
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from planted import PLANTED, Mutant

ROOT = Path(__file__).parent.parent
MOST_SECONDS = 600
"""For one test or one study."""
WORKERS = 2
"""Processes at once."""

EXPERTS = "tests/networks/test_experts.py"
LOOKS = "tests/models/test_token_geometry.py"
HEADS = "tests/models/test_head_matrices.py"
INSPECT = "tests/commands/inspect/test_inspect.py"
SHARDED = "tests/sums/test_sharded.py"
CROWD = "tests/training/test_head_sums.py"
TABLES = "tests/commands/train/test_tables.py"
MODELS = "tests/models/test_files.py"
EXAMINED = "tests/training/test_examination.py"
MUTANTS = [
    # What is read from files.
    Mutant("files.py", "or bytes_ != there", "or bytes_ > there", "tests/test_files.py"),
    Mutant("files.py", 'if array.dtype.kind == "c":', "if False:", "tests/words/test_files.py"),
    Mutant("files.py", 'decode("utf-8-sig")', 'decode("utf-8")', TABLES),
    Mutant("commands/train/tables.py", "if first[place] in below:", "if True:", TABLES),
    Mutant("commands/train/tables.py", "if len(words) < len(labels):", "if False:", TABLES),
    Mutant("fields/graphs.py", 'dtype.kind not in "iu"', 'dtype.kind not in "iuf"', "tests/fields/test_graphs.py"),
    Mutant("models/files.py", "if offsets[1] - offsets[0] != bytes_:", "if False:", "tests/models/test_models.py"),
    Mutant("models/quantised.py", "reshape(rows, row)", "reshape(rows, row)[::-1]", "tests/models/test_models.py"),
    Mutant("models/architectures.py", "!= H * size:", "== 0:", MODELS),
    Mutant("sweeps/formula.py", "other * math.log2(max(1, abs(one)))", "other", "tests/sweeps/test_formula.py"),
    Mutant("training/examination.py", "found = duality_gap(risk,", "found = duality_gap(convex,", EXAMINED),
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
    # Energies and spaces.
    # Training.
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
        "training/chaos.py", "error / sum(part > 0 for part in parts)", "error / 3", "tests/training/test_budgets.py"
    ),
    Mutant(
        "training/budgets.py",
        "exact[n](fine) - limit(fine)",
        "exact[n](fine) - exact[few](fine)",
        "tests/training/test_budgets.py",
    ),
    Mutant(
        "training/budgets.py",
        "found.any() else 0.0",
        "found.any() else 1.0",
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
    # Features of one's own, and training of neurons with samples and with noise.
    Mutant("training/features.py", "total + paired(*block)", "paired(*block)", "tests/training/test_features.py"),
    Mutant(
        "training/features.py",
        "one = lambda x: mu.weights @",
        "one = lambda x: jnp.full_like(mu.weights, 1 / len(mu.points)) @",
        "tests/training/test_features.py",
    ),
    # Events, rest points, rates and plateaus.
    Mutant("flows/leg.py", "return events.with_(time,", "return events.with_(state.t,", "tests/flows/test_events.py"),
    Mutant("diagnostics/rest.py", "bases, v) / scale)", "bases, v) * scale)", "tests/diagnostics/test_rest.py"),
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
    Mutant(
        "studies/smoothness/token_statistics_behind_the_fourth_root.py",
        "np.sqrt(2 * np.square(g) / (s * np.asarray(log_n)))",
        "np.sqrt(np.square(g) / (s * np.asarray(log_n)))",
        "token-statistics-behind-the-fourth-root",
    ),
    # Closed forms of long times.
    Mutant("theory/synchronization.py", "waves @ slopes / q", "waves @ slopes", "tests/theory/test_synchronization.py"),
    Mutant("theory/centres.py", "-jnp.expm1(n * jnp.log1p(-p)) / p", "1 / p", "tests/theory/test_centres.py"),
    Mutant("theory/retrieval.py", "-2 * jnp.expm1(-slope)", "-jnp.expm1(-slope)", "tests/theory/test_retrieval.py"),
    # Graph networks.
    Mutant("fields/graphs.py", "degrees[rows] if walk", "degrees[columns] if walk", "tests/fields/test_graphs.py"),
    Mutant("fields/graphs.py", "sums((m * r)[:, None] * x)", "sums(r[:, None] * x)", "tests/fields/test_graphs.py"),
    Mutant("fields/graphs.py", "apply(q) - beta * before", "apply(q)", "tests/fields/test_graphs.py"),
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
    Mutant("networks/graphs.py", "np.abs(rest).max()", "rest.max()", "tests/networks/test_graphs.py"),
    Mutant("networks/graphs.py", "b - jnp.logaddexp(2 * a, 2 * b) / 2", "b - a", "tests/networks/test_graphs.py"),
    # Measures to measures.
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
    Mutant("runs/checksums.py", "{name: lines[-1] for", "{name: lines[0] for", "tests/runs/test_checksums.py"),
    Mutant(
        "runs/folder.py", "self._checksums.data(name)", "(self.path / name).read_bytes()", "tests/runs/test_reader.py"
    ),
    Mutant("runs/trust.py", "if not (trust or", "if not (True or", "tests/runs/test_trust.py"),
    Mutant(
        "words/vocabulary.py",
        'exec(compile(held, path, "exec"), module.__dict__)',
        "spec.loader.exec_module(module)",
        "tests/runs/test_trust.py",
    ),
    Mutant("runs/replacement.py", "and chunk)", "and True)", "tests/runs/test_replacement.py"),
    Mutant(
        "runs/job.py", "self.flow if self.alone is None else self.alone", "self.flow", "tests/runs/test_processes.py"
    ),
    Mutant("runs/comparison.py", "+ within]", "]", "tests/runs/test_comparison.py"),
    Mutant("sweeps/ledger.py", "entry = unsealed(entry)", "entry.pop('checksum')", "tests/sweeps/test_ledger.py"),
    Mutant(
        "diagnostics/spread.py",
        "jnp.exp(mu.log_weights / 2)",
        "jnp.exp(mu.log_weights)",
        "tests/diagnostics/test_spread.py",
    ),
    # What is said, kept and returned.
    Mutant("runs/outcomes.py", "return 0 if self.kind in RESULTS else 1", "return 0", "tests/runs/test_outcomes.py"),
    Mutant("cli/showing.py", "return run.ended.code", "return 0", "tests/cli/test_cli.py"),
    Mutant("cli/printing.py", "render_str(plain(text)", "render_str(text", "tests/cli/test_printing.py"),
    Mutant("cli/printing.py", "markup=False", "markup=True", "tests/cli/test_printing.py"),
    Mutant("cli/terminal.py", '"backslashreplace"', '"strict"', "tests/cli/test_terminal.py"),
    Mutant("words/settings.py", "loads(line.encode().decode())", "loads(line)", "tests/words/test_settings.py"),
    Mutant("training/dynamics.py", "if half < root else", "if half > root else", "tests/training/test_dynamics.py"),
]


def groups(mutants: list[Mutant]) -> Iterator[list[Mutant]]:
    """Mutants that are planted at once: those in settings of studies by theme, all others alone."""
    alone = itertools.count()
    kinds = [Path(one.file).parent.name if setting(one) else next(alone) for one in mutants]
    return ([one for one, kind in zip(mutants, kinds, strict=True) if kind == which] for which in dict.fromkeys(kinds))


def setting(mutant: Mutant) -> bool:
    """Whether a mutant is in the file of the one study that must see it."""
    return [Path(mutant.file).stem.replace("_", "-")] == list(mutant.seers)


def plant(mutants: list[Mutant], package: Path) -> None:
    """Change the lines of mutants in a copy of the package."""
    for mutant in mutants:
        file = package / mutant.file
        text = file.read_text()
        if mutant.old not in text or mutant.old == mutant.new:
            raise SystemExit(f"{mutant.file} has no {mutant.old!r} to change: the list of mutants is out of date.")
        file.write_text(text.replace(mutant.old, mutant.new))


def tried(mutants: list[Mutant]) -> dict[str, tuple[bool, str]]:
    """Whether each test and study that must see mutants does, with what it says."""
    names = [name for one in mutants for name in one.seers]
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "src", "measureflow")
        shutil.copytree(ROOT / "src" / "measureflow", package)
        plant(mutants, package)
        tests = {name: tested(folder, name) for name in names if is_test(name)}
        return tests | judged(folder, [name for name in names if not is_test(name)])


def is_test(name: str) -> bool:
    """Whether a name is the address of a test, not the id of a study."""
    return name.startswith("tests/")


def ran(folder: str, *command: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """Python with the package of a folder, and with the compiled programs that the tests share."""
    programs = {"JAX_COMPILATION_CACHE_DIR": str(ROOT / ".pytest_cache/programs"), "OPENBLAS_NUM_THREADS": "1"}
    stored = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    environment = programs | stored | os.environ | {"PYTHONPATH": str(Path(folder, "src")), "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, *command]
    return subprocess.run(
        words, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=seconds
    )


def tested(folder: str, address: str) -> tuple[bool, str]:
    """Whether a test fails in time, and the last line of what it prints."""
    words = "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(ROOT / address)
    try:
        done = ran(folder, *words, seconds=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return False, f"{address}: no result within {MOST_SECONDS} s"
    return done.returncode == 1, f"{address}: {_last(done.stdout)}"


def judged(folder: str, names: list[str]) -> dict[str, tuple[bool, str]]:
    """Whether the verdict of each study is decided and not as expected, and the verdict."""
    found: dict[str, tuple[bool, str]] = {}
    while waiting := [name for name in names if name not in found]:
        done = ran(folder, __file__, "--verdicts", *waiting)
        for name, red, verdict in map(json.loads, filter(lambda line: line.startswith("["), done.stdout.splitlines())):
            found[name] = red, verdict
        if silent := [name for name in waiting if name not in found]:
            found[silent[0]] = False, f"{silent[0]}: no verdict, {_last(done.stderr)}"
    return found


def _last(text: str) -> str:
    return ["", *text.strip().splitlines()][-1]


def verdicts(names: list[str]) -> None:
    """Run studies one after the other and print a line for each; a study that takes too long ends the process."""
    from measureflow import studies

    for name in names:
        faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
        verdict = studies.run(name)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps([name, bool(verdict.checks) and not verdict.as_expected, str(verdict)]), flush=True)  # noqa: T201


def selected(words: list[str]) -> list[Mutant]:
    """The mutants whose file holds one of some words, and others as far as those who must see them do; all without words."""

    def known(mutant: Mutant) -> tuple[str, ...]:
        return tuple(
            name for name in mutant.seers if not words or any(word in mutant.file or word in name for word in words)
        )

    return [one._replace(seen_by=known(one)) for one in (*MUTANTS, *PLANTED) if known(one)]


def main(words: list[str]) -> int:
    """Try the mutants and say which escaped."""
    parts, reds = list(groups(selected(words))), []
    with ThreadPoolExecutor(WORKERS) as pool:
        for group, found in zip(parts, pool.map(tried, parts), strict=True):
            for mutant in group:
                print(f"{mutant.file}: {mutant.new!r}")  # noqa: T201
                for red, said in map(found.get, mutant.seers):
                    print(f"  {'seen   ' if red else 'ESCAPED'}  {said}", flush=True)  # noqa: T201
            reds += [red for red, _ in found.values()]
    print(f"{reds.count(True)} times a planted bug was seen, {reds.count(False)} times it escaped.")  # noqa: T201
    return 0 if all(reds) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--verdicts"]:
        verdicts(sys.argv[2:])
    else:
        raise SystemExit(main(sys.argv[1:]))
