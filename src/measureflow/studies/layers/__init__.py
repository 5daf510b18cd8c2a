"""Attention layer by layer: residual steps, normalisation schemes, long contexts."""
