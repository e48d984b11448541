"""``fit --detector monitor``: sensor columns, rows in time order, invalid rows as missing."""

from __future__ import annotations

import glob
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernelstream import KernelMonitor
from kernelstream.anomaly.monitor.parameters import settings_of
from kernelstream.cli import options as opt
from kernelstream.cli.arguments import FitArguments
from kernelstream.cli.failures import DATA, USAGE, CommandError
from kernelstream.cli.modelfile import history, require_apart
from kernelstream.cli.rejects import Rejects
from kernelstream.cli.terminal import Screen, facts_table
from kernelstream.cli.wording import of_shell
from kernelstream.tables import Block, SchemaOptions, Source
from kernelstream.tables.schema import few

MOST_BYTES = 2 << 30  # of rows that a monitor takes into memory


def sensors(
    sources: list[str], read_options: dict[str, Any], wishes: SchemaOptions, screen: Screen
) -> Source:
    """The columns of numbers that a monitor watches, and what is said of the others.

    Rows of a plant come as plain numbers, one by one: nothing is encoded or filled. What a table
    has beside sensors, an index, keys, counters, dates and words, is left out.
    """
    if read_options["columns"] is None and not any(word == "-" for word in sources):
        looked = Source(sources, **read_options, schema=wishes)
        if looked.named:
            left_out = [column for column in looked.schema.columns if not column.is_plain]
            said: dict[str, list[str]] = {}
            for column in left_out:
                why = "no plain numbers" if column.learned else column.reason
                said.setdefault(why, []).append(column.name)
            for why, names in said.items():
                screen.say(f"Left out, {why}: {few(names)}.")
            exclude = [glob.escape(column.name) for column in left_out if column.name]
            read_options = {**read_options, "exclude": [*read_options["exclude"], *exclude]}
    return Source(sources, **read_options)


def new_monitor(basis: str = "auto", **parameters: Any) -> KernelMonitor:
    """A monitor with the parameters that options give; ``basis`` is a number of landmarks."""
    n_landmarks = opt.literal(basis)
    if not isinstance(n_landmarks, int):
        raise CommandError(USAGE, f"A monitor takes a number as --basis; got {basis!r}.")
    monitor = KernelMonitor(basis=n_landmarks, **parameters)
    try:
        settings_of(monitor)
    except ValueError as problem:
        options = {"alpha": "--alpha", "lags": "lags", "n_points": "--basis"}
        raise CommandError(USAGE, of_shell(str(problem), options)) from problem
    return monitor


class NormalRows(NamedTuple):
    """Rows of normal operation in the order of time, a bad one as a row of missing values.

    ``keys`` are the values of the first column that is kept; None if there is none.
    """

    rows: np.ndarray
    keys: list[Any]
    n_bad: int


def read_normal(source: Source, output: Path, rejects: Path | None) -> NormalRows:
    """Rows of normal operation, which a monitor learns in memory."""
    require_apart([output, rejects], [file.path for file in source.files])
    blocks, keys, size = [np.empty((0, len(source.names)))], list[Any](), 0
    listing = Rejects(rejects, 0)
    for block in source.ahead():
        listing.add(block.bad)
        rows, more_keys = in_order(block)
        blocks.append(rows)
        keys += more_keys
        size += rows.nbytes
        if size > MOST_BYTES:
            raise CommandError(
                DATA,
                f"Normal operation must fit into memory ({MOST_BYTES >> 30} GiB): end earlier "
                "with --limit, or choose columns.",
            )
    listing.close()
    return NormalRows(np.concatenate(blocks), keys, listing.n_rows)


def in_order(block: Block) -> tuple[np.ndarray, list[Any]]:
    """The rows of a block in their order, with keys; invalid ones are rows of missing values.

    A monitor joins each row to those before it: the neighbors of an invalid row must not become
    each other's. The key of a row is its value in the first column that is kept.
    """
    order = np.argsort(np.concatenate([block.rows, [bad.row for bad in block.bad]]))
    gaps = np.full((len(block.bad), block.X.shape[1]), np.nan)
    kept = block.carried
    keys = kept.column(0).to_pylist() if kept.num_columns else [None] * len(block)
    keys += [None] * len(block.bad)
    return np.vstack([block.X.astype(float), gaps])[order], [keys[i] for i in order]


def fit_monitor(given: FitArguments, monitor: KernelMonitor, screen: Screen) -> None:
    """Fit a monitor to rows of normal operation in order of time."""
    began = time.perf_counter()
    read_options = given.source_options(given.columns, given.exclude)
    read_options["dtype"] = opt.text_settings(given.read).get("dtype", "auto")
    source = sensors(given.sources, read_options, given.wishes(given.read), screen)
    rows, _, n_invalid = read_normal(source, given.output, given.rejects)
    monitor.fit(rows)
    if source.named:
        monitor.feature_names_in_ = np.array(source.names, dtype=object)
    monitor.save(given.output)
    n_valid = len(rows) - n_invalid
    facts = history([f.path for f in source.files], n_valid, n_invalid)
    facts |= {"model": str(given.output), "seconds": time.perf_counter() - began}
    shown = [
        ("rows of normal operation", f"{n_valid:,} in {facts['seconds']:.1f} s"),
        ("share of alarms in normal rows", f"{monitor.alpha:g}"),
        ("monitor", str(given.output)),
    ]
    if monitor.false_events_per_day is not None:
        shown[1] = ("false events a day", f"{monitor.false_events_per_day:g}")
    screen.result(facts, facts_table(shown), output=given.output)
