"""Planted bugs that studies must see: for every study a change of one formula that turns its verdict.

A bug is a plausible mistake, a sign, a factor, a transposition or a term that is missing, in the library or in the study's own
setting. Most formulas of the library serve many studies, so a bug names all those that are asked to see it, and each study is
asked by one bug or two. A study sees a bug if its verdict is decided and not as expected: a claim believed true then differs, and
one believed false holds, or differs for another reason than the known one. An error or a run without end is no verdict.

`make mutants` plants them, and `tests/test_mutants.py` asks that every study is named here or in `tests/mutants.py`.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    """A line to change in a file, and who must see it: studies by their ids, or a test by its address."""

    file: str
    old: str
    new: str
    seen_by: str | tuple[str, ...]

    @property
    def seers(self) -> tuple[str, ...]:
        """Who must see it, one or several."""
        return (self.seen_by,) if isinstance(self.seen_by, str) else self.seen_by


SOFTMAX = "return mu.attend(xs @ self.interaction.T).mean @ self.value.T"
HARDMAX = "return mu.farthest(xs @ self.interaction.T, self.tie) @ self.value.T"
UNNORMALISED = "return jnp.exp(seen.log_mass)[:, None] * seen.mean @ self.value.T"

PLANTED = [
    # Attention.
    Mutant(
        "fields/attention.py",
        SOFTMAX,
        SOFTMAX.replace("interaction.T", "interaction"),
        (
            "attention-is-permutation-equivariant",
            "attention-jacobian-formula",
            "attention-slope-bounded-by-value-key-radius",
            "causal-tokens-follow-the-first-token",
            "causal-top-eigenspace-decides-the-limit",
            "deck-attention-table-is-column-softmax",
            "gaussian-closure-survives-affine-feed-forward",
            "gaussian-softmax-field-is-affine",
            "masked-attention-ignores-future-tokens",
        ),
    ),
    Mutant(
        "fields/attention.py",
        SOFTMAX,
        SOFTMAX.replace("mu.a", "2 * mu.a"),
        (
            "attention-lipschitz-lower-bound",
            "attention-lipschitz-upper-bound",
            "attention-measure-sensitivity-constant",
            "causal-sequences-refine-to-masked-mean-field",
            "clustering-time-is-logarithmic",
            "contracting-variants-share-one-over-t-law",
            "equiangular-reduction-of-the-sphere-dynamics",
            "gaussian-blow-up-time",
            "gaussian-clustering-limit",
            "hemisphere-start-contracts-exponentially",
            "high-dimension-follows-the-equiangular-curve",
            "pre-norm-slows-clustering-to-a-power",
            "residual-steps-are-stable-up-to-twice-the-inverse-rate",
            "riccati-closed-form",
            "strong-centres-stay-put-for-long-times",
            "support-radius-grows-at-most-exponentially",
        ),
    ),
    Mutant(
        "fields/attention.py",
        UNNORMALISED,
        UNNORMALISED.replace("jnp.exp(seen.log_mass)[:, None] * ", ""),
        (
            "causal-attention-is-not-a-gradient-flow",
            "collapse-rate-for-general-matrices",
            "gaussian-linear-relu-sigmoid-unnormalised-fields",
            "large-beta-allows-several-clusters",
            "layernorm-unnormalised-is-flow-on-the-sphere",
            "mean-field-rate-is-set-by-the-antipode",
            "softmax-attention-is-not-a-wasserstein-gradient-flow",
            "three-clusters-stable-below-minus-two-thirds",
            "time-dependent-weights-energy-balance",
            "uniform-state-mode-growth-rates",
            "unnormalised-attention-is-flow-of-half-energy",
            "unnormalised-energy-without-half-as-published",
            "unnormalised-linear-relu-violate-radius-bound",
        ),
    ),
    Mutant(
        "fields/attention.py",
        UNNORMALISED,
        UNNORMALISED.replace("jnp.exp", "-jnp.exp"),
        (
            "mean-field-converges-exponentially-to-a-dirac",
            "noisy-transition-is-a-jump-beyond-the-type-change",
            "unnormalised-single-token-blows-up",
        ),
    ),
    Mutant(
        "fields/attention.py",
        "seen.attend(2 * xs @ self.query.T",
        "seen.attend(xs @ self.query.T",
        (
            "gaussian-l2-and-sinkhorn-fields-are-affine",
            "l2-attention-never-blows-up-as-published",
            "l2-attention-no-blow-up-when-keys-injective",
            "sinkhorn-heat-limit",
        ),
    ),
    Mutant(
        "fields/attention.py",
        "return mu.ridge(jax.nn.sigmoid, ",
        "return 2 * mu.ridge(jax.nn.sigmoid, ",
        (
            "sigmoid-attention-has-no-global-solution-as-published",
            "sigmoid-attention-keeps-the-radius-bound",
        ),
    ),
    Mutant(
        "fields/attention.py",
        HARDMAX,
        HARDMAX.replace("xs", "-xs"),
        (
            "hardmax-empties-the-cells-of-its-leaders",
            "negative-key-query-contracts-hardmax-to-zero",
            "negative-key-query-contracts-hardmax-to-zero-as-published",
        ),
    ),
    Mutant("fields/sinkhorn.py", "attend(y @ A)", "attend(y @ A.T)", ("sinkhorn-kernel-is-doubly-stochastic",)),
    Mutant(
        "fields/rescaled.py",
        "expm(jnp.asarray(t, xs.dtype) * V)",
        "expm(-jnp.asarray(t, xs.dtype) * V)",
        (
            "good-triple-gives-at-most-three-hyperplanes",
            "one-dimensional-attention-becomes-boolean",
            "rescaled-tokens-reach-polytope-boundary",
        ),
    ),
    Mutant(
        "fields/normalisation.py",
        "return self.alpha * _sizes(xs) * _along(xs, seen / _sizes(seen))",
        "return _sizes(xs) * _along(xs, seen / _sizes(seen)) / self.alpha",
        ("ngpt-contraction-scale-as-published", "ngpt-contraction-scale-is-inverse-step"),
    ),
    Mutant(
        "fields/heads.py",
        "return -self.slope * (query - keys)",
        "return self.slope * (query - keys)",
        ("alibi-response-turns-u-shaped-at-critical-time",),
    ),
    Mutant(
        "fields/heads.py",
        "centre[None], -jnp.cos(",
        "centre[None], jnp.cos(",
        ("gate-acts-only-inside-its-ball", "gate-sign-as-published"),
    ),
    # Measures, spaces and energies.
    Mutant(
        "measures/cloud.py",
        "self.engine.attend(covectors, self.points, self.log_weights)",
        "self.engine.attend(covectors, self.points, 0 * self.log_weights)",
        (
            "adversarial-lipschitz-grows-like-square-root",
            "attention-separates-overlapping-measures",
            "long-context-critical-scaling",
            "masked-gaussian-needs-position-free-conditionals",
            "mean-field-lipschitz-exponent-is-two-for-w1",
            "mean-field-lipschitz-exponent-one-as-published",
            "negative-value-matrix-contracts-to-zero",
            "negative-value-matrix-contracts-to-zero-as-published",
            "uniform-keys-are-critical-at-a-power-of-their-number",
        ),
    ),
    Mutant(
        "spaces/sphere.py",
        "return v - _inner(x, v) * x",
        "return v",
        (
            "attention-is-blurring-mean-shift",
            "layernorm-restores-global-solutions",
            "poisson-kernel-solution-on-the-circle",
            "two-tokens-tanh",
        ),
    ),
    Mutant(
        "energies/interaction.py",
        "mu.pairing(Multiple(beta, len(mean))) / jnp.where(flat, 1.0, beta)) / 2",
        "mu.pairing(Multiple(beta, len(mean))) / jnp.where(flat, 1.0, beta))",
        (
            "energy-normalisation-as-published",
            "sphere-energy-minimisers-are-diracs",
            "sphere-energy-nonconvex-with-many-rest-points",
        ),
    ),
    Mutant(
        "energies/base.py",
        "return -jax.grad(lambda points",
        "return jax.grad(lambda points",
        (
            "confinement-holds-with-ridge-on-bounded-features",
            "mean-field-gradient-is-n-times-head-gradient",
            "negative-translation-direction-is-unstable",
            "relu-teachers-are-learned-by-wider-students",
            "sinkhorn-attention-is-a-wasserstein-gradient-flow",
        ),
    ),
    Mutant(
        "energies/base.py",
        "return -mean, -root",
        "return -mean, root",
        (
            "gm-descent-on-square-root-is-bures-flow",
            "gm-layer-accuracy-comparable-to-fully-connected",
        ),
    ),
    # Solvers and noise.
    Mutant(
        "flows/solvers.py",
        "return RungeKutta(EULER)",
        "return RungeKutta(HEUN)",
        ("chaos-euler-term-is-first-order", "residual-attention-is-first-order-euler"),
    ),
    Mutant(
        "flows/noise.py",
        "jnp.sqrt(2 * self.temperature)",
        "jnp.sqrt(self.temperature)",
        ("noisy-fokker-planck-sign-as-published", "noisy-neurons-reach-one-law"),
    ),
    # Diagnostics.
    Mutant(
        "diagnostics/rest.py",
        "jax.vmap(mu.space.project)(points))",
        "points)",
        ("polygons-and-simplices-are-strict-saddles",),
    ),
    Mutant(
        "diagnostics/order.py",
        "return jnp.linalg.norm(mu.expect(lambda x: x))",
        "return jnp.linalg.norm(mu.expect(lambda x: x)) ** 2",
        ("noisy-sphere-threshold-and-transition-type",),
    ),
    Mutant(
        "diagnostics/chaos.py",
        "rates = -(np.log(errors) @ x) / (x @ x)",
        "rates = (np.log(errors) @ x) / (x @ x)",
        (
            "gaussian-tokens-approach-their-closure-like-inverse-root-n",
            "tokens-on-the-circle-approach-their-density-like-inverse-root-n",
        ),
    ),
    Mutant(
        "diagnostics/estimate.py",
        "kernel = weights[near] * np.exp((top - u**2) / 2)",
        "kernel = weights[near] * np.exp(top - u**2)",
        ("kde-modes-beyond-samples-as-published",),
    ),
    Mutant(
        "diagnostics/estimate.py",
        "slope, size = -(u * kernel).sum(1)",
        "slope, size = (u * kernel).sum(1)",
        ("kde-modes-shrink-with-bandwidth",),
    ),
    # Closed forms.
    Mutant(
        "theory/gaussian.py",
        "return V @ A + A.T @ V.T",
        "return V @ A",
        ("cone-coordinates-and-line-figure",),
    ),
    Mutant(
        "theory/gaussian.py",
        "vectors[:, jnp.abs(values) <= threshold",
        "vectors[:, jnp.abs(values) > threshold",
        ("final-rank-is-ambient-minus-key-rank", "rank-histogram-spread-as-published"),
    ),
    Mutant(
        "theory/gaussian.py",
        "return L @ mean + b, L @ cov + cov @ L.T",
        "return L @ mean + b, 2 * L @ cov",
        ("covariance-rank-is-constant-before-blow-up",),
    ),
    Mutant(
        "theory/gaussian.py",
        "jnp.arcsinh(2 * jnp.abs(a) * s)",
        "jnp.arcsinh(jnp.abs(a) * s)",
        ("sinkhorn-covariance-grows-at-most-exponentially",),
    ),
    Mutant(
        "theory/centres.py",
        "(jnp.cos(angle) - beta * jnp.sin(angle) ** 2)",
        "(jnp.cos(angle) + beta * jnp.sin(angle) ** 2)",
        ("frozen-centre-conditions-at-paper-example", "frozen-centre-sign-as-published"),
    ),
    Mutant(
        "theory/synchronization.py",
        "return 2 * jnp.maximum(steps, 0.0).sum()",
        "return jnp.maximum(steps, 0.0).sum()",
        (
            "circle-criterion-holds-from-minus-016",
            "circle-synchronizes-in-the-proved-range",
        ),
    ),
    Mutant(
        "theory/synchronization.py",
        "4 * (1 + tau / (2 * jnp.pi)) - tau * rise",
        "4 * (1 + tau / jnp.pi) - tau * rise",
        ("circle-criterion-root-at-minus-0192",),
    ),
    Mutant(
        "theory/metastability.py",
        "start) * one / (one",
        "start) * other / (one",
        ("energy-staircase-in-log-time", "two-cluster-merge-time-and-place"),
    ),
    Mutant("theory/modes.py", "+ s * norm.pdf(middle / s)", "", ("kde-mode-count-table",)),
    Mutant(
        "theory/heads.py",
        "return jnp.diag(p) - jnp.outer(p, p)",
        "return jnp.diag(p) + jnp.outer(p, p)",
        ("risk-gap-controls-logits-modulo-shift", "softmax-jacobian-lies-between-zero-and-half"),
    ),
    Mutant("theory/experts.py", "* distance**2 / 2", "* distance**2", ("moe-coarse-student-error-floor",)),
    Mutant("theory/experts.py", "pieces = 2 * sum(", "pieces = sum(", ("moe-router-dimension-limits-subsets",)),
    Mutant("theory/experts.py", "- gammaln(k + 1)", "", ("moe-splitting-experts-multiplies-bits",)),
    # Training.
    Mutant(
        "training/dynamics.py",
        "FACTOR = 2.0",
        "FACTOR = 1.0",
        (
            "gauge-orbits-conserve-balancedness",
            "gradient-domination-constant-from-features",
            "monotonicity-map-predicts-stability",
            "neurons-follow-the-radial-equation-of-isotropic-gaussians",
            "risk-dissipation-identity",
            "zero-head-bifurcates-at-critical-decay",
        ),
    ),
    Mutant(
        "training/risk.py",
        "(xs - anchor[None]) ** 2 @ strength / 2",
        "(xs - anchor[None]) ** 2 @ strength",
        (
            "collapsed-head-can-split-though-translation-stable",
            "orbit-converges-to-the-stationary-set",
            "positive-hessian-dirac-is-exponentially-stable",
            "positive-hessian-for-full-heads-as-published",
            "stable-head-need-not-be-optimal",
            "stationary-iff-dissipation-vanishes",
            "support-condition-certifies-two-layer-networks",
        ),
    ),
    Mutant(
        "training/risk.py",
        "shares[chosen] * (len(inputs) / size)",
        "shares[chosen]",
        ("chaos-martingale-term-is-root-epsilon-and-survives-n",),
    ),
    Mutant(
        "training/head_sums.py",
        "return kernel_for(heads, points).total(points, weights, tokens)",
        "return kernel_for(heads, points).total(points, jnp.ones_like(weights) / len(weights), tokens)",
        (
            "chaos-empirical-term-scales-like-inverse-root-n",
            "momentum-and-adam-propagate-chaos",
        ),
    ),
    Mutant(
        "training/neuron_sums.py",
        "(weights[:, None] * neurons.out(points))",
        "neurons.out(points)",
        (
            "gm-layer-dynamics-differ-from-wide-network",
            "risk-convex-under-mixing-of-measures",
            "two-layer-loss-nonconvex-in-weights-and-along-geodesics",
            "wasserstein-flow-is-rescaled-euclidean-flow",
        ),
    ),
    Mutant(
        "training/features.py",
        "one = lambda x: mu.weights @",
        "one = lambda x: jnp.full_like(mu.weights, 1 / len(mu.points)) @",
        ("sparse-deconvolution-needs-a-few-times-the-spikes",),
    ),
    Mutant(
        "training/activations.py",
        "m * gate.chance + gate.spill",
        "m * gate.chance",
        ("gm-layer-closed-forms-and-limits",),
    ),
    Mutant(
        "training/perturbation.py",
        "_gradient(energy, mu, x, mu.points)",
        "_gradient(energy, mu, x, x)",
        (
            "lions-second-order-form-is-hessian-plus-psd",
            "translation-hessian-is-one-head-hessian",
        ),
    ),
    Mutant(
        "training/perturbation.py",
        "jax.vmap(curvature)(*points).min()",
        "jax.vmap(curvature)(*points).max()",
        ("strong-monotonicity-contracts-wasserstein",),
    ),
    Mutant(
        "training/convergence.py",
        "[slope / 2 for slope, _ in fits]",
        "[slope for slope, _ in fits]",
        (
            "gradient-domination-gives-exponential-risk-decay",
            "well-specified-teacher-decays-like-inverse-square",
        ),
    ),
    Mutant(
        "training/certificates.py",
        "gap = float(mu.weights @ on_support",
        "gap = float(on_support.mean()",
        ("minimiser-support-condition-and-duality-gap",),
    ),
    Mutant(
        "training/optimum.py",
        "loss - float(jnp.vdot(residuals, z))",
        "loss + float(jnp.vdot(residuals, z))",
        ("proved-optimality-of-finitely-many-heads",),
    ),
    Mutant(
        "training/deep_risk.py",
        "h = h + self.step.astype(dtype) * (moved + extra)",
        "h = h + self.step.astype(dtype) * (moved + extra) / 2",
        ("layer-control-adjoint-ends-in-softmax-residual",),
    ),
    # Networks.
    Mutant(
        "networks/graphs.py",
        "v - graph.project(v), b)",
        "v, b)",
        ("gnn-rate-without-residual-is-eigenvalue-ratio",),
    ),
    Mutant(
        "networks/weights.py",
        "s[:, None] * w).max(-1)",
        "s[:, None] * w).min(-1)",
        ("gnn-negative-weights-prevent-oversmoothing", "gnn-residual-rate-with-fixed-weights"),
    ),
    Mutant("networks/weights.py", "psi(k / 2 + p)", "psi(k / 2 + p + 1)", ("gnn-residual-rate-with-gaussian-weights",)),
    Mutant(
        "networks/routing.py",
        "return gate, float(np.log(np.tan(half) / np.tan(within / 2)))",
        "return gate, float(np.log(np.tan(half) / np.tan(within / 2))) / 2",
        ("one-schedule-matches-several-measures",),
    ),
    # Transport.
    Mutant(
        "transport/gaussians.py",
        "_closest_root(root(a), b)) ** 2)",
        "root(b)) ** 2)",
        ("bures-distance-gradient-and-barycenter",),
    ),
    Mutant(
        "transport/inference.py",
        "root(Z @ (Z + 4 * h * eye))",
        "root(Z @ (Z + 2 * h * eye))",
        ("gaussian-variational-inference-step-is-exact",),
    ),
    Mutant("transport/distances.py", "** (1 / p)", "", ("empirical-rate-sees-pieces-and-intrinsic-dimension",)),
    Mutant(
        "transport/line.py",
        "widths @ jnp.abs(x[i] - y[j]) ** p",
        "widths @ jnp.abs(x[i] - y[j]) ** 2",
        ("empirical-wasserstein-rate-by-dimension",),
    ),
    Mutant(
        "transport/entropic.py",
        "costs(mu.space, mu.points, nu.points, p) / p",
        "costs(mu.space, mu.points, nu.points, p)",
        ("entropic-cost-error-is-dimension-free",),
    ),
    Mutant(
        "transport/entropic.py",
        "(g - jnp.sum(nu.points**2, -1) / 2) / eps",
        "(g - jnp.sum(nu.points**2, -1)) / eps",
        ("entropic-map-between-gaussians",),
    ),
    # What several studies of a theme share.
    Mutant(
        "studies/metastability/angles.py",
        "jnp.exp(-2 * self.beta * jnp.sin(away / 2) ** 2)",
        "jnp.exp(-self.beta * jnp.sin(away / 2) ** 2)",
        ("saddle-to-saddle-closest-pair-moves-first",),
    ),
    Mutant(
        "studies/heads/draws.py",
        "< N, 1 / N, 0.0)",
        "< N, N**-0.5, 0.0)",
        ("only-monte-carlo-rate-for-cross-entropy-as-published", "static-gap-decays-like-one-over-n"),
    ),
    Mutant(
        "studies/causal/eigenspaces.py",
        "normalised(first[:, None] - np.einsum",
        "normalised(first[:, None] + np.einsum",
        ("causal-limit-on-orthogonal-complement-as-published",),
    ),
    Mutant(
        "studies/networks/adam.py",
        "x - rate * (m / large)",
        "x + rate * (m / large)",
        ("gm-layer-on-digits-within-two-points-of-equal-parameters",),
    ),
    # Settings of single studies, those of one theme planted at once.
    Mutant(
        "studies/clusters/paranormal_value_gives_product_of_boundary_and_subspace.py",
        "(BASIS.T @ FORM @ BASIS)[:2, :2]",
        "(BASIS @ FORM @ BASIS.T)[:2, :2]",
        ("paranormal-value-gives-product-of-boundary-and-subspace",),
    ),
    Mutant(
        "studies/networks/lazy_and_mean_field_scalings_part.py",
        "np.concatenate([np.sqrt(setting.counts), ",
        "np.concatenate([setting.counts, ",
        ("lazy-and-mean-field-scalings-part",),
    ),
    Mutant(
        "studies/sphere/generic_start_ends_in_one_cluster.py",
        "(later.points @ later.points.T).min()",
        "(later.points @ later.points.T).max()",
        ("generic-start-ends-in-one-cluster",),
    ),
    Mutant(
        "studies/training/confinement_for_raw_heads_as_published.py",
        "np.repeat([1.0, -1.0], [18, 6])",
        "np.repeat([1.0, -1.0], [12, 12])",
        ("confinement-for-raw-heads-as-published",),
    ),
    Mutant(
        "studies/training/isolated_stationary_set_as_published.py",
        "expm(-s * A.T)",
        "expm(-s * A)",
        ("isolated-stationary-set-as-published",),
    ),
    # Formulas beside these, each of which once had to be seen by a study.
    Mutant(
        "fields/attention.py",
        HARDMAX,
        HARDMAX.replace("n.T,", "n,"),
        ("negative-key-query-contracts-hardmax-to-zero",),
    ),
    Mutant(
        "fields/attention.py", SOFTMAX, SOFTMAX.replace("xs", "xs / 2"), ("negative-value-matrix-contracts-to-zero",)
    ),
    Mutant(
        "fields/attention.py",
        SOFTMAX,
        SOFTMAX.replace("value.T", "value"),
        ("attention-slope-bounded-by-value-key-radius",),
    ),
    Mutant("fields/heads.py", "@ self.W.T", "@ self.W", ("gaussian-closure-survives-affine-feed-forward",)),
    Mutant(
        "flows/depth.py",
        "number + step * rate",
        "number + 1.01 * step * rate",
        ("residual-depth-has-no-gaussian-blow-up",),
    ),
    Mutant(
        "theory/bounds.py", "return 2 * slope", "return 3 * slope", ("attention-slope-bounded-by-value-key-radius",)
    ),
    Mutant(
        "theory/context.py", "c ** (-m / 2)", "c ** (-m)", ("uniform-keys-are-critical-at-a-power-of-their-number",)
    ),
    Mutant("theory/metastability.py", "(beta * kappa *", "(2 * beta * kappa *", ("two-cluster-merge-time-and-place",)),
    Mutant(
        "theory/rates.py",
        "(dim - 1) / 2 * antipode",
        "dim / 2 * antipode",
        ("mean-field-rate-is-set-by-the-antipode",),
    ),
    Mutant(
        "training/certificates.py",
        "jnp.sum(descent(energy, mu) ** 2, -1))",
        "jnp.sum(descent(energy, mu) ** 2, -1) / 2)",
        ("risk-dissipation-identity",),
    ),
    Mutant("training/dynamics.py", "Langevin(FACTOR * ", "Langevin(", ("noisy-neurons-reach-one-law",)),
    Mutant("training/free_energies.py", "score = inverse_temperature * ", "score = ", ("noisy-neurons-reach-one-law",)),
    Mutant(
        "networks/graphs.py",
        "exp(min(0.0, growths",
        "exp(max(-9.0, growths",
        ("gnn-negative-weights-prevent-oversmoothing",),
    ),
    # Counts of modes, long waits and long contexts.
    Mutant(
        "fields/attention.py",
        SOFTMAX,
        SOFTMAX.replace("xs", "xs / 2"),
        "modes-of-the-start-foretell-metastable-clusters",
    ),
    Mutant(
        "fields/attention.py",
        SOFTMAX,
        SOFTMAX.replace("value.T", "value"),
        "gaussian-stays-gaussian-with-riccati-covariance",
    ),
    Mutant(
        "flows/depth.py",
        "_moved(mu, step, _velocity(at_layer(field, first + k), times[k], mu)).settle()",
        "_moved(mu, 1.02 * step, _velocity(at_layer(field, first + k), times[k], mu)).settle()",
        "published-steps-make-five-tokens-meet-a-tenth-late",
    ),
    Mutant(
        "theory/metastability.py",
        "return e * jnp.sin(angle) * sum(",
        "return e * sum(",
        "clusters-persist-exponentially-long",
    ),
    Mutant(
        "theory/modes.py", "DENSE = (3 / 2) ** 0.5", "DENSE = (4 / 3) ** 0.5", "kde-modes-scale-like-root-beta-log-beta"
    ),
    Mutant(
        "theory/centres.py", "jnp.exp(-2 * (jnp.log(t)", "jnp.exp(-1.9 * (jnp.log(t)", "renyi-and-strong-centre-counts"
    ),
    # Claims on training that could come out otherwise.
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
