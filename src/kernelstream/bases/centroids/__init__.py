"""Centroids of k-means that follow the rows: the default basis."""

from kernelstream.bases.centroids.basis import Centroids

__all__ = ["Centroids"]
