"""Shell completion: names of kernels and trackers, column names from CSV and Parquet headers.

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

SCHEDULES = (
    "auto",
    "constant",
    "inverse_time",
    "search_then_converge",
    "eigenvalue_annealed",
)
USES = ("number", "boolean", "category", "codes", "calendar", "out")
HEAD = 1 << 16  # bytes of a text that its first line is looked for in
FOOTER = 1 << 24  # bytes of the longest footer of a Parquet file that is read
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
    """The columns that the head of a file names; nothing where it names none."""
    import csv
    import json

    endings = [ending.lower() for ending in path.suffixes]
    if endings[-1:] in ([".parquet"], [".pq"]):
        return parquet_columns(path)
    if endings[-1:] == [".npz"]:
        import zipfile

        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    opener: Callable[..., Any] = open
    if endings[-1:] == [".gz"]:
        from gzip import open as opener
    elif endings[-1:] == [".bz2"]:
        from bz2 import open as opener
    elif endings[-1:] == [".xz"]:
        from lzma import open as opener
    endings = endings[:-1] if opener is not open else endings
    if endings[-1:] not in ([".csv"], [".tsv"], [".txt"], [".ndjson"], [".jsonl"], [".json"]):
        return []
    with opener(path, "rb") as file:
        text = file.read(HEAD).decode("utf-8-sig", errors="replace")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if endings[-1] in (".ndjson", ".jsonl", ".json"):
        row = json.loads(lines[0])
        return list(row) if isinstance(row, dict) else []
    sign = next((sign for sign in ",;\t|" if sign in lines[0]), ",")
    first = next(csv.reader([lines[0]], delimiter=sign))
    return [] if all(map(is_number, first)) else first


def is_number(word: str) -> bool:
    """Whether a word of the first line is a number, and no name."""
    try:
        float(word)
    except ValueError:
        return False
    return True


# -- Parquet: the names in the footer, which is a structure of Thrift's compact protocol


def parquet_columns(path: Path) -> list[str]:
    """The columns of a Parquet file, without the package that reads its rows."""
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        tail = file.read(8)
        size = int.from_bytes(tail[:4], "little")
        if tail[4:] != b"PAR1" or size > FOOTER:
            return []
        file.seek(-8 - size, os.SEEK_END)
        footer = Thrift(file.read(size)).structure()
    elements = footer[2]  # the schema as a list, each group before its members
    found, at = [], 1
    for _ in range(elements[0].get(5, 0)):
        found.append(elements[at][4].decode())
        at = after(elements, at)
    return found


def after(elements: list[dict[int, Any]], at: int) -> int:
    """Where the next element begins that is no member of this one."""
    members, at = elements[at].get(5, 0), at + 1
    for _ in range(members):
        at = after(elements, at)
    return at


class Thrift:
    """Values of Thrift's compact protocol, one after the other; fields are known by number."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def byte(self) -> int:
        """The next byte."""
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        """A number in groups of seven bits, the lowest first."""
        value = shift = 0
        while True:
            part = self.byte()
            value |= (part & 0x7F) << shift
            if part < 0x80:
                return value
            shift += 7

    def zigzag(self) -> int:
        """A number with a sign."""
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def value(self, kind: int) -> Any:
        """A value of a kind."""
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 7:
            self.at += 8
            return None
        if kind == 8:
            size = self.varint()
            self.at += size
            return self.data[self.at - size : self.at]
        if kind in (9, 10):
            head = self.byte()
            size = self.varint() if head >> 4 == 15 else head >> 4
            return [self.element(head & 15) for _ in range(size)]
        if kind == 12:
            return self.structure()
        raise ValueError(f"a value of the kind {kind}")

    def element(self, kind: int) -> Any:
        """A member of a list, where truths take a byte."""
        return self.byte() == 1 if kind in (1, 2) else self.value(kind)

    def structure(self) -> dict[int, Any]:
        """Fields by their numbers."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            fields[number] = self.value(head & 15)
        return fields
