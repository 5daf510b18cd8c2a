"""Gaussian tokens: fields that are affine, covariances that shrink, keep their rank or blow up."""
