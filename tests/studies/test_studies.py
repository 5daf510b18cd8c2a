"""Every published claim comes out as expected, and a verdict can fail."""

import ast
import contextlib
import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest

import measureflow
from measureflow import studies
from measureflow.plotting import Curve, curves_figure
from measureflow.studies.base import Claim, Size, Verdict, at_least, at_most, equal

FILES = [file for file in Path(studies.__file__).parent.glob("*/*.py") if file.stem != "__init__"]

CATALOGUE = [
    "adversarial-lipschitz-grows-like-square-root",
    "alibi-response-turns-u-shaped-at-critical-time",
    "attention-feature-derivatives-are-bounded",
    "attention-is-blurring-mean-shift",
    "attention-is-permutation-equivariant",
    "attention-jacobian-formula",
    "attention-lipschitz-lower-bound",
    "attention-lipschitz-upper-bound",
    "attention-measure-sensitivity-constant",
    "attention-separates-overlapping-measures",
    "attention-slope-bounded-by-value-key-radius",
    "bures-distance-gradient-and-barycenter",
    "causal-attention-is-not-a-gradient-flow",
    "causal-limit-on-orthogonal-complement-as-published",
    "causal-sequences-refine-to-masked-mean-field",
    "causal-tokens-follow-the-first-token",
    "causal-top-eigenspace-decides-the-limit",
    "chaos-empirical-term-scales-like-inverse-root-n",
    "chaos-euler-term-is-first-order",
    "chaos-martingale-term-is-root-epsilon-and-survives-n",
    "circle-criterion-holds-from-minus-016",
    "circle-criterion-root-at-minus-0192",
    "circle-synchronizes-in-the-proved-range",
    "clustering-time-is-logarithmic",
    "clusters-persist-exponentially-long",
    "collapse-rate-for-general-matrices",
    "collapsed-head-can-split-though-translation-stable",
    "cone-coordinates-and-line-figure",
    "confinement-for-raw-heads-as-published",
    "confinement-holds-with-ridge-on-bounded-features",
    "contracting-variants-share-one-over-t-law",
    "covariance-rank-is-constant-before-blow-up",
    "deck-attention-table-is-column-softmax",
    "empirical-rate-sees-pieces-and-intrinsic-dimension",
    "empirical-wasserstein-rate-by-dimension",
    "energy-normalisation-as-published",
    "energy-staircase-in-log-time",
    "entropic-cost-error-is-dimension-free",
    "entropic-map-between-gaussians",
    "equiangular-reduction-of-the-sphere-dynamics",
    "final-rank-is-ambient-minus-key-rank",
    "flow-is-stable-in-wasserstein-distance",
    "frozen-centre-conditions-at-paper-example",
    "frozen-centre-sign-as-published",
    "gate-acts-only-inside-its-ball",
    "gate-sign-as-published",
    "gauge-orbits-conserve-balancedness",
    "gaussian-blow-up-time",
    "gaussian-closure-survives-affine-feed-forward",
    "gaussian-clustering-limit",
    "gaussian-l2-and-sinkhorn-fields-are-affine",
    "gaussian-linear-relu-sigmoid-unnormalised-fields",
    "gaussian-softmax-field-is-affine",
    "gaussian-stays-gaussian-with-riccati-covariance",
    "gaussian-tokens-approach-their-closure-like-inverse-root-n",
    "gaussian-variational-inference-step-is-exact",
    "generic-start-ends-in-one-cluster",
    "gm-descent-on-square-root-is-bures-flow",
    "gm-layer-accuracy-comparable-to-fully-connected",
    "gm-layer-closed-forms-and-limits",
    "gm-layer-dynamics-differ-from-wide-network",
    "gm-layer-on-digits-within-two-points-of-equal-parameters",
    "gnn-negative-weights-prevent-oversmoothing",
    "gnn-rate-without-residual-is-eigenvalue-ratio",
    "gnn-residual-rate-with-fixed-weights",
    "gnn-residual-rate-with-gaussian-weights",
    "good-triple-gives-at-most-three-hyperplanes",
    "gradient-domination-constant-from-features",
    "gradient-domination-gives-exponential-risk-decay",
    "hardmax-empties-the-cells-of-its-leaders",
    "hemisphere-start-contracts-exponentially",
    "high-dimension-follows-the-equiangular-curve",
    "isolated-stationary-set-as-published",
    "kde-mode-count-table",
    "kde-modes-beyond-samples-as-published",
    "kde-modes-scale-like-root-beta-log-beta",
    "kde-modes-shrink-with-bandwidth",
    "l2-attention-never-blows-up-as-published",
    "l2-attention-no-blow-up-when-keys-injective",
    "large-beta-allows-several-clusters",
    "layer-control-adjoint-ends-in-softmax-residual",
    "layernorm-restores-global-solutions",
    "layernorm-unnormalised-is-flow-on-the-sphere",
    "lazy-and-mean-field-scalings-part",
    "lions-second-order-form-is-hessian-plus-psd",
    "long-context-critical-scaling",
    "masked-attention-ignores-future-tokens",
    "masked-gaussian-needs-position-free-conditionals",
    "mean-field-converges-exponentially-to-a-dirac",
    "mean-field-gradient-is-n-times-head-gradient",
    "mean-field-lipschitz-exponent-is-two-for-w1",
    "mean-field-lipschitz-exponent-one-as-published",
    "mean-field-rate-is-set-by-the-antipode",
    "minimiser-support-condition-and-duality-gap",
    "modes-of-the-start-foretell-metastable-clusters",
    "moe-coarse-student-error-floor",
    "moe-router-dimension-limits-subsets",
    "moe-splitting-experts-multiplies-bits",
    "moe-student-needs-teacher-granularity",
    "momentum-and-adam-propagate-chaos",
    "monotonicity-map-predicts-stability",
    "negative-key-query-contracts-hardmax-to-zero",
    "negative-key-query-contracts-hardmax-to-zero-as-published",
    "negative-translation-direction-is-unstable",
    "negative-value-matrix-contracts-to-zero",
    "negative-value-matrix-contracts-to-zero-as-published",
    "neurons-follow-the-radial-equation-of-isotropic-gaussians",
    "ngpt-contraction-scale-as-published",
    "ngpt-contraction-scale-is-inverse-step",
    "noisy-fokker-planck-sign-as-published",
    "noisy-neurons-reach-one-law",
    "noisy-sphere-threshold-and-transition-type",
    "noisy-transition-is-a-jump-beyond-the-type-change",
    "one-dimensional-attention-becomes-boolean",
    "one-schedule-matches-several-measures",
    "only-monte-carlo-rate-for-cross-entropy-as-published",
    "orbit-converges-to-the-stationary-set",
    "paranormal-value-gives-product-of-boundary-and-subspace",
    "poisson-kernel-solution-on-the-circle",
    "polygons-and-simplices-are-strict-saddles",
    "positive-hessian-dirac-is-exponentially-stable",
    "positive-hessian-for-full-heads-as-published",
    "pre-norm-slows-clustering-to-a-power",
    "proved-optimality-of-finitely-many-heads",
    "published-steps-make-five-tokens-meet-a-tenth-late",
    "rank-histogram-spread-as-published",
    "relu-teachers-are-learned-by-wider-students",
    "renyi-and-strong-centre-counts",
    "rescaled-tokens-reach-polytope-boundary",
    "residual-attention-is-first-order-euler",
    "residual-depth-has-no-gaussian-blow-up",
    "residual-steps-are-stable-up-to-twice-the-inverse-rate",
    "riccati-closed-form",
    "risk-convex-under-mixing-of-measures",
    "risk-dissipation-identity",
    "risk-gap-controls-logits-modulo-shift",
    "saddle-to-saddle-closest-pair-moves-first",
    "sgd-tracks-the-mean-field-equation-within-the-bound",
    "sigmoid-attention-has-no-global-solution-as-published",
    "sigmoid-attention-keeps-the-radius-bound",
    "sinkhorn-attention-is-a-wasserstein-gradient-flow",
    "sinkhorn-covariance-grows-at-most-exponentially",
    "sinkhorn-heat-limit",
    "sinkhorn-kernel-is-doubly-stochastic",
    "softmax-attention-is-not-a-wasserstein-gradient-flow",
    "softmax-jacobian-lies-between-zero-and-half",
    "sparse-deconvolution-needs-a-few-times-the-spikes",
    "sphere-energy-minimisers-are-diracs",
    "sphere-energy-nonconvex-with-many-rest-points",
    "stable-head-attracts-its-basin",
    "stable-head-need-not-be-optimal",
    "static-gap-below-monte-carlo-bound",
    "static-gap-decays-like-one-over-n",
    "stationary-iff-dissipation-vanishes",
    "strong-centres-stay-put-for-long-times",
    "strong-monotonicity-contracts-wasserstein",
    "strong-monotonicity-over-all-couplings-as-published",
    "strong-monotonicity-over-optimal-couplings-contracts",
    "support-condition-certifies-two-layer-networks",
    "support-radius-grows-at-most-exponentially",
    "three-clusters-stable-below-minus-two-thirds",
    "time-dependent-weights-energy-balance",
    "token-statistics-behind-the-fourth-root",
    "tokens-on-the-circle-approach-their-density-like-inverse-root-n",
    "translation-hessian-is-one-head-hessian",
    "two-cluster-merge-time-and-place",
    "two-layer-loss-nonconvex-in-weights-and-along-geodesics",
    "two-tokens-tanh",
    "uniform-keys-are-critical-at-a-power-of-their-number",
    "uniform-state-mode-growth-rates",
    "unnormalised-attention-is-flow-of-half-energy",
    "unnormalised-energy-without-half-as-published",
    "unnormalised-linear-relu-violate-radius-bound",
    "unnormalised-single-token-blows-up",
    "wasserstein-flow-is-rescaled-euclidean-flow",
    "well-specified-teacher-decays-like-inverse-square",
    "zero-head-bifurcates-at-critical-decay",
]
KINDS = {
    "found", "law", "band", "table", "bar", "paths", "hull", "path", "ends", "mass", "tokens", "start", "end", "regions",
    "points",
}  # fmt: skip
DRAWN = {
    "sgd-tracks-the-mean-field-equation-within-the-bound": dict(axes=2, found=12, law=5),
    "adversarial-lipschitz-grows-like-square-root": dict(axes=2, found=4, law=3),
    "alibi-response-turns-u-shaped-at-critical-time": dict(axes=2, found=7, law=7),
    "attention-feature-derivatives-are-bounded": dict(axes=3, found=9, law=9),
    "attention-jacobian-formula": dict(axes=2, found=4, law=2),
    "attention-lipschitz-lower-bound": dict(axes=2, table=2),
    "attention-lipschitz-upper-bound": dict(axes=3, found=12),
    "bures-distance-gradient-and-barycenter": dict(axes=1, found=1),
    "causal-attention-is-not-a-gradient-flow": dict(axes=2, table=2),
    "causal-limit-on-orthogonal-complement-as-published": dict(axes=1, found=2),
    "causal-sequences-refine-to-masked-mean-field": dict(axes=1, found=3, law=3),
    "causal-tokens-follow-the-first-token": dict(axes=1, found=6, law=1),
    "causal-top-eigenspace-decides-the-limit": dict(axes=2, found=8),
    "chaos-empirical-term-scales-like-inverse-root-n": dict(axes=1, found=3, law=3),
    "chaos-euler-term-is-first-order": dict(axes=1, found=2, law=2),
    "chaos-martingale-term-is-root-epsilon-and-survives-n": dict(axes=1, found=2, law=2),
    "circle-criterion-holds-from-minus-016": dict(axes=1, found=1),
    "circle-criterion-root-at-minus-0192": dict(axes=1, found=2),
    "circle-synchronizes-in-the-proved-range": dict(axes=5, found=30),
    "clusters-persist-exponentially-long": dict(axes=2, found=8, law=7, band=3),
    "collapse-rate-for-general-matrices": dict(axes=1, found=4, law=4),
    "cone-coordinates-and-line-figure": dict(axes=2, path=50, ends=2),
    "contracting-variants-share-one-over-t-law": dict(axes=1, found=3, law=3),
    "deck-attention-table-is-column-softmax": dict(axes=3, table=3),
    "empirical-wasserstein-rate-by-dimension": dict(axes=1, found=4, law=4),
    "energy-normalisation-as-published": dict(axes=1, found=2, law=1),
    "energy-staircase-in-log-time": dict(axes=1, found=2),
    "entropic-map-between-gaussians": dict(axes=1, found=3, law=3),
    "equiangular-reduction-of-the-sphere-dynamics": dict(axes=1, found=1, law=1),
    "flow-is-stable-in-wasserstein-distance": dict(axes=2, found=4, law=4),
    "frozen-centre-conditions-at-paper-example": dict(axes=2, found=3, law=2),
    "frozen-centre-sign-as-published": dict(axes=1, found=2, law=1),
    "gaussian-blow-up-time": dict(axes=1, found=4, law=4),
    "gaussian-clustering-limit": dict(axes=1, found=2, law=2),
    "gaussian-stays-gaussian-with-riccati-covariance": dict(axes=1, found=2, law=2, band=2),
    "gaussian-tokens-approach-their-closure-like-inverse-root-n": dict(axes=1, found=3, law=3),
    "gaussian-variational-inference-step-is-exact": dict(axes=1, found=1, law=1),
    "generic-start-ends-in-one-cluster": dict(axes=4, tokens=8),
    "gm-descent-on-square-root-is-bures-flow": dict(axes=1, path=3, ends=3),
    "gm-layer-accuracy-comparable-to-fully-connected": dict(axes=2, found=6),
    "gm-layer-closed-forms-and-limits": dict(axes=3, found=5, law=4),
    "gm-layer-dynamics-differ-from-wide-network": dict(axes=2, found=3, law=1),
    "gm-layer-on-digits-within-two-points-of-equal-parameters": dict(axes=2, found=6),
    "gnn-negative-weights-prevent-oversmoothing": dict(axes=2, found=3, law=3),
    "gnn-rate-without-residual-is-eigenvalue-ratio": dict(axes=2, found=4, law=4),
    "gnn-residual-rate-with-fixed-weights": dict(axes=2, found=4, law=4),
    "gnn-residual-rate-with-gaussian-weights": dict(axes=2, found=3, law=3),
    "good-triple-gives-at-most-three-hyperplanes": dict(axes=3, found=60),
    "gradient-domination-constant-from-features": dict(axes=2, found=2, law=2),
    "gradient-domination-gives-exponential-risk-decay": dict(axes=2, found=2, law=2),
    "hardmax-empties-the-cells-of-its-leaders": dict(axes=3, found=1, law=1, regions=2, points=2),
    "hemisphere-start-contracts-exponentially": dict(axes=1, found=2),
    "high-dimension-follows-the-equiangular-curve": dict(axes=2, found=3, law=2),
    "kde-mode-count-table": dict(axes=2, found=4, law=1),
    "kde-modes-beyond-samples-as-published": dict(axes=2, found=2, ends=2),
    "kde-modes-scale-like-root-beta-log-beta": dict(axes=2, found=6, law=6, band=6),
    "kde-modes-shrink-with-bandwidth": dict(axes=1, found=8),
    "l2-attention-no-blow-up-when-keys-injective": dict(axes=1, found=3, law=3),
    "large-beta-allows-several-clusters": dict(axes=6),
    "layer-control-adjoint-ends-in-softmax-residual": dict(axes=1, found=2, law=2),
    "lazy-and-mean-field-scalings-part": dict(axes=2, found=8, law=8),
    "long-context-critical-scaling": dict(axes=1, found=3, law=3),
    "masked-attention-ignores-future-tokens": dict(axes=1, table=1),
    "mean-field-converges-exponentially-to-a-dirac": dict(axes=3, found=12, law=12),
    "mean-field-lipschitz-exponent-is-two-for-w1": dict(axes=1, found=2, law=1),
    "mean-field-lipschitz-exponent-one-as-published": dict(axes=1, found=2),
    "mean-field-rate-is-set-by-the-antipode": dict(axes=2, found=8, law=8),
    "modes-of-the-start-foretell-metastable-clusters": dict(axes=2, found=5, law=5, band=5),
    "moe-coarse-student-error-floor": dict(axes=2, found=2, law=2),
    "moe-router-dimension-limits-subsets": dict(axes=1, found=2, law=1),
    "moe-splitting-experts-multiplies-bits": dict(axes=2, found=5, law=1),
    "moe-student-needs-teacher-granularity": dict(axes=2, found=6),
    "momentum-and-adam-propagate-chaos": dict(axes=2, found=6, law=6),
    "monotonicity-map-predicts-stability": dict(axes=2, table=2),
    "negative-key-query-contracts-hardmax-to-zero": dict(axes=3, paths=2, ends=2, hull=1, found=1, law=1),
    "negative-value-matrix-contracts-to-zero": dict(axes=1, found=4, law=4),
    "neurons-follow-the-radial-equation-of-isotropic-gaussians": dict(axes=2, found=5, law=5),
    "ngpt-contraction-scale-is-inverse-step": dict(axes=1, found=3, law=3),
    "noisy-fokker-planck-sign-as-published": dict(axes=1, found=2, law=2),
    "noisy-neurons-reach-one-law": dict(axes=2, found=4, law=4),
    "noisy-sphere-threshold-and-transition-type": dict(axes=2, found=3, law=3),
    "one-dimensional-attention-becomes-boolean": dict(axes=4, table=4),
    "only-monte-carlo-rate-for-cross-entropy-as-published": dict(axes=1, found=2, law=1),
    "orbit-converges-to-the-stationary-set": dict(axes=3, found=2, paths=1, ends=1),
    "paranormal-value-gives-product-of-boundary-and-subspace": dict(axes=2, paths=2, ends=2, hull=2),
    "poisson-kernel-solution-on-the-circle": dict(axes=4, found=1, law=1),
    "polygons-and-simplices-are-strict-saddles": dict(axes=1, found=2),
    "pre-norm-slows-clustering-to-a-power": dict(axes=2, found=2, law=2),
    "published-steps-make-five-tokens-meet-a-tenth-late": dict(axes=2, found=5, law=2, band=2),
    "rank-histogram-spread-as-published": dict(axes=3, bar=30),
    "relu-teachers-are-learned-by-wider-students": dict(axes=2, found=6),
    "renyi-and-strong-centre-counts": dict(axes=1, found=4, law=3, band=3),
    "rescaled-tokens-reach-polytope-boundary": dict(axes=3, paths=3, ends=3, hull=6),
    "residual-attention-is-first-order-euler": dict(axes=1, found=4, law=4),
    "residual-depth-has-no-gaussian-blow-up": dict(axes=2, found=5, law=1),
    "residual-steps-are-stable-up-to-twice-the-inverse-rate": dict(axes=2, found=7, law=2),
    "risk-convex-under-mixing-of-measures": dict(axes=1, found=1, law=1),
    "risk-dissipation-identity": dict(axes=2, found=1, law=1, start=1, end=1),
    "saddle-to-saddle-closest-pair-moves-first": dict(axes=1, found=1, law=1),
    "sinkhorn-covariance-grows-at-most-exponentially": dict(axes=1, found=3, law=3),
    "sinkhorn-heat-limit": dict(axes=2, found=6, law=6),
    "sinkhorn-kernel-is-doubly-stochastic": dict(axes=3, table=3),
    "softmax-attention-is-not-a-wasserstein-gradient-flow": dict(axes=4, table=4),
    "sparse-deconvolution-needs-a-few-times-the-spikes": dict(axes=2, found=6),
    "sphere-energy-minimisers-are-diracs": dict(axes=1, found=6, law=6),
    "sphere-energy-nonconvex-with-many-rest-points": dict(axes=9, mass=16, found=2),
    "stable-head-attracts-its-basin": dict(axes=2, found=8, law=3),
    "static-gap-below-monte-carlo-bound": dict(axes=1, found=4, law=4),
    "static-gap-decays-like-one-over-n": dict(axes=1, found=2, law=2),
    "strong-centres-stay-put-for-long-times": dict(axes=2, start=2, law=2),
    "strong-monotonicity-contracts-wasserstein": dict(axes=1, found=1, law=1),
    "strong-monotonicity-over-all-couplings-as-published": dict(axes=2, found=3, law=3),
    "strong-monotonicity-over-optimal-couplings-contracts": dict(axes=1, found=2, law=2),
    "support-condition-certifies-two-layer-networks": dict(axes=6, found=12),
    "support-radius-grows-at-most-exponentially": dict(axes=10, paths=5, ends=5, found=5, law=5),
    "three-clusters-stable-below-minus-two-thirds": dict(axes=3, found=29),
    "token-statistics-behind-the-fourth-root": dict(axes=2, found=5, law=5, band=5),
    "tokens-on-the-circle-approach-their-density-like-inverse-root-n": dict(axes=1, found=1, law=1),
    "two-cluster-merge-time-and-place": dict(axes=2, found=4, law=3),
    "two-layer-loss-nonconvex-in-weights-and-along-geodesics": dict(axes=2, found=3),
    "two-tokens-tanh": dict(axes=2, found=6, law=6),
    "uniform-keys-are-critical-at-a-power-of-their-number": dict(axes=2, found=4, law=3),
    "uniform-state-mode-growth-rates": dict(axes=2, found=5, law=5),
    "unnormalised-linear-relu-violate-radius-bound": dict(axes=2, found=4, law=2),
    "wasserstein-flow-is-rescaled-euclidean-flow": dict(axes=1, found=1, law=1),
    "well-specified-teacher-decays-like-inverse-square": dict(axes=2, found=2, law=2),
    "gate-acts-only-inside-its-ball": dict(axes=1, found=1, law=1),
    "gate-sign-as-published": dict(axes=1, found=2, law=1),
    "attention-separates-overlapping-measures": dict(axes=1, found=4),
    "clustering-time-is-logarithmic": dict(axes=1, found=1, law=1),
    "one-schedule-matches-several-measures": dict(axes=5, found=3, tokens=8),
    "attention-is-blurring-mean-shift": dict(axes=4, found=4, law=4, band=4),
    "attention-measure-sensitivity-constant": dict(axes=1, found=1, law=1, band=1),
    "attention-slope-bounded-by-value-key-radius": dict(axes=6, found=6, law=6, band=6),
    "collapsed-head-can-split-though-translation-stable": dict(axes=2, found=2, law=2),
    "confinement-for-raw-heads-as-published": dict(axes=3, found=4, law=3, band=3),
    "confinement-holds-with-ridge-on-bounded-features": dict(axes=1, found=2, band=2),
    "covariance-rank-is-constant-before-blow-up": dict(axes=3, found=12, law=12, band=3),
    "empirical-rate-sees-pieces-and-intrinsic-dimension": dict(axes=1, found=4, law=4, band=4),
    "entropic-cost-error-is-dimension-free": dict(axes=1, found=3, law=2, band=2),
    "final-rank-is-ambient-minus-key-rank": dict(axes=3, found=3, law=3),
    "gauge-orbits-conserve-balancedness": dict(axes=1, found=1, law=1, band=1),
    "gaussian-closure-survives-affine-feed-forward": dict(axes=3, found=3, law=3, band=3),
    "gaussian-l2-and-sinkhorn-fields-are-affine": dict(axes=4, found=4, law=4, band=4),
    "gaussian-linear-relu-sigmoid-unnormalised-fields": dict(axes=2, found=4, law=2),
    "gaussian-softmax-field-is-affine": dict(axes=4, found=4, law=4, band=4),
    "isolated-stationary-set-as-published": dict(axes=2, found=4, band=2),
    "l2-attention-never-blows-up-as-published": dict(axes=1, found=2, law=1),
    "layernorm-restores-global-solutions": dict(axes=1, found=4, law=4, band=1),
    "layernorm-unnormalised-is-flow-on-the-sphere": dict(axes=6, found=6, law=6, band=6),
    "lions-second-order-form-is-hessian-plus-psd": dict(axes=3, found=3, law=3, band=3),
    "masked-gaussian-needs-position-free-conditionals": dict(axes=2, found=4, law=4),
    "mean-field-gradient-is-n-times-head-gradient": dict(axes=2, found=2, law=2, band=2),
    "minimiser-support-condition-and-duality-gap": dict(axes=1, found=2, law=2),
    "negative-key-query-contracts-hardmax-to-zero-as-published": dict(axes=3, found=4, law=3, band=3),
    "negative-translation-direction-is-unstable": dict(axes=1, found=1, law=1, band=1),
    "negative-value-matrix-contracts-to-zero-as-published": dict(axes=2, found=6, law=3, band=1),
    "ngpt-contraction-scale-as-published": dict(axes=1, found=2, law=1, band=1),
    "noisy-transition-is-a-jump-beyond-the-type-change": dict(axes=3, found=5, law=1, band=3),
    "positive-hessian-dirac-is-exponentially-stable": dict(axes=1, found=2, law=2, band=2),
    "positive-hessian-for-full-heads-as-published": dict(axes=3, found=3, law=3, band=3),
    "riccati-closed-form": dict(axes=6, found=6, law=6, band=6),
    "risk-gap-controls-logits-modulo-shift": dict(axes=3, found=3, law=3, band=3),
    "sigmoid-attention-has-no-global-solution-as-published": dict(axes=1, found=2, law=2, band=1),
    "sigmoid-attention-keeps-the-radius-bound": dict(axes=1, found=2, law=2, band=1),
    "sinkhorn-attention-is-a-wasserstein-gradient-flow": dict(axes=5, found=5, law=5, band=5),
    "softmax-jacobian-lies-between-zero-and-half": dict(axes=1, found=2, law=2, band=1),
    "stable-head-need-not-be-optimal": dict(axes=1, found=2, law=1),
    "time-dependent-weights-energy-balance": dict(axes=4, found=4, law=4, band=4),
    "translation-hessian-is-one-head-hessian": dict(axes=5, found=5, law=5, band=5),
    "unnormalised-attention-is-flow-of-half-energy": dict(axes=2, found=2, law=2, band=2),
    "unnormalised-energy-without-half-as-published": dict(axes=2, found=4, law=2),
    "unnormalised-single-token-blows-up": dict(axes=1, found=2, law=1),
    "zero-head-bifurcates-at-critical-decay": dict(axes=1, found=1, law=1, band=2),
}
PLAIN = {
    "attention-feature-derivatives-are-bounded",
    "attention-is-permutation-equivariant",
    "flow-is-stable-in-wasserstein-distance",
    "proved-optimality-of-finitely-many-heads",
    "stationary-iff-dissipation-vanishes",
}
"""Studies whose claims are single numbers: their picture is that of their checks."""
FIELDS = {
    "name": str,
    "statement": str,
    "reference": str,
    "predicted": (int, float, list, dict),
    "measured": (int, float, list, dict),
    "tolerance": (int, float, list, dict),
    "relation": (str, dict),
    "parts": list,
    "size": str,
    "seed": (int, type(None)),
    "version": str,
    "holds": bool,
    "expected": str,
    "as_expected": bool,
    "seconds": float,
    "reason": str,
    "topic": str,
    "where": str,
}
TRUE = Claim("One is one.", reference="nobody:25", where="section 1", name="a-claim")
FALSE = Claim("One is two.", reference="nobody:25", where="section 2", name="a-claim-as-published")


BUSY = {
    "causal-top-eigenspace-decides-the-limit",
    "chaos-empirical-term-scales-like-inverse-root-n",
    "chaos-martingale-term-is-root-epsilon-and-survives-n",
    "empirical-wasserstein-rate-by-dimension",
    "entropic-cost-error-is-dimension-free",
    "gm-layer-accuracy-comparable-to-fully-connected",
    "gm-layer-on-digits-within-two-points-of-equal-parameters",
    "lazy-and-mean-field-scalings-part",
    "moe-student-needs-teacher-granularity",
    "momentum-and-adam-propagate-chaos",
    "neurons-follow-the-radial-equation-of-isotropic-gaussians",
    "noisy-fokker-planck-sign-as-published",
    "noisy-neurons-reach-one-law",
    "noisy-transition-is-a-jump-beyond-the-type-change",
    "only-monte-carlo-rate-for-cross-entropy-as-published",
    "proved-optimality-of-finitely-many-heads",
    "relu-teachers-are-learned-by-wider-students",
    "sgd-tracks-the-mean-field-equation-within-the-bound",
    "sparse-deconvolution-needs-a-few-times-the-spikes",
    "strong-centres-stay-put-for-long-times",
    "support-condition-certifies-two-layer-networks",
}
"""Studies that compute for longer than they compile."""


@pytest.fixture(scope="session")
def verdict(request):
    """The verdict on a claim: pytest runs the tests of one claim together, so each study runs once."""
    with request.getfixturevalue("optimised")() if request.param in BUSY else contextlib.nullcontext():
        return studies.run(request.param)


def test_names_are_the_ids_of_the_catalogue():
    assert studies.names() == CATALOGUE


@pytest.mark.parametrize("verdict", CATALOGUE, indirect=True)
def test_the_claim_comes_out_as_expected(verdict):
    name = verdict.name
    assert verdict.as_expected, f"{verdict}\n{verdict.as_json()}"
    fields = json.loads(json.dumps(verdict.as_json(), allow_nan=False))
    assert all(isinstance(fields[field], kind) for field, kind in FIELDS.items())
    assert set(fields) == set(FIELDS)
    assert verdict.claim == studies.claim(name)
    assert fields["name"] == name
    assert fields["expected"] == ("differs" if name.endswith("-as-published") else "holds")
    assert fields["holds"] == (fields["expected"] == "holds")
    assert bool(fields["reason"]) == (fields["expected"] == "differs")
    assert fields["seconds"] > 0
    assert fields["seed"] == (0 if studies.random(name) else None)
    assert "\n" not in str(verdict)


@pytest.mark.parametrize("verdict", sorted(DRAWN), indirect=True)
def test_the_picture_of_a_study_shows_what_it_should(verdict):
    figure = studies.load(verdict.name).draw(verdict)
    shown = Counter(artist.get_gid() for artist in figure.findobj(lambda artist: artist.get_gid() in KINDS))
    assert {"axes": len(figure.axes), **shown} == DRAWN[verdict.name]
    figure.draw_without_rendering()
    page, drawn = figure.bbox_inches.padded(0.01), figure.get_tightbbox()
    assert page.x0 <= drawn.x0 < drawn.x1 <= page.x1
    assert page.y0 <= drawn.y0 < drawn.y1 <= page.y1


FIXED = {"risk-dissipation-identity"}
"""Draws whose numbers the catalogue prints."""


def literal_seeds(file):
    """Generators, keys and draws of a file that start from a number written out."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            source = ast.unparse(node.func)
            starts = node.args[:1] if source.endswith(("default_rng", "random.key", "PRNGKey")) else []
            starts += [word.value for word in node.keywords if word.arg == "key" and not source.endswith("balls")]
            yield from (ast.unparse(node) for start in starts if isinstance(start, ast.Constant))


def test_what_is_drawn_depends_on_the_seed():
    fixed = {file.stem.replace("_", "-"): list(literal_seeds(file)) for file in FILES}
    assert {name for name, found in fixed.items() if found} <= FIXED


@pytest.mark.parametrize(
    "name",
    [
        "one-dimensional-attention-becomes-boolean",
        "risk-gap-controls-logits-modulo-shift",
    ],
)
def test_other_seeds_give_other_numbers_and_the_same_verdict(name):
    """On studies that cost little; the first once missed its limit for some seeds."""
    verdicts = [studies.run(name, seed=seed) for seed in range(1, 4)]
    assert all(verdict.as_expected for verdict in verdicts), "\n".join(map(str, verdicts))
    assert len({str(verdict.checks) for verdict in verdicts}) == 3


def test_every_study_has_a_picture_of_its_own_or_shows_its_checks():
    own = {name for name in studies.names() if studies.draws(name)}
    assert own == set(DRAWN)
    assert set(studies.names()) - own <= PLAIN


def test_a_study_without_a_picture_of_its_own_shows_its_checks():
    verdict = FALSE.judge(equal("one", 2.0, 1.0, 0.1), instead=(at_most("two", 3.0, [1.0, 2.0]),), reason="one")
    figure = studies.Study(FALSE, ModuleType("plain")).picture(verdict)
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.texts] == [
        "as published: one:  = 2 ± 0.1,  measured 1",
        "two:  2 numbers ≤ 3",
    ]


def test_a_picture_has_the_checks_below_it():
    module = ModuleType("drawing")
    module.draw = lambda data: curves_figure([Curve("", data, data)], "x", "y")
    verdict = TRUE.judge(equal("one", 1.0, 1.0, 0.1), data=[1.0, 2.0])
    figure = studies.Study(TRUE, module).picture(verdict)
    assert [text.get_text() for text in figure.axes[-1].texts] == ["one:  = 1 ± 0.1,  measured 1"]
    assert len(figure.axes) == 2


def test_a_wrong_prediction_does_not_hold():
    verdict = TRUE.judge(equal("right", 1.0, 1.0, 0.0), equal("wrong", 2.0, 1.0, 0.5))
    assert not verdict.holds
    assert not verdict.as_expected
    assert "wrong: predicted 2 within 0.5, measured 1 (1 of 2 parts)" in str(verdict)
    assert "NOT AS EXPECTED" in str(verdict)


def test_one_wrong_entry_of_an_array_does_not_hold():
    assert equal("table", [1.0, 2.0], jnp.array([1.0, 2.0]), 0.0).holds
    assert not equal("table", [1.0, 2.0], jnp.array([1.0, 2.1]), 0.05).holds
    assert not at_most("table", 2.0, jnp.array([1.0, 2.1])).holds
    assert not at_least("table", 1.5, jnp.array([1.0, 2.1])).holds


def test_bounds_are_without_slack_unless_it_is_given():
    assert at_most("bound", 1.0, np.nextafter(1.0, 2.0), slack=1e-12).holds
    assert at_least("bound", 1.0, np.nextafter(1.0, 0.0), slack=1e-12).holds
    assert not at_most("bound", 1.0, 1.0 + 2e-12, slack=1e-12).holds
    assert not at_least("bound", [1.0, 1.0], [1.0, 1.0 - 2e-12], slack=[0.0, 1e-12]).holds
    assert at_most("bound", 1.0, 0.5, slack=1e-12).tolerance == 1e-12
    assert at_most("bound", 1.0, 1.0).holds
    assert at_least("bound", 1.0, 1.0).holds
    assert not at_most("bound", 1.0, np.nextafter(1.0, 2.0)).holds
    assert not at_least("bound", 1.0, np.nextafter(1.0, 0.0)).holds


@pytest.mark.parametrize(
    "measured", [float("nan"), jnp.array([0.0, jnp.nan]), np.zeros(0)], ids=["nan", "entry", "empty"]
)
def test_what_is_not_a_number_does_not_hold(measured):
    for check in (equal("nan", 0.0, measured, 1.0), at_most("nan", 1.0, measured), at_least("nan", -1.0, measured)):
        assert not check.holds
        json.dumps(TRUE.judge(check).as_json(), allow_nan=False)


def test_infinite_numbers_are_compared_without_a_warning():
    assert not equal("time", np.inf, np.inf, 1.0).holds
    assert at_most("bound", np.inf, np.inf).holds
    assert not at_most("bound", 1.0, np.inf).holds
    assert str(at_most("bound", 1.0, np.inf)) == "bound: predicted at most 1, measured inf"


def test_a_published_error_must_be_wrong_for_the_known_reason():
    wrong, known, unknown = equal("ratio", 2.0, 1.0, 0.1), equal("is", 1.0, 1.0, 0.1), equal("is", 3.0, 1.0, 0.1)
    assert FALSE.judge(wrong, instead=(known,), reason="one").as_expected
    assert not FALSE.judge(wrong, instead=(unknown,), reason="one").as_expected
    assert not FALSE.judge(equal("ratio", 1.0, 1.0, 0.1), instead=(known,), reason="one").as_expected


def test_one_check_gives_numbers_and_several_give_parts():
    one = TRUE.judge(equal("count", 10, jnp.asarray(10), 0)).as_json()
    assert (one["predicted"], one["measured"], one["tolerance"]) == (10, 10, 0)
    two = TRUE.judge(equal("count", 10, 10, 0), at_most("size", 0.5, 0.25)).as_json()
    assert two["predicted"] == {"count": 10, "size": 0.5}
    assert two["relation"] == {"count": "equal", "size": "at most"}
    assert two["measured"] == {"count": 10, "size": 0.25}


def test_each_part_says_whether_it_holds_and_to_what_it_belongs():
    wrong, known = equal("ratio", 2.0, 1.0, 0.1), at_least("is", 1.0, 1.0, slack=1e-12)
    fields = FALSE.judge(wrong, instead=(known,), reason="one").as_json()
    keys = ("what", "role", "relation", "predicted", "measured", "tolerance", "holds")
    assert [[part[key] for key in keys] for part in fields["parts"]] == [
        ["ratio", "claim", "equal", 2.0, 1.0, 0.1, False],
        ["is", "instead", "at least", 1.0, 1.0, 1e-12, True],
    ]


def test_a_verdict_says_how_it_was_made():
    fields = TRUE.judge(equal("count", 1, 1, 0)).as_json()
    assert (fields["size"], fields["seed"], fields["version"]) == ("small", None, measureflow.__version__)


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (equal("x", -1.0, -1.0000001, 1e-9), "predicted -1 within 1e-09, measured -1.0000001"),
        (equal("x", 1.0, 1.10000001, 0.1), "predicted 1 within 0.1, measured 1.10000001"),
        (equal("x", [1.0, 1.0], [1.0, 1.2], 0.1), "predicted 1 within 0.1, measured 1.2 (entry 2 of 2)"),
        (equal("x", 0.0, np.diag([0.0, 1.0]), 0), "predicted 0, measured 1 (entry 2, 2 of 2 x 2)"),
        (at_most("x", 1.0, np.nextafter(1.0, 2.0)), "predicted at most 1, measured 1.0000000000000002"),
        (at_least("x", 2, 3), "predicted at least 2, measured 3"),
        (equal("x", 1.0, [1.0, jnp.nan], 0.1), "predicted 1 within 0.1, measured nan (entry 2 of 2)"),
        (equal("x", 1.0, [], 0.1), "predicted 1, measured nothing"),
    ],
)
def test_a_part_shows_its_worst_entry_with_digits_enough_to_see_why(check, words):
    assert str(check) == f"x: {words}"


def test_the_tightest_part_is_the_one_that_is_told():
    loose, tight, fails = equal("loose", 1.0, 1.1, 1.0), at_most("tight", 1.0, 0.99), equal("fails", 1.0, 2.0, 0.5)
    assert ": tight: " in str(TRUE.judge(loose, tight))
    assert ": fails: " in str(TRUE.judge(loose, tight, fails))
    assert ": fails: " in str(FALSE.judge(fails, instead=(tight,), reason="one"))
    assert ": fails: " in str(FALSE.judge(equal("ratio", 2.0, 1.0, 1e-9), instead=(fails,), reason="one"))
    assert TRUE.judge(equal("exact", 1, 1, 0), loose).margin == pytest.approx(0.9)
    assert TRUE.judge(fails).margin == pytest.approx(-1)
    assert FALSE.judge(fails, instead=(loose,), reason="one").margin == pytest.approx(0.9)
    assert FALSE.judge(loose, reason="one").margin == pytest.approx(-0.9)
    assert equal("exact", 1, 1, 0).margin == 1 > at_most("half", 2.0, 1.0).margin == 0.5
    assert at_most("bound", jnp.inf, 1.0).margin == at_most("count", 2, 2).margin == 1


def test_a_claim_needs_checks_with_names_of_their_own():
    with pytest.raises(ValueError, match="at least one check"):
        TRUE.judge()
    with pytest.raises(ValueError, match="one name"):
        TRUE.judge(equal("same", 1, 1, 0), equal("same", 2, 2, 0))


def test_what_is_expected_follows_from_the_name():
    assert TRUE.expected == "holds"
    assert FALSE.expected == "differs"


def test_the_data_of_a_picture_are_no_part_of_a_verdict():
    one, two = (TRUE.judge(equal("count", 1, 1, 0), data=jnp.arange(n)) for n in (3, 4))
    assert one == two
    assert "data" not in one.as_json()
    assert "Array" not in repr(one)


def test_a_verdict_without_checks_is_not_decided():
    for claim in (TRUE, FALSE):
        verdict = Verdict(claim, reason="ValueError: no\nmore")
        assert not verdict.as_expected
        assert str(verdict) == f"{claim.name}: ValueError: no; not decided, NOT AS EXPECTED (0.0 s)"
        json.dumps(verdict.as_json(), allow_nan=False)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(ValueError, match="nearest is 'two-tokens-tanh'"):
        studies.run("two-token-tanh")
    with pytest.raises(ValueError, match="nearest is"):
        studies.claim("zzz")


def test_a_size_picks_its_own_setting():
    assert Size("small").pick(16, 64) == 16
    assert Size("full").pick(16, 64) == 64


def test_themes_share_all_studies_out():
    by_theme = [studies.names(topic) for topic in studies.topics()]
    assert sorted(itertools.chain(*by_theme)) == studies.names()
    assert min(map(len, by_theme)) > 2
    assert len({file.stem for file in FILES}) == len(FILES)
    assert all(studies.claim(name).topic == topic for topic in studies.topics() for name in studies.names(topic))
    with pytest.raises(ValueError, match="`topic` is 'spheres'"):
        studies.names("spheres")


def test_every_theme_says_in_a_line_what_it_is():
    for topic in studies.topics():
        assert re.fullmatch(r"[A-Z][^\n]+\.", studies.about(topic)), topic


def test_every_claim_says_where_it_is_stated():
    places = (
        r"\b(abstract|conjectures?|definition|derived|equations?|estimate|figure|lectures|lemma|part|"
        r"propositions?|remarks?|section|slides?|table|theorems?)\b"
    )
    for name in studies.names():
        claim = studies.claim(name)
        assert re.search(places, claim.where), name
        assert len(claim.statement) > 20


def test_files_without_a_claim_are_shared_by_two_studies_or_more():
    text = {file: file.read_text() for file in FILES}
    for shared in (file for file in FILES if "\nCLAIM = " not in text[file]):
        users = [file for file in FILES if f"studies.{shared.parent.name}.{shared.stem} import" in text[file]]
        assert len(users) > 1, shared


def test_listing_the_studies_does_not_load_jax():
    code = (
        "import sys; from measureflow import studies; assert [studies.claim(name) for name in studies.names()]; "
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
