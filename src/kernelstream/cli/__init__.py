"""Command line entry point: ``main``, standard streams, lazily imported public names."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernelstream.cli import light

if TYPE_CHECKING:
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
        Following,
        Judge,
        Learning,
        MonitorJudge,
        RowOptions,
        open_judge,
    )
    from kernelstream.cli.normal import new_monitor, read_normal, sensors
    from kernelstream.cli.options import (
        Columns,
        Database,
        Exclude,
        Json,
        Model,
        Output,
        Quiet,
        Reading,
        RejectsFile,
        Settings,
        Sources,
        flat,
    )
    from kernelstream.cli.report.page import bokeh_colors
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
    "Following",
    "Json",
    "Judge",
    "Learning",
    "MODEL",
    "Model",
    "MonitorJudge",
    "Output",
    "Quiet",
    "Reading",
    "RejectsFile",
    "RowOptions",
    "Screen",
    "Settings",
    "Sources",
    "USAGE",
    "WRITE",
    "bokeh_colors",
    "facts_table",
    "flat",
    "lock",
    "new_monitor",
    "open_judge",
    "read_monitor",
    "read_normal",
    "report_failures",
    "require_apart",
    "require_writable",
    "sensors",
    "write_page",
]

# They are imported when they are used: the start of a command, and its help, wait for nothing else.
_NAMES = {
    **dict.fromkeys(
        ("BUSY", "DATA", "MODEL", "USAGE", "WRITE", "CommandError", "report_failures"), "failures"
    ),
    **dict.fromkeys(("lock", "read_monitor", "require_apart", "require_writable"), "modelfile"),
    **dict.fromkeys(
        ("Following", "Judge", "Learning", "MonitorJudge", "RowOptions", "open_judge"), "monitor"
    ),
    **dict.fromkeys(("new_monitor", "read_normal", "sensors"), "normal"),
    **dict.fromkeys(
        (
            "Columns",
            "Database",
            "Exclude",
            "Json",
            "Model",
            "Output",
            "Quiet",
            "Reading",
            "RejectsFile",
            "Settings",
            "Sources",
            "flat",
        ),
        "options",
    ),
    **dict.fromkeys(("bokeh_colors",), "report.page"),
    **dict.fromkeys(("write_page",), "reporting"),
    **dict.fromkeys(("Screen", "facts_table"), "terminal"),
}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"kernelstream.cli.{_NAMES[name]}"), name)


def main() -> None:
    """Run the command line."""
    open_standard_streams()
    if light.is_enough(sys.argv[1:]) and not any(name in sys.modules for name in light.HEAVY):
        with contextlib.suppress(light.RunWanted), light.StandIns():
            run()
            return
    run()


def run() -> None:
    """Import the commands and run the one that is asked for."""
    gc.disable()  # what is imported is no garbage: looking through it takes a tenth of the start
    try:
        with light.WithoutPandas():
            from kernelstream.cli.app import application

            app = application(sys.argv[1:])
    finally:
        gc.freeze()
        gc.enable()
    from kernelstream.cli.failures import drop_output, of_system

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
