"""Command line: ``main``, and what commands of other distributions are made of.

Modules that import NumPy are imported when one of their names is used first.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernelstream.cli import options
from kernelstream.cli.app import main
from kernelstream.cli.arguments import LearningOptions, RowOptions
from kernelstream.cli.commands import add_command
from kernelstream.cli.failures import BUSY, DATA, MODEL, USAGE, WRITE, CommandError

if TYPE_CHECKING:
    from kernelstream.cli.modelfile import lock, read_monitor, require_apart, require_writable
    from kernelstream.cli.monitor import (
        MonitorLoop,
        MonitorScorer,
        RowScorer,
        open_feed,
        open_scorer,
        row_parser,
    )
    from kernelstream.cli.normal import new_monitor, read_normal, sensors
    from kernelstream.cli.reporting import write_page
    from kernelstream.cli.terminal import Screen, facts_table

__all__ = [
    "main",
    "BUSY",
    "CommandError",
    "DATA",
    "LearningOptions",
    "MODEL",
    "MonitorLoop",
    "MonitorScorer",
    "RowOptions",
    "RowScorer",
    "Screen",
    "USAGE",
    "WRITE",
    "add_command",
    "facts_table",
    "lock",
    "new_monitor",
    "open_feed",
    "open_scorer",
    "options",
    "read_monitor",
    "read_normal",
    "require_apart",
    "require_writable",
    "row_parser",
    "sensors",
    "write_page",
]


def __getattr__(name: str) -> Any:
    modules = ("terminal", "modelfile", "normal", "monitor", "reporting")
    for module in modules if name in __all__ else ():
        within = import_module(f"kernelstream.cli.{module}")
        if hasattr(within, name):
            return getattr(within, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
