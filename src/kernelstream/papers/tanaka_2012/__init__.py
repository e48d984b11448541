"""Adaptive kernel PCA by SubKHA, LMS and RLS (Tanaka, Washizawa and Kuh 2012)."""
