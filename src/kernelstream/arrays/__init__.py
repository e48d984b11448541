"""What the mathematics stands on: array namespaces, devices, draws, compiled passes."""
