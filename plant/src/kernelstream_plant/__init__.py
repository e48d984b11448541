"""Process monitors in operation: live page, history, alarms, brokers, metrics, fleets.

>>> import numpy as np
>>> from kernelstream import KernelMonitor
>>> from kernelstream_plant import LiveMonitor
>>> X = np.random.default_rng(0).normal(size=(300, 3))
>>> live = LiveMonitor(KernelMonitor(basis=30, random_state=0).fit(X[:200]))
>>> live.status().text
'waiting for the first row'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelstream_plant.fleet import MonitorFleet
    from kernelstream_plant.operation import History, LiveMonitor, Notice, Status, ask

__all__ = ["History", "LiveMonitor", "MonitorFleet", "Notice", "Status", "ask"]


def __getattr__(name: str) -> Any:
    """Import public names on first use: the help of the commands needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "fleet" if name == "MonitorFleet" else "operation"
    return getattr(import_module(f"kernelstream_plant.{module}"), name)
