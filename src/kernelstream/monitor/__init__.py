"""Control charts, novelty, drift and causes on a live stream.

>>> from kernelstream.monitor import KernelMonitor
>>> KernelMonitor(alpha=0.05).alpha
0.05
"""

from kernelstream.monitor.contributions import Contributions
from kernelstream.monitor.drift import Drift
from kernelstream.monitor.estimator import KernelMonitor
from kernelstream.monitor.fleet import MonitorFleet, OfMachine
from kernelstream.monitor.records import Event, Record, Records
from kernelstream.monitor.sensors import SensorEvent

__all__ = [
    "Contributions",
    "Drift",
    "Event",
    "KernelMonitor",
    "MonitorFleet",
    "OfMachine",
    "Record",
    "Records",
    "SensorEvent",
]
