"""``fit``: rows into a model, or, with ``--monitor``, into a monitor of normal operation."""

from __future__ import annotations

import ast
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import kernelstream
from kernelstream import StreamingKernelPCA, bases, kernels, trackers
from kernelstream.cli import options as opt
from kernelstream.cli.checkpoints import Run
from kernelstream.cli.failures import DATA, USAGE, CommandError, report_failures
from kernelstream.cli.modelfile import Stored, history, lock, require_apart, require_sense
from kernelstream.cli.rejects import Rejects
from kernelstream.cli.terminal import Screen, facts_table
from kernelstream.monitor.estimator import settings_of
from kernelstream.sources import Block, Source

MODEL = "Model"
MONITOR = "Monitor"
ALPHA = 0.01
LAGS = "auto"
MOST_BYTES = 2 << 30  # of rows that --monitor takes into memory


class Certify(StrEnum):
    """How much work the certificate may cost."""

    auto = "auto"
    tight = "tight"
    none = "none"


@dataclass(frozen=True)
class Parts:
    """What the model is made of."""

    components: Annotated[
        str,
        typer.Option(
            help="How many: a number, a share of the variance such as 0.95, all, or auto (above "
            "chance).",
            rich_help_panel=MODEL,
        ),
    ] = "10"
    kernel: Annotated[
        str, typer.Option(help="rbf, poly(degree=2), matern(nu=1.5), …", rich_help_panel=MODEL)
    ] = "rbf"
    gamma: Annotated[
        str | None,
        typer.Option(
            help="Width of the kernel: a number, or auto (several are compared). Default: from the "
            "first rows.",
            rich_help_panel=MODEL,
        ),
    ] = None
    basis: Annotated[
        str,
        typer.Option(
            help="A number of points, auto, or a basis: distance(nu=0.1), everything, …",
            rich_help_panel=MODEL,
        ),
    ] = "256"
    tracker: Annotated[
        str, typer.Option(help="covariance, hebbian, rls, …", rich_help_panel=MODEL)
    ] = "covariance"
    forgetting: Annotated[
        float | None,
        typer.Option(help="0.999: rows lose a thousandth of weight a row.", rich_help_panel=MODEL),
    ] = None
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize",
            help="Subtract mean and divide by deviation of the first rows.",
            rich_help_panel=MODEL,
        ),
    ] = False
    preimage: Annotated[
        str, typer.Option(help="How denoise goes back to inputs.", rich_help_panel=MODEL)
    ] = "auto"
    robust: Annotated[
        bool,
        typer.Option("--robust", help="Rows that do not fit lose weight.", rich_help_panel=MODEL),
    ] = False
    certify: Annotated[
        Certify, typer.Option(help="Effort for the error certificate.", rich_help_panel=MODEL)
    ] = Certify.auto
    seed: Annotated[int, typer.Option(help="Of everything drawn.", rich_help_panel=MODEL)] = 0

    def estimator(self) -> StreamingKernelPCA:
        """A fresh estimator; a parameter that makes no sense fails before any row is read."""
        tracker = parse_part(self.tracker, trackers.NAMES, "tracker")
        if self.forgetting is not None:
            if "forgetting" not in tracker.get_params(deep=False):
                raise CommandError(USAGE, f"The tracker {self.tracker} has no forgetting.")
            tracker.set_params(forgetting=self.forgetting)
        kernel = parse_part(self.kernel, kernels.NAMES, "kernel")
        gamma = parse_gamma(self.gamma)
        if gamma is not None:
            if "gamma" not in kernel.get_params(deep=False):
                raise CommandError(USAGE, f"The kernel {self.kernel} has no gamma.")
            if gamma == "auto":  # goes with a kernel's name
                kernel = self.kernel.strip()
            else:
                kernel, gamma = kernel.set_params(gamma=gamma), None
        plain = self.basis.strip() == "auto"
        estimator = StreamingKernelPCA(
            parse_components(self.components),
            kernel=kernel,
            gamma=gamma,
            basis="auto" if plain else parse_part(self.basis, bases.NAMES, "basis"),
            tracker=tracker,
            scale="standard" if self.standardize else None,
            preimage=self.preimage,
            certify=False if self.certify is Certify.none else self.certify.value,
            robust=self.robust,
            random_state=self.seed,
        )
        require_sense(estimator)
        return estimator


USUAL = Parts()


def fit(
    sources: opt.Sources,
    output: opt.Output,
    columns: opt.Columns = None,
    exclude: opt.Exclude = None,
    weight_column: opt.WeightColumn = None,
    parts: Parts = USUAL,
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
        str,
        typer.Option(
            help="Earlier rows joined to each: a number, or 'auto'.", rich_help_panel=MONITOR
        ),
    ] = LAGS,
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
    with report_failures(as_json):
        estimator = parts.estimator()
        read_options = reading.of_source(columns, exclude, weight_column)
        every = opt.seconds(checkpoint_every)
        if monitor:
            require_plain(
                kernel=parts.kernel != USUAL.kernel,
                gamma=parts.gamma is not None,
                components=parts.components != USUAL.components,
                preimage=parts.preimage != USUAL.preimage,
                certify=parts.certify is not USUAL.certify,
                tracker=parts.tracker != USUAL.tracker,
                forgetting=parts.forgetting is not None,
                standardize=parts.standardize,
                robust=parts.robust,
                weight_column=weight_column is not None,
                passes=passes is not None,
                checkpoint_every=every is not None,
                resume=resume,
            )
        elif alpha != ALPHA or lags != LAGS:
            raise CommandError(USAGE, "--alpha and --lags are for a monitor: add --monitor.")
        with lock(output):
            source = Source(sources, **read_options, dtype=dtype.value)
            if monitor:
                fit_monitor(source, output, alpha, lags, parts, rejects, screen)
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
            if not resume and run.checkpoint.exists():
                screen.say(f"Starting afresh; --resume would have gone on from {run.checkpoint}.")
            run.complete(resume, [])


def require_plain(**given: bool) -> None:
    """Refuse options that a monitor, which chooses for itself, would have to ignore."""
    wrong = [f"--{name.replace('_', '-')}" for name, is_given in given.items() if is_given]
    if wrong:
        raise CommandError(
            USAGE,
            "--monitor learns in memory and chooses kernel and scale itself: leave out "
            f"{', '.join(wrong)}.",
        )


def with_gaps(block: Block) -> np.ndarray:
    """The rows of a block, with rows of missing values where bad ones were passed over.

    A monitor joins each row to those before it: the neighbours of a bad row must not become each
    other's.
    """
    X = np.vstack([block.X.astype(float), np.full((len(block.bad), block.X.shape[1]), np.nan)])
    return X[np.argsort(np.concatenate([block.rows, [bad.row for bad in block.bad]]))]


def fit_monitor(
    source: Source,
    output: Path,
    alpha: float,
    lags: str,
    parts: Parts,
    rejects: Path | None,
    screen: Screen,
) -> None:
    """``fit --monitor``: learn normal operation from rows in the order of time."""
    require_apart([output, rejects], [file.path for file in source.files])
    basis, seed = parts.basis, parts.seed
    if not basis.isdecimal():
        raise CommandError(USAGE, f"--monitor takes a number of points as basis; got {basis!r}.")
    if lags != LAGS and not lags.isdecimal():
        raise CommandError(USAGE, f"--lags must be a number or 'auto'; got {lags!r}.")
    monitor = kernelstream.KernelMonitor(
        alpha,
        lags=lags if lags == LAGS else opt.whole_number(lags, "--lags"),
        basis=opt.whole_number(basis, "--basis"),
        random_state=seed,
    )
    try:
        settings_of(monitor)
    except ValueError as problem:
        raise CommandError(USAGE, str(problem)) from problem
    began, blocks, bad, size = time.perf_counter(), [], 0, 0
    listing = Rejects(rejects, 0)
    for block in source:
        listing.add(block.bad)
        blocks.append(with_gaps(block))
        bad, size = bad + len(block.bad), size + blocks[-1].nbytes
        if size > MOST_BYTES:
            raise CommandError(
                DATA,
                f"Normal operation must fit into memory ({MOST_BYTES >> 30} GiB): end earlier "
                "with --limit, or choose columns.",
            )
    listing.close()
    rows = np.concatenate(blocks) if blocks else np.empty((0, len(source.names)))
    monitor.fit(rows)
    if source.named:
        monitor.feature_names_in_ = np.array(source.names, dtype=object)
    monitor.save(output)
    n_good = len(rows) - bad
    facts = history([f.path for f in source.files], n_good, bad)
    facts |= {"model": str(output), "seconds": time.perf_counter() - began}
    shown = [
        ("rows of normal operation", f"{n_good:,} in {facts['seconds']:.1f} s"),
        ("share of alarms in normal rows", f"{alpha:g}"),
        ("monitor", str(output)),
    ]
    screen.result(facts, facts_table(shown), output=output)


def parse_part(text: str, names: dict[str, type], what: str) -> Any:
    """A part by name, with parameters in parentheses: ``distance(nu=0.1, max_points=500)``.

    Examples
    --------
    >>> parse_part("distance(nu=0.3)", bases.NAMES, "basis")
    Distance(nu=0.3)
    >>> parse_part("300", bases.NAMES, "basis")
    300
    """
    if text.strip().isdecimal():
        return opt.whole_number(text, f"--{what}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        call = tree if isinstance(tree, ast.Call) else None
        name = (call.func if call else tree).id  # type: ignore[attr-defined]
        given = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords} if call else {}
        if call and (call.args or any(k.arg is None for k in call.keywords)):
            raise ValueError
    except (SyntaxError, ValueError, AttributeError) as problem:
        raise CommandError(
            USAGE, f"--{what} {text!r}: write a name, or a name with name(parameter=value)."
        ) from problem
    if name not in names:
        raise CommandError(
            USAGE, f"--{what} must be one of {', '.join(sorted(names))}; got {name!r}."
        )
    try:
        return names[name](**given)
    except TypeError as problem:
        known = ", ".join(names[name]().get_params(deep=False)) or "none"
        raise CommandError(
            USAGE, f"--{what} {text!r}: the parameters of {name} are {known}."
        ) from problem


def parse_gamma(text: str | None) -> float | str | None:
    """A width, or ``auto``."""
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError as problem:
        raise CommandError(USAGE, f"--gamma {text!r}: write a number, or auto.") from problem


def parse_components(text: str | None) -> int | float | str | None:
    """A number of components, a share of the variance below 1, ``all``, or ``auto``."""
    if text is None or text == "all":
        return None
    if text == "auto":
        return text
    try:
        return opt.whole_number(text, "--components") if text.isdecimal() else float(text)
    except ValueError as problem:
        raise CommandError(
            USAGE, f"--components {text!r}: write a number, a share such as 0.95, all, or auto."
        ) from problem
