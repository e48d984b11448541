"""The monitor of a process: control charts, drift and contributions on a live stream."""
