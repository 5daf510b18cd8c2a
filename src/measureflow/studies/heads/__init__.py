"""Attention heads as a measure: their features, their risk, and how many of them are needed."""
