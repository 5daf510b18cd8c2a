"""Interactions on the circle: which ones bring all tokens together."""
