"""Kernel PCA on a cluster."""
