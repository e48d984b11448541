"""Command ``update``: continues to learn from rows that follow those already seen."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

import typer

from kernelstream.cli import options as opt
from kernelstream.cli.checkpoints import Run, going_on, left_by, place_in
from kernelstream.cli.failures import report_failures
from kernelstream.cli.modelfile import lock, read, require_apart, require_kernel_pca, require_new
from kernelstream.cli.supervised import SupervisedRun
from kernelstream.cli.terminal import Screen


def update(
    model: opt.Model,
    sources: opt.Sources,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Default: the model itself.")
    ] = None,
    weight_column: opt.WeightColumn = None,
    checkpoint_every: opt.CheckpointEvery = None,
    resume: opt.Resume = False,
    force: opt.Force = False,
    rejects: opt.RejectsFile = None,
    columns: opt.Columns = None,
    reading: opt.Reading = opt.AS_IT_COMES,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """Go on learning: rows of a stream that come after those the model has seen.

    Examples
    --------
      kernelstream update model.safetensors today.parquet

      kernelstream update model.safetensors new/ -o newer.safetensors

      kernelstream update model.safetensors kafka://broker/plant
    """
    screen = Screen(as_json, quiet)
    with report_failures(as_json):
        read_options = reading.of_source(columns, weight_column=weight_column)
        every = opt.seconds(checkpoint_every)
        where = model if output is None else output
        with lock(where):
            if where != model and not resume:
                require_new(where, force)
            stored = read(model, any_kind=True)
            target = stored.target
            if target is None:
                require_kernel_pca(stored, model)
            place = place_in(left_by(where, sources, resume) or stored, sources)
            source = stored.open_source(sources, going_on(read_options, place), target)
            identity = {
                "command": "update",
                "model": hashlib.sha256(model.read_bytes()).hexdigest(),
                "columns": list(source.names),
                **{name: read_options[name] for name in ("weight_column", "limit", "on_bad_rows")},
            }
            require_apart([rejects], [model])
            before = stored.origin.get("history", [])
            options = stored, source, where, identity, 1, every, rejects, screen
            if target is None:
                run = Run(*options)
            else:
                run = SupervisedRun(*options, share=stored.origin["target"]["hold_back"])
            run.complete(resume, before)
