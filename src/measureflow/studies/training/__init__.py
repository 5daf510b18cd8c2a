"""Heads in training: propagation of chaos, descent of the risk, stability of what it reaches."""
