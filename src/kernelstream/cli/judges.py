"""What all that judge rows of a stream have in common beside the rows."""

from __future__ import annotations

import sys
from pathlib import Path

from kernelstream.tables.feeds import Feed, PipeFeed


class Quiet:
    """What a judge does beside the rows, where nothing is to be done."""

    row = 0

    @property
    def identity(self) -> str:
        """What tells the model from another."""
        return ""

    def refuse(self, reason: str) -> None:
        """Nothing but the line that was written."""

    def hear(self, text: str) -> None:
        """Tell people."""
        sys.stderr.write(f"{text}\n")

    def look(self) -> None:
        """Nothing to look for."""

    def end(self, saved: Path | None) -> None:
        """Nothing to sum up."""

    def place(self, feed: Feed) -> str:
        """Where rows come from, in words."""
        return "standard input" if isinstance(feed, PipeFeed) else "the source"
