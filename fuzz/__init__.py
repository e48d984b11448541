"""Attacks with random input: ``attack(seed)`` of each module says what went wrong, or None."""
