"""Statistical optimal transport: rates of empirical distances, entropic maps, the geometry of Gaussians."""
