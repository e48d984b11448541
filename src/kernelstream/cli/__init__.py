"""The command line: ``kernelstream fit``, ``update``, ``transform``, ``monitor`` and the others."""

from __future__ import annotations

import contextlib
import gc
import os
import sys

from kernelstream.cli import light

__all__ = ["main"]


def main() -> None:
    """Run the command line; where its packages are missing, say which to install."""
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
    except ModuleNotFoundError as problem:
        if (problem.name or "").startswith("kernelstream"):
            raise
        sys.stderr.write(
            f"The command line needs the package {problem.name}: pip install 'kernelstream[cli]'\n"
        )
        sys.exit(1)
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
