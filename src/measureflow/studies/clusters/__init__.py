"""Tokens in flat space that cluster after rescaling: polytopes, hyperplanes and the origin."""
