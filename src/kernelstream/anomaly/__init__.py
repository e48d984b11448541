"""Anomaly detection: a novelty detector for single rows and a process monitor for time series.

>>> from kernelstream.anomaly import KernelMonitor
>>> KernelMonitor(alpha=0.05).alpha
0.05
"""

from kernelstream.anomaly.monitor.contributions import Contributions
from kernelstream.anomaly.monitor.estimator import KernelMonitor
from kernelstream.anomaly.monitor.models import Drift
from kernelstream.anomaly.monitor.records import Event, Record, Records
from kernelstream.anomaly.monitor.sensors import SensorEvent
from kernelstream.anomaly.novelty.estimator import KernelNovelty

__all__ = [
    "Contributions",
    "Drift",
    "Event",
    "KernelMonitor",
    "KernelNovelty",
    "Record",
    "Records",
    "SensorEvent",
]
