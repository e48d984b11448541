"""A monitor in operation: its history, commands, hooks and metrics."""

from kernelstream.anomaly.monitor.operation.history import History, ask
from kernelstream.anomaly.monitor.operation.live import LiveMonitor, Notice, Status

__all__ = ["History", "LiveMonitor", "Notice", "Status", "ask"]
