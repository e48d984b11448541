"""List of invalid rows as NDJSON (``--rejects``), cut back to the checkpoint on resume."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from kernelstream.cli.failures import CHANGED, CommandError
from kernelstream.serialization import Replacement
from kernelstream.tables import BadRow


class Rejects:
    """Invalid rows as NDJSON, a line each.

    Parameters
    ----------
    path : Path or None
        The list; None keeps none.
    n_lines : int
        Rows before the checkpoint of a run that is resumed: the list is cut back to these.
    """

    def __init__(self, path: Path | None, n_lines: int):
        self.path = path
        if path is None:
            return
        if not Replacement.is_possible(path):
            if n_lines:  # a pipe or a device takes nothing back
                raise CommandError(CHANGED, f"{path} cannot be cut back to the checkpoint.")
            self.file: BinaryIO = Replacement(path).file
            return
        size = size_of_lines(path, n_lines)
        path.touch()
        os.truncate(path, size)
        self.file = open(path, "ab")  # noqa: SIM115 (closed at the end of the run)

    def add(self, bad: tuple[BadRow, ...]) -> None:
        """List rows."""
        if self.path is None:
            return
        for row in bad:
            self.file.write(json.dumps(asdict(row)).encode() + b"\n")
        self.file.flush()

    def close(self) -> None:
        """Close the list."""
        if self.path is not None:
            self.file.close()


def size_of_lines(path: Path, n_lines: int) -> int:
    """Bytes of the first lines of a file."""
    if not n_lines:
        return 0
    sizes = []
    if path.exists():
        with path.open("rb") as file:
            sizes = [len(line) for line in islice(file, n_lines) if line.endswith(b"\n")]
    if len(sizes) < n_lines:
        raise CommandError(CHANGED, f"{path} is not the list of rejects that the checkpoint left.")
    return sum(sizes)
