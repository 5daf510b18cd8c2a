"""Causal attention: each token sees its past."""
