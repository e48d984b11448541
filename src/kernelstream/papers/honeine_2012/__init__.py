"""Online kernel PCA with a reduced-order model (Honeine 2012)."""
