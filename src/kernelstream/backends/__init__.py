"""What the mathematics stands on: array namespaces and compiled passes."""
