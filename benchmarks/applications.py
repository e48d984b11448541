"""``python -m benchmarks.applications``: what the applications reach, beside their goals.

    python -m benchmarks.applications [--data FOLDER] [--only WORD …]

Prints a table of Markdown, a line as soon as it is measured. Each module of ``MODULES`` has rows of
its own in ``APPLICATIONS``. Processes are simulated, and what needs data that are not in the
folder says so and is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

MODULES = ("benchmarks.monitor", "benchmarks.novelty", "benchmarks.images")


class Reached(NamedTuple):
    """What was measured, in words, and whether it is the goal or better (None: not measured)."""

    words: str
    enough: bool | None


class Row(NamedTuple):
    """One line of the table; ``measure`` gets the folder of data, or None."""

    name: str
    before: str  # what version 0.1 reached
    goal: str
    measure: Callable[[Path | None], Reached]


def rows(only: list[str] | None = None) -> Iterator[Row]:
    """All rows, or those in whose names one of the words is."""
    for module in MODULES:
        for row in import_module(module).APPLICATIONS:
            if not only or any(word.casefold() in row.name.casefold() for word in only):
                yield row


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 where a goal was measured and missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.applications", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", type=Path, help="folder with tennessee_eastman.npz and so on")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="rows with one of these words")
    given = parser.parse_args(arguments)
    verdicts = {True: "yes", False: "**no**", None: "–"}
    missed = 0
    print("| | version 0.1 | goal | now | reached |\n|---|--:|--:|---|---|", flush=True)
    for row in rows(given.only):
        found = row.measure(given.data)
        missed += found.enough is False
        cells = (row.name, row.before, row.goal, found.words, verdicts[found.enough])
        print(f"| {' | '.join(cells)} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
