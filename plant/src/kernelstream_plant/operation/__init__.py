"""Monitor in operation: history, operator commands, hooks, metrics."""

from kernelstream_plant.operation.history import History, ask
from kernelstream_plant.operation.live import LiveMonitor, Notice, Status

__all__ = ["History", "LiveMonitor", "Notice", "Status", "ask"]
