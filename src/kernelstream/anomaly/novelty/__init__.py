"""The detector of novel rows: how unlike those that were learned, how probable, which columns."""
