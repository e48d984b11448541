"""Points that a sample of all rows places, and that follow the rows: the default basis."""

from kernelstream.bases.centroids.basis import Centroids

__all__ = ["Centroids"]
