"""Modes of densities estimated from tokens on the line: how many, and what attention makes of them."""
