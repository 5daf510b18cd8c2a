"""Densities on the sphere under attention: how fast they become one point, and from where they break up."""
