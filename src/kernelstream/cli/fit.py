"""``fit``: rows into a model, a detector (``--novelty``) or a monitor (``--monitor``)."""

from __future__ import annotations

import ast
import glob
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import kernelstream
from kernelstream import StreamingKernelPCA, bases, kernels, trackers
from kernelstream.cli import options as opt
from kernelstream.cli.beginning import Like, say_columns
from kernelstream.cli.checkpoints import Run
from kernelstream.cli.failures import DATA, USAGE, CommandError, report_failures
from kernelstream.cli.fleet import fit_fleet, machines_of, require_folder
from kernelstream.cli.methods import NO_RULE, Method, Rule, fit_in_memory
from kernelstream.cli.modelfile import Stored, history, lock, require_apart, require_sense
from kernelstream.cli.rejects import Rejects
from kernelstream.cli.terminal import Screen, facts_table
from kernelstream.estimators.beginning import begin, tell_columns
from kernelstream.monitor.parameters import settings_of
from kernelstream.sources import Block, Source, Wishes
from kernelstream.sources.treatment import Column, few

MODEL = "Model"
MONITOR = "Monitor"
NOVELTY = "Novelty"
COMPONENTS = "0.95"  # of the variance: ten were 4 and 24 points short of it in docs/tables.md
FIXED_COMPONENTS = "10"  # where a rule has to know their number before the first row
ALPHA = 0.01
NOVEL = 0.05
LAGS = "auto"
NO_MONITOR = (LAGS, None, None, None, False)  # what of its options is not said
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
        str | None,
        typer.Option(
            help="How many: a number, a share of the variance such as 0.95, all, or auto (above "
            "chance). "
            f"Default: {COMPONENTS}; {FIXED_COMPONENTS} with --method, --robust and sequential "
            "trackers; all with --novelty.",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None
    kernel: Annotated[
        str,
        typer.Option(
            help="rbf, poly(degree=2), matern(nu=1.5), …, sums and products, also of columns: "
            "on('t_*', rbf) * on('colour', categorical).",
            rich_help_panel=MODEL,
        ),
    ] = "rbf"
    gamma: Annotated[
        str | None,
        typer.Option(
            help="Width of the kernel: a number, or auto (several are compared). Default: from a "
            "sample of all rows.",
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
        bool | None,
        typer.Option(
            "--standardize/--no-standardize",
            help="Subtract mean and divide by deviation. Default: where scales differ much.",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None
    center: Annotated[
        bool,
        typer.Option(
            "--center/--no-center",
            help="Whether mapped rows are centred. Default: as the method has it.",
            rich_help_panel=MODEL,
        ),
    ] = True
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
        kernel: Any = parse_kernel(self.kernel)
        gamma = parse_gamma(self.gamma)
        if gamma is not None:
            if "gamma" not in kernel.get_params(deep=False):
                raise CommandError(USAGE, f"The kernel {self.kernel} has no gamma.")
            if gamma == "auto":  # goes with a kernel's name
                kernel = self.kernel.strip()
            else:
                kernel, gamma = kernel.set_params(gamma=gamma), None
        plain = self.basis.strip() == "auto"
        usual = FIXED_COMPONENTS if tracker.sequential or self.robust else COMPONENTS
        estimator = StreamingKernelPCA(
            opt.components(self.components or usual),
            kernel=kernel,
            gamma=gamma,
            basis="auto" if plain else parse_part(self.basis, bases.NAMES, "basis"),
            tracker=tracker,
            center=self.center,
            scale={None: "auto", True: "standard", False: None}[self.standardize],
            preimage=self.preimage,
            certify=False if self.certify is Certify.none else self.certify.value,
            robust=self.robust,
            random_state=self.seed,
        )
        require_sense(estimator)
        return estimator

    def detector(self, alpha: float) -> StreamingKernelPCA:
        """The same as a detector of novelty, which has its own defaults for what is not given."""
        plain = self.estimator()
        usual = self.kernel == "rbf" and self.gamma is None
        n_components = opt.components(self.components)
        if isinstance(n_components, str):
            raise CommandError(USAGE, "--novelty takes all components, or a number: not auto.")
        detector = kernelstream.KernelNovelty(
            alpha,
            n_components=n_components,
            kernel="rbf" if usual else plain.kernel,
            basis=plain.basis,
            forgetting=plain.tracker.forgetting,
            scale=None if self.standardize is False else "standard",
            random_state=self.seed,
        )
        require_sense(detector)
        return detector

    def of_method(self, rule: Rule) -> StreamingKernelPCA:
        """The estimator of a paper's method, which brings basis and tracker."""
        brought = {
            "basis": self.basis != USUAL.basis,
            "tracker": self.tracker != USUAL.tracker,
            "forgetting": self.forgetting is not None,
            "standardize": self.standardize is not None,
            "certify": self.certify is not USUAL.certify,
        }
        wrong = [f"--{name}" for name, is_given in brought.items() if is_given]
        if wrong:
            raise CommandError(
                USAGE,
                f"--method {rule.method} is a paper's method and brings its own parts: leave out "
                f"{', '.join(wrong)}.",
            )
        linear = rule.method is Method.oja and self.kernel == USUAL.kernel and self.gamma is None
        kernel = parse_part("linear" if linear else self.kernel, kernels.NAMES, "kernel")
        gamma = parse_gamma(self.gamma)
        if gamma is not None:
            if "gamma" not in kernel.get_params(deep=False):
                raise CommandError(USAGE, f"The kernel {self.kernel} has no gamma.")
            if gamma == "auto":
                raise CommandError(USAGE, "--gamma auto is not for --method: write a number.")
            kernel.set_params(gamma=gamma)
        # Tanaka, Washizawa and Kuh do not centre.
        uncentred = rule.method in (Method.rls, Method.lms, Method.subkha)
        first = rule.method is Method.oja and self.components == USUAL.components
        estimator = rule.estimator(
            1 if first else opt.components(self.components or FIXED_COMPONENTS),
            kernel,
            self.center and not uncentred,
            self.preimage,
            self.seed,
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
    understanding: opt.Understanding = opt.AS_IT_LOOKS,
    parts: Parts = USUAL,
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
    by: Annotated[
        str | None,
        typer.Option(
            help="Column with the machine of each row: a monitor for each, in a folder.",
            rich_help_panel=MONITOR,
        ),
    ] = None,
    shared: Annotated[
        bool,
        typer.Option(
            "--shared",
            help="With --by, learn once from all machines; new ones begin with that.",
            rich_help_panel=MONITOR,
        ),
    ] = False,
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
      kernelstream fit data/*.parquet -o model.safetensors

      kernelstream fit monday.csv -o monday.safetensors --like plan.safetensors

      kernelstream fit big/ -o m.safetensors --components 20 --checkpoint-every 60s --resume

      zcat log.csv.gz | kernelstream fit - -o m.safetensors --columns 'a,b,sensor_*'

      kernelstream fit good.csv -o detector.safetensors --novelty --alpha 0.01

      kernelstream fit data.csv -o m.safetensors --method online --nu 0.1 --eta0 0.5 --tau 1000
    """
    screen = Screen(as_json, quiet)
    with report_failures(as_json):
        rule.check()
        if novelty:
            require_novelty(monitor, parts, passes, rule)
            estimator = parts.detector(NOVEL if alpha is None else alpha)
        else:
            estimator = parts.estimator() if rule.method is None else parts.of_method(rule)
        parameters = estimator.get_params(deep=False)
        # What the data decide is no option: a checkpoint has what was decided.
        undecided = {"columns", "missing"} | ({"scale"} if parts.standardize is None else set())
        undecided |= set() if parts.robust else {"robust"}  # not in checkpoints of 0.1
        parameters = {name: v for name, v in parameters.items() if name not in undecided}
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
        elif (lags, false_events_per_day, interval, by, shared) != NO_MONITOR:
            raise CommandError(
                USAGE,
                "--lags, --false-events-per-day, --interval, --by and --shared are for a "
                "monitor: add --monitor.",
            )
        elif alpha is not None and not novelty:
            raise CommandError(
                USAGE,
                "--alpha is for a monitor or a detector: add --monitor or --novelty.",
            )
        if by is not None:
            require_folder(output)
            read_options["exclude"] = [*read_options["exclude"], by]
            read_options["keep"] = [by]
        elif shared:
            raise CommandError(USAGE, "--shared is for a fleet: name its column with --by.")
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
            if monitor:
                read_options["dtype"] = dtype.value
                source = sensors(sources, read_options, understanding.wishes(), screen)
                limits = dict(
                    alpha=ALPHA if alpha is None else alpha,
                    false_events_per_day=false_events_per_day,
                    interval=interval,
                )
                fit_monitor(source, output, limits, lags, parts, rejects, screen, by, shared)
                return
            if rule.method is not None or novelty:  # scale and width are the method's own
                wishes = understanding.wishes()
                if not estimator.can_fill:
                    wishes = replace(wishes, missing="bad")
                source = Source(sources, **read_options, dtype=dtype.value, treat=wishes)
                tell_columns(estimator, source)
            elif model is None:
                source = Source(
                    sources, **read_options, dtype=dtype.value, treat=understanding.wishes()
                )
                begin(estimator, source)
            else:
                source = model.stored.open_source(sources, read_options)
                model.begin(estimator, source)
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
            run = Run(
                Stored(estimator, names), source, output, identity, asked, every, rejects, screen
            )
            say_columns(source, estimator, screen)
            if not resume and run.checkpoint.exists():
                screen.say(f"Starting afresh; --resume would have gone on from {run.checkpoint}.")
            run.complete(resume, [])


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


def sensors(
    sources: list[str], read_options: dict[str, Any], wishes: Wishes, screen: Screen
) -> Source:
    """The columns of numbers that a monitor watches, and what is said of the others.

    Rows of a plant come as plain numbers, one by one: nothing is encoded or filled, and a sensor
    that was constant, or equal to another one, is watched all the same. What a table has beside
    sensors, an index, keys, counters, dates and words, is left out.
    """
    if read_options["columns"] is None and not any(word == "-" for word in sources):
        looked = Source(sources, **read_options, treat=wishes)
        if looked.treatment is not None and looked.named:
            left_out = [column for column in looked.treatment if not is_sensor(column)]
            said: dict[str, list[str]] = {}
            for column in left_out:  # without the options that reasons name, which are not for it
                why = "no plain numbers" if column.learned else column.reason.partition(" (--")[0]
                said.setdefault(why, []).append(column.name)
            for why, names in said.items():
                screen.say(f"Left out, {why}: {few(names)}.")
            exclude = [glob.escape(column.name) for column in left_out if column.name]
            read_options = {**read_options, "exclude": [*read_options["exclude"], *exclude]}
    return Source(sources, **read_options)


def is_sensor(column: Column) -> bool:
    """Whether a monitor watches a column: numbers as any reader gives them, moving or not."""
    still = column.reason == "constant" or column.reason.startswith("the same as")
    return column.is_plain or (still and not column.learned)


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
    limits: dict[str, Any],
    lags: str,
    parts: Parts,
    rejects: Path | None,
    screen: Screen,
    by: str | None = None,
    shared: bool = False,
) -> None:
    """``fit --monitor``: learn normal operation from rows in the order of time.

    ``limits`` are the parameters of the monitor that say how often it may be wrong.
    """
    require_apart([output, rejects], [file.path for file in source.files])
    basis, seed = parts.basis, parts.seed
    if not basis.isdecimal():
        raise CommandError(USAGE, f"--monitor takes a number of points as basis; got {basis!r}.")
    if lags != LAGS and not lags.isdecimal():
        raise CommandError(USAGE, f"--lags must be a number or 'auto'; got {lags!r}.")
    monitor = kernelstream.KernelMonitor(
        **limits,
        lags=lags if lags == LAGS else opt.whole_number(lags, "--lags"),
        basis=opt.whole_number(basis, "--basis"),
        random_state=seed,
    )
    try:
        settings_of(monitor)
    except ValueError as problem:
        raise CommandError(USAGE, str(problem)) from problem
    began, blocks, bad, size = time.perf_counter(), [], 0, 0
    machines: list[Any] = []
    listing = Rejects(rejects, 0)
    for block in source.ahead():
        listing.add(block.bad)
        blocks.append(with_gaps(block))
        machines += [] if by is None else machines_of(block)
        bad, size = bad + len(block.bad), size + blocks[-1].nbytes
        if size > MOST_BYTES:
            raise CommandError(
                DATA,
                f"Normal operation must fit into memory ({MOST_BYTES >> 30} GiB): end earlier "
                "with --limit, or choose columns.",
            )
    listing.close()
    rows = np.concatenate(blocks) if blocks else np.empty((0, len(source.names)))
    names = np.array(source.names, dtype=object) if source.named else None
    if by is None:
        monitor.fit(rows)
        if names is not None:
            monitor.feature_names_in_ = names
        monitor.save(output)
    else:
        fleet = fit_fleet(monitor, rows, machines, shared)
        for one in (*fleet.monitors_.values(), *([fleet.shared_] if fleet.shared_ else [])):
            one.feature_names_in_ = names
        fleet.save(output)
    n_good = len(rows) - bad
    facts = history([f.path for f in source.files], n_good, bad)
    facts |= {"model": str(output), "seconds": time.perf_counter() - began}
    shown = [
        ("rows of normal operation", f"{n_good:,} in {facts['seconds']:.1f} s"),
        ("share of alarms in normal rows", f"{limits['alpha']:g}"),
        ("monitor", str(output)),
    ]
    if limits["false_events_per_day"] is not None:
        shown[1] = ("false events a day", f"{limits['false_events_per_day']:g}")
    if by is not None:
        facts["machines"] = list(fleet.monitors_)
        shown.insert(1, ("machines", f"{len(fleet.monitors_):,}"))
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


def parse_kernel(text: str) -> kernels.Kernel:
    """A kernel by name, or sums and products of such: ``on('a,b', rbf) + 2 * linear``.

    Examples
    --------
    >>> parse_kernel("on('a,b', rbf(gamma=0.1)) * on('colour', categorical)")
    Product(left=On(columns=['a', 'b'], kernel=RBF(gamma=0.1)),
            right=On(columns=['colour'], kernel=Categorical()))
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return parse_part(text, kernels.NAMES, "kernel")  # says what is wrong
    try:
        kernel = _kernel(tree)
    except RecursionError as problem:
        raise CommandError(USAGE, "--kernel is nested too deep.") from problem
    if not isinstance(kernel, kernels.Kernel):
        raise CommandError(USAGE, f"--kernel {text!r} is no kernel: write rbf, or rbf + linear.")
    return kernel


def _kernel(tree: ast.expr) -> Any:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Mult):
        left, right = _factor(tree.left), _factor(tree.right)
        return left + right if isinstance(tree.op, ast.Add) else left * right
    call = tree if isinstance(tree, ast.Call) else None
    if call is not None and isinstance(call.func, ast.Name) and call.func.id == "on":
        try:
            columns, kernel = call.args
            names = ast.literal_eval(columns)
        except ValueError as problem:
            raise CommandError(
                USAGE, "--kernel: write on('a,b', rbf), with names or numbers of columns."
            ) from problem
        if isinstance(names, str):
            names = opt.column_list(names)
        return kernels.On([names] if isinstance(names, int) else names, _kernel(kernel))
    return parse_part(ast.unparse(tree), kernels.NAMES, "kernel")


def _factor(tree: ast.expr) -> Any:
    number = isinstance(tree, ast.Constant) and isinstance(tree.value, int | float)
    return tree.value if number else _kernel(tree)  # type: ignore[attr-defined]


def parse_gamma(text: str | None) -> float | str | None:
    """A width, or ``auto``."""
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError as problem:
        raise CommandError(USAGE, f"--gamma {text!r}: write a number, or auto.") from problem
