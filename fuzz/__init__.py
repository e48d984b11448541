"""Attacks with random seeds: ``make fuzz MINUTES=10``, or ``python -m fuzz --only laws``.

An attack is a module of this folder with ``attack(seed)``: it returns None where all held, else a
script that shows the failure, with what was seen. A module that is laid here takes part.
"""
