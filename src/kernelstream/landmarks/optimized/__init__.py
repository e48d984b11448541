"""Points that a sample of all rows places, and that follow the rows: the default basis."""

from kernelstream.landmarks.optimized.basis import Centroids

__all__ = ["Centroids"]
