"""Exit codes and error messages: usage, data, model and write errors, interrupts, closed pipes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
from collections.abc import Iterator

import typer

from kernelstream.cli.wording import of_shell

USAGE = 2  # options that do not fit, or make no sense
DATA = 3  # a bad row, a missing column, a file that cannot be read
MODEL = 4  # the model file is none, is damaged, or is of another version
WRITE = 5  # disk full, read-only folder
BUSY = 6  # another process writes this model
CHANGED = 7  # the checkpoint does not belong to this command, or a source changed
INTERRUPTED = 130


class CommandError(Exception):
    """Something a user can act on."""

    def __init__(self, code: int, message: str):
        super().__init__(message)
        self.code = code


@contextlib.contextmanager
def report_failures(as_json: bool = False) -> Iterator[None]:
    """Turn an exception inside into one message on the standard error and an exit code."""
    try:
        yield
    except CommandError as failure:
        fail(failure.code, of_shell(str(failure)), as_json)
    except KeyboardInterrupt:
        fail(INTERRUPTED, "Interrupted.", as_json)
    except OSError as problem:
        if problem.errno == errno.EPIPE:
            leave_closed_pipe()
        drop_output()
        fail(*of_system(problem), as_json)
    except ValueError as problem:  # the library's own words: parameters, rows, models
        fail(DATA, of_shell(str(problem)), as_json)
    except MemoryError as problem:
        message = (
            "There is not enough memory: allow the process more, or let it use less, with fewer "
            "landmarks (--basis) or one thread (OPENBLAS_NUM_THREADS=1)."
        )
        fail(1, f"{message} ({problem})" if str(problem) else message, as_json)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """A polite request to end (SIGTERM) is an interruption like Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def of_system(problem: OSError) -> tuple[int, str]:
    """Exit code and message for an error of the operating system."""
    where = f"{problem.filename}: " if problem.filename else ""
    if problem.errno == errno.EBADF:
        return WRITE, "The standard output is closed: name a file with -o, or send it somewhere."
    if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return WRITE, (
            f"{where}there is no room to write ({problem.strerror}). What was there before is as "
            "it was; make room and run the command again."
        )
    if problem.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return WRITE, f"{where}{problem.strerror}: choose a place where you may read and write."
    code = DATA if isinstance(problem, FileNotFoundError) else WRITE
    return code, f"{where}{problem.strerror or problem}"


def fail(code: int, message: str, as_json: bool) -> None:
    """Say what went wrong and leave."""
    text = typer.style("Error:", fg="red", bold=True) + f" {message}"
    if as_json:
        text = json.dumps({"error": message, "exit_code": code})
    with contextlib.suppress(OSError):  # where nothing can be said, the code says it
        typer.echo(text, err=True)
    raise typer.Exit(code)


def leave_closed_pipe() -> None:
    """The reader of our output has gone: that is its right, and no error."""
    drop_output()
    raise typer.Exit(0)


def drop_output() -> None:
    """What could not be written is not tried again: Python would complain about it at exit."""
    with contextlib.suppress(OSError, ValueError):  # where it is no file at all
        number = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
