"""The kernel Hebbian algorithm over a finite set of rows (Kim, Franz and Schölkopf 2003)."""
