"""Clusters that last for exponentially long times: plateaus of the energy, and when and where clusters merge."""
