"""``fit`` and ``update``: rows into a model."""

from __future__ import annotations

import hashlib
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelstream.cli import options as opt
from kernelstream.cli import parameters
from kernelstream.cli.failures import CHANGED, USAGE, CommandError, reported
from kernelstream.cli.follow import fit_monitor, terminable
from kernelstream.cli.modelfile import Stored, history, locked, read, require_apart
from kernelstream.cli.run import Run
from kernelstream.cli.terminal import Screen, facts_table
from kernelstream.sources import Source

MODEL = "Model"
MONITOR = "Monitor"
ALPHA = 0.01


class Certify(StrEnum):
    """How much work the certificate may cost."""

    auto = "auto"
    tight = "tight"
    none = "none"


def fit(
    sources: opt.Sources,
    output: opt.Output,
    columns: opt.Columns = None,
    exclude: opt.Exclude = None,
    weight_column: opt.WeightColumn = None,
    components: Annotated[
        str,
        typer.Option(
            help="How many: a number, a share of the variance such as 0.95, or all.",
            rich_help_panel=MODEL,
        ),
    ] = "10",
    kernel: Annotated[
        str, typer.Option(help="rbf, poly(degree=2), matern(nu=1.5), …", rich_help_panel=MODEL)
    ] = "rbf",
    gamma: Annotated[
        float | None,
        typer.Option(
            help="Width of the kernel. Default: from the first rows.", rich_help_panel=MODEL
        ),
    ] = None,
    basis: Annotated[
        str,
        typer.Option(
            help="A number of points, or a basis: distance(nu=0.1), everything, …",
            rich_help_panel=MODEL,
        ),
    ] = "256",
    tracker: Annotated[
        str, typer.Option(help="covariance, hebbian, rls, …", rich_help_panel=MODEL)
    ] = "covariance",
    forgetting: Annotated[
        float | None,
        typer.Option(help="0.999: rows lose a thousandth of weight a row.", rich_help_panel=MODEL),
    ] = None,
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize",
            help="Subtract mean and divide by deviation of the first rows.",
            rich_help_panel=MODEL,
        ),
    ] = False,
    preimage: Annotated[
        str, typer.Option(help="How denoise goes back to inputs.", rich_help_panel=MODEL)
    ] = "auto",
    certify: Annotated[
        Certify, typer.Option(help="Effort for the error certificate.", rich_help_panel=MODEL)
    ] = Certify.auto,
    seed: Annotated[int, typer.Option(help="Of everything drawn.", rich_help_panel=MODEL)] = 0,
    passes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2,
            help="2 gathers the statistics again in the finished basis, for a tight certificate. "
            "Default: 2 for files where it helps, 1 for a pipe.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    dtype: Annotated[
        opt.Number, typer.Option(help="auto: float32 where it is exact.", rich_help_panel=MODEL)
    ] = opt.Number.auto,
    monitor: Annotated[
        bool,
        typer.Option(
            "--monitor",
            help="Learn normal operation for 'kernelstream monitor' (rows in order of time).",
            rich_help_panel=MONITOR,
        ),
    ] = False,
    alpha: Annotated[
        float,
        typer.Option(help="Share of normal rows that may raise an alarm.", rich_help_panel=MONITOR),
    ] = ALPHA,
    lags: Annotated[
        int, typer.Option(min=0, help="Earlier rows joined to each.", rich_help_panel=MONITOR)
    ] = 0,
    checkpoint_every: opt.CheckpointEvery = None,
    resume: opt.Resume = False,
    rejects: opt.RejectsFile = None,
    reading: opt.Reading = opt.AS_IT_COMES,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """Learn a model from files or a pipe.

    Examples
    --------
      kernelstream fit data/*.parquet -o model.safetensors --standardize

      kernelstream fit big/ -o m.safetensors --components 20 --checkpoint-every 60s --resume

      zcat log.csv.gz | kernelstream fit - -o m.safetensors --columns 'a,b,sensor_*'
    """
    screen = Screen(as_json, quiet)
    with reported(as_json):
        estimator = parameters.estimator(
            components,
            kernel,
            gamma,
            basis,
            tracker,
            forgetting,
            standardize,
            preimage,
            certify.value,
            seed,
        )
        read_options = reading.of_source(columns, exclude, weight_column)
        every = parameters.seconds(checkpoint_every)
        if monitor:
            require_plain(
                kernel=kernel != "rbf",
                gamma=gamma is not None,
                components=components != "10",
                preimage=preimage != "auto",
                certify=certify is not Certify.auto,
                tracker=tracker != "covariance",
                forgetting=forgetting is not None,
                standardize=standardize,
                weight_column=weight_column is not None,
                passes=passes is not None,
                checkpoint_every=every is not None,
                resume=resume,
            )
        elif alpha != ALPHA or lags:
            raise CommandError(USAGE, "--alpha and --lags are for a monitor: add --monitor.")
        with locked(output):
            source = Source(sources, **read_options, dtype=dtype.value)
            if monitor:
                fit_monitor(source, output, alpha, lags, basis, seed, rejects, screen)
                return
            names = source.names if source.named else None
            identity = {
                "command": "fit",
                **{name: repr(value) for name, value in estimator.get_params(deep=False).items()},
                "columns": list(source.names),
                "passes": passes,
                "dtype": source.dtype,
                **{name: read_options[name] for name in ("weight_column", "limit", "on_bad_rows")},
            }
            run = Run(
                Stored(estimator, names), source, output, identity, passes, every, rejects, screen
            )
            if source.left_out:
                screen.say(f"Left out, not numbers: {', '.join(source.left_out)}.")
            if resume and prepare_resume(run):
                screen.say(f"Already complete: {output}.")
                screen.result({"model": str(output), "complete": True})
                return
            if not resume and run.checkpoint.exists():
                screen.say(f"Starting afresh; --resume would have gone on from {run.checkpoint}.")
            finish(run, [], screen)


def update(
    model: opt.Model,
    sources: opt.Sources,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Default: the model itself.")
    ] = None,
    weight_column: opt.WeightColumn = None,
    checkpoint_every: opt.CheckpointEvery = None,
    resume: opt.Resume = False,
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
    """
    screen = Screen(as_json, quiet)
    with reported(as_json):
        read_options = reading.of_source(columns, weight_column=weight_column)
        every = parameters.seconds(checkpoint_every)
        target = model if output is None else output
        with locked(target):
            stored = read(model)
            source = for_model(stored, sources, read_options)
            identity = {
                "command": "update",
                "model": hashlib.sha256(model.read_bytes()).hexdigest(),
                "columns": list(source.names),
                **{name: read_options[name] for name in ("weight_column", "limit", "on_bad_rows")},
            }
            require_apart([rejects], [model])
            before = stored.origin.get("history", [])
            run = Run(stored, source, target, identity, 1, every, rejects, screen)
            if resume and prepare_resume(run):
                screen.say(f"Already complete: {target}.")
                screen.result({"model": str(target), "complete": True})
                return
            finish(run, before, screen)


def require_plain(**given: bool) -> None:
    """Refuse options that a monitor, which chooses for itself, would have to ignore."""
    wrong = [f"--{name.replace('_', '-')}" for name, is_given in given.items() if is_given]
    if wrong:
        raise CommandError(
            USAGE,
            "--monitor learns in memory and chooses kernel and scale itself: leave out "
            f"{', '.join(wrong)}.",
        )


def for_model(stored: Stored, sources: list[str], read_options: dict[str, Any]) -> Source:
    """A source with the columns that a model wants, in its type."""
    model = stored.estimator._model
    features = None if read_options["columns"] is not None else stored.names
    return Source(
        sources,
        **read_options,
        features=features,
        n_features=model.n_features,
        dtype=model.dtype,
    )


def prepare_resume(run: Run) -> bool:
    """Go on from the checkpoint, or start afresh and say so; True where all is done already."""
    if run.resume():
        place = run.place
        turn = "" if place.turn == 1 else " of the second pass"
        run.screen.say(f"Going on after {place.rows:,} rows{turn}, from {run.checkpoint}.")
        return False
    if not run.output.exists():
        run.screen.say(f"No checkpoint {run.checkpoint} yet: starting afresh.")
        return False
    done = read(run.output).origin.get("history", [])
    if done and is_outcome(done[-1], run):
        return True
    if run.identity["command"] == "update":
        run.screen.say(f"No checkpoint {run.checkpoint} yet: starting afresh.")
        return False
    raise CommandError(
        CHANGED,
        f"There is no checkpoint, and {run.output} was made from other sources or with other "
        "options. Leave out --resume to replace it, or write another file with -o.",
    )


def is_outcome(entry: dict[str, Any], run: Run) -> bool:
    """Whether the last thing that a model learned is what this run would learn.

    An update in place is not compared by the model it began with: that one is gone.
    """
    now = {k: v for k, v in run.identity.items() if k != "model"}
    before = {k: v for k, v in entry.get("identity", {}).items() if k != "model"}
    same_files = entry["sources"] == [file.path for file in run.source.files]
    return now == before and same_files and entry.get("sizes") == sizes(run)


def sizes(run: Run) -> list[int]:
    """Bytes of the sources: what a finished model remembers of them."""
    return [file.size for file in run.source.files]


def finish(run: Run, before: list[dict[str, Any]], screen: Screen) -> None:
    """Learn to the end, write the model, drop the checkpoint, tell what happened."""
    began = time.perf_counter()
    with terminable():
        stored = run.learn()
    place = run.place
    entry = history(
        [file.path for file in run.source.files],
        place.rows,
        place.bad,
        passes=place.turn,
        identity=run.identity,
        sizes=sizes(run),
    )
    stored.origin = {"history": [*before, entry]}
    stored.save(run.output)
    run.checkpoint.unlink(missing_ok=True)
    took = time.perf_counter() - began
    estimator = stored.estimator
    share = float(estimator.explained_variance_ratio_.sum())
    points = len(getattr(estimator, "basis_points_", ()))
    facts = {
        "model": str(run.output),
        "rows": place.rows,
        "bad_rows": place.bad,
        "passes": place.turn,
        "rows_seen": estimator.n_samples_seen_,
        "features": estimator.n_features_in_,
        "points": points,
        "components": estimator.n_components_,
        "explained_variance_ratio": share,
        "seconds": round(took, 3),
    }
    shown = [
        ("rows", f"{place.rows:,} in {took:.1f} s"),
        ("features", f"{estimator.n_features_in_}"),
        ("basis points", f"{points}"),
        ("components", f"{estimator.n_components_} with {share:.1%} of the variance"),
        ("model", f"{run.output}"),
    ]
    if place.bad:
        listed = f", listed in {run.rejects_path}" if run.rejects_path else ""
        shown.insert(1, ("bad rows", f"{place.bad:,} passed over{listed}"))
    screen.result(facts, facts_table(shown))
