"""Tokens with noise on the sphere: thresholds and transitions."""
