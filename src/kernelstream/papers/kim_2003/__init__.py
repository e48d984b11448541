"""Kernel Hebbian algorithm (Kim, Franz and Schölkopf 2003)."""
