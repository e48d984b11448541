"""Command ``plant fit``: fits a fleet, one monitor per machine."""

from __future__ import annotations

import time
from typing import Annotated

import numpy as np
import typer

from kernelstream.cli import (
    Columns,
    Exclude,
    Json,
    Output,
    Quiet,
    Reading,
    RejectsFile,
    Screen,
    Sources,
    facts_table,
    lock,
    new_monitor,
    read_normal,
    report_failures,
    sensors,
)
from kernelstream.tables import SchemaOptions
from kernelstream_plant.commands.fleet import fit_fleet, require_folder

READING = Reading()


def fit(
    sources: Sources,
    output: Output,
    by: Annotated[str, typer.Option(help="Column with the machine of each row.")],
    shared: Annotated[
        bool, typer.Option("--shared", help="Learn once from all machines; new ones begin there.")
    ] = False,
    columns: Columns = None,
    exclude: Exclude = None,
    alpha: Annotated[float, typer.Option(help="Share of normal rows that may be flagged.")] = 0.01,
    false_events_per_day: Annotated[
        float | None,
        typer.Option(help="In the place of --alpha, with --interval: false events a day."),
    ] = None,
    interval: Annotated[float | None, typer.Option(help="Seconds from row to row.")] = None,
    lags: Annotated[
        str, typer.Option(help="Earlier rows joined to each: a number, or 'auto'.")
    ] = "auto",
    basis: Annotated[str, typer.Option(help="A number of points.")] = "256",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    rejects: RejectsFile = None,
    reading: Reading = READING,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn normal operation of a fleet: a monitor for each machine, in a folder.

    Examples
    --------
      kernelstream plant fit good.csv -o fleet --by machine

      kernelstream plant fit good.csv -o fleet --by machine --shared --lags 0
    """
    screen = Screen(as_json, quiet)
    with report_failures(as_json):
        began = time.perf_counter()
        require_folder(output)
        options = reading.of_source(columns, exclude, keep=by)
        options["exclude"] = [*options["exclude"], by]
        limits = dict(alpha=alpha, false_events_per_day=false_events_per_day, interval=interval)
        monitor = new_monitor(limits, lags, basis, seed)
        with lock(output):
            source = sensors(sources, {**options, "dtype": "float64"}, SchemaOptions(), screen)
            normal = read_normal(source, output, rejects)
            fleet = fit_fleet(monitor, normal.rows, normal.keys, shared)
            names = np.array(source.names, dtype=object) if source.named else None
            for one in (*fleet.values(), *([fleet.shared] if fleet.shared else [])):
                one.feature_names_in_ = names
            fleet.save(output)
        seconds, n_good = time.perf_counter() - began, len(normal.rows) - normal.n_bad
        facts = {"model": str(output), "machines": list(fleet), "seconds": seconds}
        facts |= {"rows": n_good, "bad_rows": normal.n_bad}
        shown = [
            ("rows of normal operation", f"{n_good:,} in {seconds:.1f} s"),
            ("machines", f"{len(fleet):,}"),
            ("fleet", str(output)),
        ]
        screen.result(facts, facts_table(shown), output=output)
