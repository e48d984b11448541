"""Command ``fit``: options, refused combinations, choice of PCA, detector, monitor, prediction.

Without an option it fits kernel PCA, with ``--novelty`` a detector, with ``--monitor`` a process
monitor, and with ``--target`` a regression or a classifier.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelstream.cli import options as opt
from kernelstream.cli.beginning import Like, begin, kept_schema, say_columns
from kernelstream.cli.checkpoints import Run, going_on, left_by, place_in
from kernelstream.cli.failures import USAGE, CommandError, report_failures
from kernelstream.cli.methods import NO_RULE, Rule, fit_in_memory
from kernelstream.cli.modelfile import Stored, lock, require_new
from kernelstream.cli.normal import LAGS, fit_monitor, sensors
from kernelstream.cli.parts import MODEL, USUAL, Parts
from kernelstream.cli.supervised import NO_AIM, Aim, SupervisedRun, aim_at, say_target
from kernelstream.cli.terminal import Screen
from kernelstream.cli.until import DrawnRun, require_draws
from kernelstream.tables import Source

MONITOR = "Monitor"
NOVELTY = "Novelty"
ALPHA = 0.01
NOVEL = 0.05
NO_MONITOR = (LAGS, None, None)  # what of its options is not said


def fit(
    sources: opt.Sources,
    output: opt.Output,
    columns: opt.Columns = None,
    exclude: opt.Exclude = None,
    weight_column: opt.WeightColumn = None,
    understanding: opt.Understanding = opt.AS_IT_LOOKS,
    parts: Parts = USUAL,
    aim: Aim = NO_AIM,
    like: Annotated[
        Path | None,
        typer.Option(
            help="A model: columns, scale and width are taken from it, so that both can be merged.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    same_points: Annotated[
        bool,
        typer.Option("--same-points", help="With --like: its points, too.", rich_help_panel=MODEL),
    ] = False,
    rule: Rule = NO_RULE,
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
    until: Annotated[
        float | None,
        typer.Option(
            help="Draw rows at random, and stop when the share that the components explain is at "
            "most so much below the best possible (0.01), with 99 % confidence.",
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
    novelty: Annotated[
        bool,
        typer.Option(
            "--novelty",
            help="Learn a detector: 'kernelstream score' then tells p-values and causes.",
            rich_help_panel=NOVELTY,
        ),
    ] = False,
    alpha: Annotated[
        float | None,
        typer.Option(
            help="Share of rows like those learned that may be flagged. "
            f"Default: {ALPHA} with --monitor, {NOVEL} with --novelty.",
            rich_help_panel=MONITOR,
            show_default=False,
        ),
    ] = None,
    false_events_per_day: Annotated[
        float | None,
        typer.Option(
            help="In the place of --alpha, with --interval: events a day that may be false.",
            rich_help_panel=MONITOR,
        ),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(help="Seconds from row to row.", rich_help_panel=MONITOR),
    ] = None,
    lags: Annotated[
        str,
        typer.Option(
            help="Earlier rows joined to each: a number, or 'auto'.", rich_help_panel=MONITOR
        ),
    ] = LAGS,
    checkpoint_every: opt.CheckpointEvery = None,
    resume: opt.Resume = False,
    force: opt.Force = False,
    rejects: opt.RejectsFile = None,
    reading: opt.Reading = opt.AS_IT_COMES,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """Learn a model from files or a pipe.

    Examples
    --------
      kernelstream fit data/*.parquet -o model.safetensors

      kernelstream fit monday.csv -o monday.safetensors --like plan.safetensors

      kernelstream fit big/ -o m.safetensors --components 20 --checkpoint-every 60s --resume

      zcat log.csv.gz | kernelstream fit - -o m.safetensors --columns 'a,b,sensor_*'

      kernelstream fit good.csv -o detector.safetensors --novelty --alpha 0.01

      kernelstream fit houses.csv -o price.safetensors --target price

      kernelstream fit data.csv -o m.safetensors --method online --nu 0.1 --eta0 0.5 --tau 1000

      kernelstream fit kafka://broker/plant -o m.safetensors --limit 100000

      kernelstream fit huge.parquet -o m.safetensors --until 0.01
    """
    screen = Screen(as_json, quiet)
    with report_failures(as_json):
        rule.check()
        require_draws(
            until,
            {
                "monitor": monitor,
                "novelty": novelty,
                "method": rule.method is not None,
                "target": aim.target is not None,
                "like": like is not None,
                "passes": passes is not None,
            },
        )
        require_aim(aim, parts, monitor or novelty or rule.method is not None or like is not None)
        if novelty:
            require_novelty(monitor, parts, passes, rule)
            estimator = parts.detector(NOVEL if alpha is None else alpha)
        else:
            estimator = parts.estimator() if rule.method is None else parts.of_method(rule)
        read_options = reading.of_source(columns, exclude, weight_column)
        every = opt.seconds(checkpoint_every)
        if monitor:
            require_plain(
                method=rule.method is not None,
                center=not parts.center,
                kernel=parts.kernel != USUAL.kernel,
                gamma=parts.gamma is not None,
                components=parts.components is not None,
                preimage=parts.preimage != USUAL.preimage,
                certify=parts.certify is not USUAL.certify,
                tracker=parts.tracker != USUAL.tracker,
                forgetting=parts.forgetting is not None,
                standardize=parts.standardize is not None,
                like=like is not None,
                robust=parts.robust,
                weight_column=weight_column is not None,
                passes=passes is not None,
                checkpoint_every=every is not None,
                resume=resume,
            )
        elif (lags, false_events_per_day, interval) != NO_MONITOR:
            raise CommandError(
                USAGE,
                "--lags, --false-events-per-day and --interval are for a monitor: add --monitor.",
            )
        elif alpha is not None and not novelty:
            raise CommandError(
                USAGE,
                "--alpha is for a monitor or a detector: add --monitor or --novelty.",
            )
        model = Like.of(
            like,
            same_points,
            {
                "method": rule.method is not None,
                "columns": columns is not None,
                "exclude": exclude is not None,
                "treat": understanding.treat is not None,
                "kernel": parts.kernel != USUAL.kernel,
                "gamma": parts.gamma is not None,
                "standardize": parts.standardize is not None,
                "dtype": dtype is not opt.Number.auto,
                "basis": same_points and parts.basis != USUAL.basis,
            },
        )
        with lock(output):
            if not resume:
                require_new(output, force, f" ('kernelstream update {output}' goes on with it.)")
            left = left_by(output, sources, resume)
            read_options = going_on(read_options, place_in(left, sources))
            if monitor:
                read_options["dtype"] = dtype.value
                source = sensors(sources, read_options, understanding.wishes(), screen)
                limits = dict(
                    alpha=ALPHA if alpha is None else alpha,
                    false_events_per_day=false_events_per_day,
                    interval=interval,
                )
                fit_monitor(source, output, limits, lags, parts, rejects, screen)
                return
            if rule.method is not None or novelty:  # scale and width are the method's own
                wishes = understanding.wishes()
                if not getattr(estimator, "can_fill", True):
                    wishes = replace(wishes, missing="bad")
                source = Source(sources, **read_options, dtype=dtype.value, schema=wishes)
            elif left is not None:
                source = left.open_source(sources, read_options, left.target)
            elif model is None:
                source = Source(
                    sources,
                    **read_options,
                    dtype=dtype.value,
                    schema=understanding.wishes(),
                    target=aim.target,
                )
            else:
                source = model.stored.open_source(sources, read_options)
            if source.target is not None:
                estimator = parts.predictor(source.target)
            parameters = chosen_parameters(estimator, parts)
            if model is not None:
                model.begin(estimator, source)
            elif left is None:
                begin(estimator, source, calibrated=rule.method is None and not novelty)
            if rule.in_memory:
                refused = {"passes": passes, "checkpoint-every": every, "resume": resume or None}
                wrong = [f"--{name}" for name, value in refused.items() if value is not None]
                if wrong:
                    raise CommandError(
                        USAGE,
                        f"--method {rule.method} learns in memory: leave out {', '.join(wrong)}, "
                        "or pass once, as a stream, with --epochs 0.",
                    )
                say_columns(source, estimator, screen)
                fit_in_memory(estimator, source, output, rejects, screen)
                return
            names = source.names if source.named else None
            identity = {
                "command": "fit",
                **{name: repr(value) for name, value in parameters.items()},
                "columns": list(source.names),
                "passes": passes,
                "dtype": source.dtype,
                **{name: read_options[name] for name in ("weight_column", "limit", "on_bad_rows")},
            }
            # A second pass would learn the rows that a detector holds back.
            asked = 1 if novelty else passes
            learned = Stored(estimator, names, kept_schema(source)), source, output
            run: Run
            if until is not None:
                identity |= {"until": until}
                run = DrawnRun(*learned, identity, asked, every, rejects, screen, until=until)
            elif source.target is None:
                run = Run(*learned, identity, asked, every, rejects, screen)
            else:
                aim_at(estimator, source.target)
                identity |= {"target": str(source.target), "hold_back": aim.share}
                options = identity, asked, every, rejects, screen
                run = SupervisedRun(*learned, *options, share=aim.share)
            say_columns(source, estimator, screen)
            if source.target is not None:
                say_target(source.target, screen)
            if not resume and run.checkpoint.exists():
                screen.say(f"Starting afresh; --resume would have gone on from {run.checkpoint}.")
            run.complete(resume, [])


def chosen_parameters(estimator: Any, parts: Parts) -> dict[str, Any]:
    """Parameters that options give. What the data decide is none: a checkpoint has it."""
    undecided = {"scale"} if parts.standardize is None else set()
    parameters = estimator.get_params(deep=False)
    return {name: value for name, value in parameters.items() if name not in undecided}


def require_aim(aim: Aim, parts: Parts, other_kind: bool) -> None:
    """Refuse what does not go with a target, and --hold-back without one."""
    if aim.target is None:
        if aim.hold_back is not None:
            raise CommandError(
                USAGE, "--hold-back is for a model that predicts: name a column with --target."
            )
        return
    if other_kind:
        raise CommandError(
            USAGE,
            "--target is a kind of model of its own: leave out --novelty, --monitor, --method and "
            "--like.",
        )
    parts.require_predictor()


def require_novelty(monitor: bool, parts: Parts, passes: int | None, rule: Rule) -> None:
    """Refuse options that a detector of novelty has no use for."""
    if monitor:
        raise CommandError(USAGE, "--novelty and --monitor are two kinds of models: choose one.")
    given = {
        "tracker": parts.tracker != USUAL.tracker,
        "preimage": parts.preimage != USUAL.preimage,
        "certify": parts.certify is not USUAL.certify,
        "passes": passes == 2,
        "method": rule.method is not None,
        "no-center": not parts.center,
    }
    wrong = [f"--{name}" for name, is_given in given.items() if is_given]
    if wrong:
        raise CommandError(
            USAGE,
            "--novelty learns in one pass, with the exact covariance and no certificate: leave out "
            f"{', '.join(wrong)}.",
        )


def require_plain(**given: bool) -> None:
    """Refuse options that a monitor, which chooses for itself, would have to ignore."""
    wrong = [f"--{name.replace('_', '-')}" for name, is_given in given.items() if is_given]
    if wrong:
        raise CommandError(
            USAGE,
            "--monitor learns in memory and chooses kernel and scale itself: leave out "
            f"{', '.join(wrong)}.",
        )
