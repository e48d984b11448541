"""Shell completion: names of kernels, landmarks and types, column names from headers of CSV files.

Completion imports none of the packages that the commands need: a shell calls it at every press of a
key. So the names of parts come from the registry file of the package (``make registry``), and only
the head of a file is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

USES = ("number", "boolean", "category", "codes", "out")
HEAD = 1 << 16  # bytes of a text that its first line is looked for in
TEXT_FILES = (".csv", ".tsv", ".txt")
MANY = 1000  # columns that a shell is told

Completion = Callable[[Any, list[str], str], list[str]]


def names(*known: str) -> Completion:
    """Complete one of these names, the last one of sums, products and parentheses."""

    def complete(ctx: Any, args: list[str], incomplete: str) -> list[str]:
        before, last = re.fullmatch(r"(.*?)([A-Za-z_]*)", incomplete, re.DOTALL).groups()  # type: ignore[union-attr]
        return [before + name for name in known if name.startswith(last)]

    return complete


def parts(family: str, *others: str) -> Completion:
    """Complete the name of a part of a family, or one of the others."""

    def complete(ctx: Any, args: list[str], incomplete: str) -> list[str]:
        return names(*part_names(family), *others)(ctx, args, incomplete)

    return complete


def part_names(family: str) -> list[str]:
    """The names of the parts of a family, such as ``kernels``, in the registry of the package.

    Examples
    --------
    >>> part_names("trackers")[:2]
    ['covariance', 'hebbian']
    """
    import json

    path = Path(__file__).parents[1] / "serialization" / "registry.json"
    registered = json.loads(path.read_text(encoding="utf-8"))["parts"]
    return sorted(
        name
        for part, facts in registered.items()
        if part.startswith(f"{family}.")
        for name in facts["names"]
    )


def column(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    """Complete the name of a column."""
    return [name for name in columns_of(words_so_far()) if name.startswith(incomplete)]


def columns(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    """Complete the last of several names of columns, those that are there already left out."""
    before, comma, last = incomplete.rpartition(",")
    said = set(before.split(","))
    return [
        before + comma + name
        for name in columns_of(words_so_far())
        if name.startswith(last) and name not in said
    ]


def uses(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    """Complete ``name=use``, the last one of several."""
    before, comma, last = incomplete.rpartition(",")
    name, equals, _ = last.partition("=")
    if equals:
        return [f"{before}{comma}{name}={use}" for use in USES]
    return [f"{found}=" for found in columns(ctx, args, incomplete)]


def words_so_far() -> list[str]:
    """The words of the command line that is being typed, as the shell hands them over."""
    import shlex

    text = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    for whole in (text, text + "'", text + '"'):  # a quote may still be open
        try:
            return shlex.split(whole)
        except ValueError:
            continue
    return text.split()


def columns_of(words: Iterable[str]) -> list[str]:
    r"""The columns of the first file among these words that has some.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rows.csv"
    ...     _ = path.write_text("time;speed;load\n1;2;3\n")
    ...     columns_of(["fit", str(path), "--target"])
    ['time', 'speed', 'load']
    """
    for path in files_among(words):
        try:
            found = header_of(path)
        except Exception:  # whatever is wrong with it, the command will say
            continue
        if found:
            return found[:MANY]
    return []


def files_among(words: Iterable[str]) -> Iterator[Path]:
    """The files among words; of a folder or a pattern, one."""
    for word in words:
        path = Path(os.path.expanduser(word))
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from sorted(each for each in path.iterdir() if each.is_file())[:1]
        elif "*" in path.name and path.parent.is_dir():
            yield from sorted(path.parent.glob(path.name))[:1]


def header_of(path: Path) -> list[str]:
    """The columns that the first line of a CSV file names; nothing where it names none."""
    import csv

    if path.suffix.lower() not in TEXT_FILES:
        return []
    with path.open("rb") as file:
        text = file.read(HEAD).decode("utf-8-sig", errors="replace")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    delimiter = next((sign for sign in ",;\t|" if sign in lines[0]), ",")
    first = next(csv.reader([lines[0]], delimiter=delimiter))
    return [] if all(map(is_number, first)) else first


def is_number(word: str) -> bool:
    """Whether a word of the first line is a number, and no name."""
    try:
        float(word)
    except ValueError:
        return False
    return True
