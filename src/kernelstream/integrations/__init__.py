"""Adapters for other libraries of the field."""
