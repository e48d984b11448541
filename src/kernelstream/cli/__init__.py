"""Command line entry point: ``main``, standard streams, lazily imported public names."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelstream.cli.arguments import (
        LearningOptions as LearningOptions,
    )
    from kernelstream.cli.arguments import (
        RowOptions as RowOptions,
    )
    from kernelstream.cli.commands import (
        add_command as add_command,
    )
    from kernelstream.cli.failures import (
        BUSY as BUSY,
    )
    from kernelstream.cli.failures import (
        DATA as DATA,
    )
    from kernelstream.cli.failures import (
        MODEL as MODEL,
    )
    from kernelstream.cli.failures import (
        USAGE as USAGE,
    )
    from kernelstream.cli.failures import (
        WRITE as WRITE,
    )
    from kernelstream.cli.failures import (
        CommandError as CommandError,
    )
    from kernelstream.cli.failures import (
        report_failures as report_failures,
    )
    from kernelstream.cli.modelfile import (
        lock as lock,
    )
    from kernelstream.cli.modelfile import (
        read_monitor as read_monitor,
    )
    from kernelstream.cli.modelfile import (
        require_apart as require_apart,
    )
    from kernelstream.cli.modelfile import (
        require_writable as require_writable,
    )
    from kernelstream.cli.monitor import (
        MonitorLoop as MonitorLoop,
    )
    from kernelstream.cli.monitor import (
        MonitorScorer as MonitorScorer,
    )
    from kernelstream.cli.monitor import (
        RowScorer as RowScorer,
    )
    from kernelstream.cli.monitor import (
        open_feed as open_feed,
    )
    from kernelstream.cli.monitor import (
        open_scorer as open_scorer,
    )
    from kernelstream.cli.monitor import (
        row_parser as row_parser,
    )
    from kernelstream.cli.normal import (
        new_monitor as new_monitor,
    )
    from kernelstream.cli.normal import (
        read_normal as read_normal,
    )
    from kernelstream.cli.normal import (
        sensors as sensors,
    )
    from kernelstream.cli.options import (
        Columns as Columns,
    )
    from kernelstream.cli.options import (
        Database as Database,
    )
    from kernelstream.cli.options import (
        Exclude as Exclude,
    )
    from kernelstream.cli.options import (
        InputOptions as InputOptions,
    )
    from kernelstream.cli.options import (
        Json as Json,
    )
    from kernelstream.cli.options import (
        Model as Model,
    )
    from kernelstream.cli.options import (
        Output as Output,
    )
    from kernelstream.cli.options import (
        ParameterSettings as ParameterSettings,
    )
    from kernelstream.cli.options import (
        Quiet as Quiet,
    )
    from kernelstream.cli.options import (
        RejectsFile as RejectsFile,
    )
    from kernelstream.cli.options import (
        ScreenOptions as ScreenOptions,
    )
    from kernelstream.cli.options import (
        Seed as Seed,
    )
    from kernelstream.cli.options import (
        Settings as Settings,
    )
    from kernelstream.cli.options import (
        Sources as Sources,
    )
    from kernelstream.cli.options import (
        parameter_settings as parameter_settings,
    )
    from kernelstream.cli.report.colours import (
        BOKEH_COLORS as BOKEH_COLORS,
    )
    from kernelstream.cli.reporting import (
        write_page as write_page,
    )
    from kernelstream.cli.terminal import (
        Screen as Screen,
    )
    from kernelstream.cli.terminal import (
        facts_table as facts_table,
    )

# Besides ``main``: what commands of other distributions are made of (the entry point group
# ``kernelstream.commands``). They are imported on first use, so that help needs no heavy package.
_MODULES = {
    "arguments": (
        "LearningOptions",
        "RowOptions",
    ),
    "commands": ("add_command",),
    "failures": (
        "BUSY",
        "DATA",
        "MODEL",
        "USAGE",
        "WRITE",
        "CommandError",
        "report_failures",
    ),
    "modelfile": (
        "lock",
        "read_monitor",
        "require_apart",
        "require_writable",
    ),
    "monitor": (
        "MonitorLoop",
        "MonitorScorer",
        "RowScorer",
        "open_feed",
        "open_scorer",
        "row_parser",
    ),
    "normal": (
        "new_monitor",
        "read_normal",
        "sensors",
    ),
    "options": (
        "Columns",
        "Database",
        "Exclude",
        "InputOptions",
        "Json",
        "Model",
        "Output",
        "ParameterSettings",
        "Quiet",
        "RejectsFile",
        "ScreenOptions",
        "Seed",
        "Settings",
        "Sources",
        "parameter_settings",
    ),
    "report.colours": ("BOKEH_COLORS",),
    "reporting": ("write_page",),
    "terminal": (
        "Screen",
        "facts_table",
    ),
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names}
__all__ = ["main", *_NAMES]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"kernelstream.cli.{_NAMES[name]}"), name)


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
