"""List of invalid rows as NDJSON (``--rejects``), cut back to the checkpoint on resume."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from kernelstream.cli.failures import CHANGED, CommandError
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
        self.path, self.n_rows = path, n_lines
        if path is None:
            return
        size = size_of_lines(path, n_lines)
        self.file = open(path, "r+b" if size else "wb")  # noqa: SIM115 (closed after the run)
        if size:
            self.file.truncate(size)
            self.file.seek(size)

    def add(self, bad: tuple[BadRow, ...]) -> None:
        """Count rows, and list them."""
        self.n_rows += len(bad)
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
    sizes = []
    if n_lines and path.is_file():  # a pipe or a device takes nothing back
        with path.open("rb") as file:
            sizes = [len(line) for line in islice(file, n_lines) if line.endswith(b"\n")]
    if len(sizes) < n_lines:
        raise CommandError(CHANGED, f"{path} is not the list of rejects that the checkpoint left.")
    return sum(sizes)
