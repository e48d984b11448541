"""The experiments of the papers, run again: ``python -m reproductions``."""
