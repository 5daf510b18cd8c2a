"""Two-layer networks: neurons as a measure, its gradient flow, and what is convex in it."""
