"""Novelty detector: reconstruction error with conformal p-values and a threshold."""
