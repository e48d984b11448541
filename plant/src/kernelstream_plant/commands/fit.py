"""Command ``plant fit``: fits a fleet, one monitor per machine."""

from __future__ import annotations

import time

import numpy as np

from kernelstream.cli import Screen, facts_table, lock, new_monitor, read_normal, sensors
from kernelstream.cli import options as opt
from kernelstream.tables import SchemaOptions
from kernelstream_plant.commands.arguments import FitArguments
from kernelstream_plant.commands.fleet import fit_fleet, require_folder


def fit(given: FitArguments, screen: Screen) -> None:
    """Fit a monitor for each machine."""
    began = time.perf_counter()
    output = given.output
    require_folder(output)
    options = given.source_options(given.columns, given.exclude, keep=given.by)
    options["exclude"] = [*options["exclude"], given.by]
    parameters = opt.parameter_settings(given.parameters)
    monitor = new_monitor(given.basis, alpha=given.alpha, random_state=given.seed, **parameters)
    with lock(output):
        source = sensors(given.sources, {**options, "dtype": "float64"}, SchemaOptions(), screen)
        normal = read_normal(source, output, given.rejects)
        fleet = fit_fleet(monitor, normal.rows, normal.keys, given.shared)
        names = np.array(source.names, dtype=object) if source.named else None
        for one in (*fleet.values(), *([fleet.shared] if fleet.shared else [])):
            one.feature_names_in_ = names
        fleet.save(output)
    seconds, n_valid = time.perf_counter() - began, len(normal.rows) - normal.n_bad
    facts = {"model": str(output), "machines": list(fleet), "seconds": seconds}
    facts |= {"rows": n_valid, "bad_rows": normal.n_bad}
    shown = [
        ("rows of normal operation", f"{n_valid:,} in {seconds:.1f} s"),
        ("machines", f"{len(fleet):,}"),
        ("fleet", str(output)),
    ]
    screen.result(facts, facts_table(shown), output=output)
