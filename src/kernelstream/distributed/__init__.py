"""Distributed kernel PCA on a cluster."""
