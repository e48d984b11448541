"""Statements about what a basis missed, and the account they are drawn from: numbers, no stream."""
