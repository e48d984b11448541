"""Optimized landmarks (default): placed by k-means and gradient ascent on a sample of all rows."""

from kernelstream.landmarks.optimized.strategy import Centroids

__all__ = ["Centroids"]
