"""Incremental kernel PCA (Chin and Suter 2006)."""
