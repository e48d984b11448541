"""Command line entry point: ``main``, standard streams, lazily imported public names."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelstream.cli.arguments import LearningOptions, RowOptions
    from kernelstream.cli.commands import add_command
    from kernelstream.cli.failures import (
        BUSY,
        DATA,
        MODEL,
        USAGE,
        WRITE,
        CommandError,
        report_failures,
    )
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
    from kernelstream.cli.options import (
        Columns,
        Database,
        Exclude,
        InputOptions,
        Json,
        Model,
        Output,
        ParameterSettings,
        Quiet,
        RejectsFile,
        ScreenOptions,
        Seed,
        Settings,
        Sources,
        parameter_settings,
    )
    from kernelstream.cli.reporting import write_page
    from kernelstream.cli.terminal import Screen, facts_table

# Besides ``main``: what commands of other distributions are made of (the entry point group
# ``kernelstream.commands``).
__all__ = [
    "main",
    "BUSY",
    "Columns",
    "CommandError",
    "DATA",
    "Database",
    "Exclude",
    "InputOptions",
    "Json",
    "LearningOptions",
    "MODEL",
    "Model",
    "MonitorLoop",
    "MonitorScorer",
    "Output",
    "ParameterSettings",
    "Quiet",
    "RejectsFile",
    "RowOptions",
    "RowScorer",
    "Screen",
    "ScreenOptions",
    "Seed",
    "Settings",
    "Sources",
    "USAGE",
    "WRITE",
    "add_command",
    "facts_table",
    "lock",
    "new_monitor",
    "open_feed",
    "open_scorer",
    "parameter_settings",
    "read_monitor",
    "read_normal",
    "report_failures",
    "require_apart",
    "require_writable",
    "row_parser",
    "sensors",
    "write_page",
]

# Where they are looked up on first use: the modules that import nothing heavy come first.
_MODULES = (
    "failures",
    "options",
    "arguments",
    "commands",
    "terminal",
    "modelfile",
    "normal",
    "monitor",
    "reporting",
)


def __getattr__(name: str) -> Any:
    for module in _MODULES if name in __all__ else ():
        within = import_module(f"kernelstream.cli.{module}")
        if hasattr(within, name):
            return getattr(within, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Run the command line."""
    open_standard_streams()
    from kernelstream.cli.app import application
    from kernelstream.cli.failures import drop_output, of_system

    app = application(sys.argv[1:])
    try:
        try:
            app(prog_name="kernelstream")
        finally:
            sys.stdout.flush()
    except OSError as problem:  # of help and version; commands report their own
        drop_output()
        code, message = of_system(problem)
        sys.stderr.write(f"Error: {message}\n")
        sys.exit(code)


def open_standard_streams() -> None:
    """Put something in the place of standard streams that the process was started without (>&-).

    Otherwise the next file that is opened has their number, and what is printed goes into it. What
    stands in for the output cannot be written: whoever has to write there says so.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if name != "stdin":  # which is None for those who ask
                setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115
