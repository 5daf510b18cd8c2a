"""Tokens on the sphere and on the circle: how fast they meet, and in how many clusters."""
