"""List of invalid rows as NDJSON (``--rejects``), truncated to the checkpoint on resume."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from kernelstream.cli.failures import CHANGED, CommandError
from kernelstream.serialization import Replacement
from kernelstream.tables import BadRow


class Rejects:
    """Bad rows as NDJSON, cut back to the checkpoint when a run goes on."""

    def __init__(self, path: Path | None, size: int):
        self.path = path
        if path is None:
            return
        if not Replacement.is_possible(path):
            if size:  # a pipe or a device takes nothing back
                raise CommandError(CHANGED, f"{path} cannot be cut back to the checkpoint.")
            self.file: BinaryIO = Replacement(path).file
            return
        if size and (not path.exists() or path.stat().st_size < size):
            raise CommandError(
                CHANGED, f"{path} is not the list of rejects that the checkpoint left."
            )
        if not size:
            path.write_bytes(b"")
        os.truncate(path, size)
        self.file = open(path, "ab")  # noqa: SIM115 (closed at the end of the run)

    def add(self, bad: tuple[BadRow, ...]) -> int:
        """Write rows down; returns the size of the list."""
        if self.path is None:
            return 0
        for row in bad:
            self.file.write(json.dumps(asdict(row)).encode() + b"\n")
        self.file.flush()
        return self.file.tell() if self.file.seekable() else 0

    def close(self) -> None:
        """Close the list."""
        if self.path is not None:
            self.file.close()
