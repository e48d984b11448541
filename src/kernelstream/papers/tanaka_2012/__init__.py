"""Adaptive kernel PCA: SubKHA, LMS and RLS (Tanaka, Washizawa and Kuh 2012)."""
