"""Learning into a model file: ``--resume``, path of its checkpoint, progress, rejected rows.

The run itself is :class:`kernelstream.tables.Run`, as in Python. A run that goes on from a
checkpoint ends with the same bytes as one that was never stopped.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernelstream.cli import options as opt
from kernelstream.cli.failures import CHANGED, USAGE, CommandError, terminable
from kernelstream.cli.modelfile import Stored, history, read, require_apart
from kernelstream.cli.rejects import Rejects
from kernelstream.cli.terminal import RowProgress, Screen, facts_table
from kernelstream.cli.wording import in_shell, option_of
from kernelstream.estimators import ProgressiveSampling
from kernelstream.serialization import Replacement
from kernelstream.tables import (
    Block,
    CheckpointMismatchError,
    FileRows,
    Learner,
    Run,
    Source,
    is_address,
)
from kernelstream.tables.addresses import same_source
from kernelstream.tables.memory import give_back


@dataclass(frozen=True)
class Job:
    """What a command learns, and where the model will be.

    Attributes
    ----------
    stored : Stored
        The model to begin with: a fresh one, or one that is updated.
    learner : Learner
        What learns its rows.
    source : Source
        The rows.
    output : Path
        The model file; checkpoints lie beside it.
    identity : dict
        Options that must be the same when the run is resumed.
    given : FitArguments or UpdateArguments
        The options about checkpoints and rejected rows.
    screen : Screen
        Where progress is shown.
    """

    stored: Stored
    learner: Learner
    source: Source
    output: Path
    identity: dict[str, Any]
    given: opt.CheckpointOptions
    screen: Screen


def checkpoint_path(output: Path) -> Path:
    """The checkpoint of an output."""
    return Replacement.companion(output, ".checkpoint")


def learn(
    job: Job, earlier: list[dict[str, Any]], at_end: Callable[[], None] | None = None
) -> Run | None:
    """Learn to the end, and write the model; None where it was complete already.

    ``earlier`` is the history of the model; ``at_end`` is called before the model is written.
    """
    source, given, path = job.source, job.given, checkpoint_path(job.output)
    sources = [file.path for file in source.files]
    require_apart([job.output, path, given.rejects], sources)
    run = ScreenRun(job)
    if given.resume and not resume(run, job):
        job.screen.say(f"Already complete: {job.output}.")
        job.screen.result({"model": str(job.output), "complete": True}, output=job.output)
        return None
    if not given.resume and path.exists():
        job.screen.say(f"Starting afresh; --resume would have gone on from {path}.")
    with terminable(), run.listing():
        try:
            run.complete()
        except KeyboardInterrupt:
            if path.exists():
                job.screen.say(f"Interrupted; --resume goes on from {path}.")
            raise
        job.stored.estimator = job.learner.estimator
        if at_end is not None:
            at_end()
    position = {} if run.position is None else {"position": run.position}
    finish(job, earlier, run.progress.n_rows, run.progress.n_invalid, **position)
    if run.position is not None:
        source.commit(run.position)
    source.close()
    return run


def finish(
    job: Job, earlier: list[dict[str, Any]], n_rows: int, n_invalid: int, **more: Any
) -> None:
    """Write the model with its history, and remove the checkpoint."""
    entry = history(
        [file.path for file in job.source.files],
        n_rows,
        n_invalid,
        passes=job.learner.number,
        identity=job.identity,
        sizes=sizes(job.source),
        **more,
    )
    job.stored.origin = {**job.stored.origin, "history": [*earlier, entry]}
    job.stored.save(job.output)
    give_back()  # the bytes of the file
    checkpoint_path(job.output).unlink(missing_ok=True)


class ScreenRun(Run):
    """A run that shows its progress, and lists its rejected rows."""

    def __init__(self, job: Job):
        every = opt.seconds(job.given.checkpoint_every)
        if every is not None and not Replacement.is_possible(job.output):
            raise CommandError(
                USAGE,
                f"{job.output} is no plain file: there is no place for a checkpoint beside it.",
            )
        path, every = checkpoint_path(job.output), math.inf if every is None else every
        super().__init__(job.learner, job.source, path, every, job.identity)
        self.job, self.screen, self.first_fraction = job, job.screen, 0.5

    def save(self, estimator: Any, progress: dict[str, Any]) -> None:
        """Write a checkpoint."""
        stored = replace(self.job.stored, estimator=estimator, progress=progress)
        stored.save(checkpoint_path(self.job.output))

    @contextlib.contextmanager
    def listing(self) -> Iterator[None]:
        """The list of rejected rows, cut back to those before the checkpoint."""
        self.rejects = Rejects(self.job.given.rejects, self.progress.n_invalid)
        try:
            yield
        finally:
            self.rejects.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """A progress bar for one pass."""
        number, n_passes = self.learner.number, self.learner.n_passes
        title, edges = "learning", [0.0, 1.0]
        if n_passes == 2:
            if number == 1:
                self.first_fraction = self.learner.first_fraction
            title, edges = f"pass {number} of 2", [0.0, self.first_fraction, 1.0]
        with RowProgress(self.screen, self.source, title, *edges[number - 1 :][:2]) as self.bar:
            yield

    def on_block(self, block: Block) -> None:
        """Count the rows of a block, and list the rejected ones."""
        if self.learner.number == 1:
            self.rejects.add(block.bad)
        is_last = self.learner.number == self.learner.n_passes
        self.bar.update(len(block), self.learner.estimator if is_last else None)


# -- resume


def resume(run: Run, job: Job) -> bool:
    """Continue from the checkpoint, or from the beginning; False where all is learned already."""
    path, output = checkpoint_path(job.output), job.output
    if path.exists():
        continue_from(run, job, path)
        turn = "" if run.progress.number == 1 else " of the second pass"
        job.screen.say(f"Going on after {run.progress.n_rows:,} rows{turn}, from {path}.")
        return True
    is_update = job.identity["command"] == "update"
    # What an address had is learned; an update looks for what came since.
    if output.exists() and not (job.source.has_places and is_update):
        entries = read(output, any_kind=True).origin.get("history", [])
        if entries and is_entry_of(job, entries[-1]):
            return False
        if not is_update:
            raise CommandError(
                CHANGED,
                f"There is no checkpoint, and {output} was made from other sources or with other "
                "options. Replace it with --force in the place of --resume, or write another file "
                "with -o.",
            )
    job.screen.say(f"No checkpoint {path} yet: starting afresh.")
    return True


def continue_from(run: Run, job: Job, path: Path) -> None:
    """Continue a run from its checkpoint; one that does not fit fails with the reason."""
    if job.source.from_pipe and not job.source.has_places:
        raise CommandError(
            CHANGED, "--resume needs files: a pipe cannot be read from a place in it."
        )
    stored = read(path, any_kind=True, half_done=True)
    if stored.progress is None:
        raise CommandError(CHANGED, f"{path} is a model, not a checkpoint.")
    job.stored.origin, job.stored.names = stored.origin, stored.names
    job.stored.schema = stored.schema
    try:
        run.resume(stored.estimator, stored.progress)
    except CheckpointMismatchError as problem:
        message = str(problem).replace(": remove it to start from the beginning", "")
        if problem.changed is not None:
            name, before, now = problem.changed
            message = (
                f"The checkpoint {path} was made with {option_of(name)} {in_shell(before)}, now it "
                f"is {in_shell(now)}."
            )
        raise CommandError(CHANGED, f"{message} Start afresh without --resume.") from None


def is_entry_of(job: Job, entry: dict[str, Any]) -> bool:
    """Whether the last entry of a model's history is what this job would learn.

    An update in place is not compared by the model it began with: that one is gone.
    """
    now = {name: value for name, value in job.identity.items() if name != "model"}
    before = {k: v for k, v in entry.get("identity", {}).items() if k != "model"}
    same_files = entry["sources"] == [file.path for file in job.source.files]
    return now == before and same_files and entry.get("sizes") == sizes(job.source)


def sizes(source: Source) -> list[int]:
    """Bytes of the sources: what a finished model remembers of them."""
    return [file.size for file in source.files]


def stopped_run(output: Path, sources: list[str], resume: bool) -> Stored | None:
    """What a run over an address that was stopped has left, where it is to be resumed.

    Files need none of it: they are read from any place.
    """
    path = checkpoint_path(output)
    wanted = resume and is_address(sources[0]) and path.exists()
    return read(path, any_kind=True, half_done=True) if wanted else None


def with_position(
    read_options: dict[str, Any], stored: Stored | None, sources: list[str]
) -> dict[str, Any]:
    """The options of a source; an address is read from where a model, or a checkpoint, left it."""
    position = None
    if stored is not None and is_address(sources[0]):
        if stored.progress is not None:
            position = stored.progress.get("position")
        else:
            entries = reversed(stored.origin.get("history", []))
            places = (e.get("position") for e in entries if is_of(e, sources[0]))
            position = next(places, None)
    return {**read_options, "connection": replace(read_options["connection"], position=position)}


def is_of(entry: dict[str, Any], address: str) -> bool:
    """Whether an entry of a history is about an address."""
    return bool(entry["sources"]) and same_source(entry["sources"][0], address)


# -- random rows


def learn_random_rows(job: Job, until: float) -> int:
    """Learn as many random rows as are needed, and return the number of all; 0: all are needed."""
    rejects, n_invalid = Rejects(job.given.rejects, 0), 0

    def note(block: Block) -> None:
        nonlocal n_invalid
        n_invalid += len(block.bad)
        rejects.add(block.bad)
        bar.update(len(block))

    with RowProgress(job.screen, job.source, "counting") as bar:
        rows = FileRows(job.source, note)
    rejects.close()
    estimator = ProgressiveSampling(until).fit(job.learner.estimator, rows)
    if estimator is None:
        job.screen.say("As many rows as there are would have to be drawn: all are learned.")
        return 0
    job.stored.estimator = job.learner.estimator = estimator
    n_drawn = estimator.n_samples_seen_ + estimator.certificate_.statistical.n_sampled
    finish(job, [], n_drawn, n_invalid)
    return rows.n


# -- summary


def show_result(
    job: Job, seconds: float, facts: dict[str, Any], lines: list[tuple[str, str]]
) -> None:
    """Print what was learned; ``facts`` and ``lines`` are those of the model."""
    entry, estimator = job.stored.origin["history"][-1], job.stored.estimator
    n_rows, n_invalid = entry["rows"], entry["bad_rows"]
    shared = {
        "model": str(job.output),
        "rows": n_rows,
        "bad_rows": n_invalid,
        "passes": entry["passes"],
        "rows_seen": estimator.n_samples_seen_,
        "features": estimator.n_features_in_,
        "points": len(getattr(estimator, "basis_points_", ())),
    }
    shown = [("rows", f"{n_rows:,} in {seconds:.1f} s")]
    if n_invalid:
        listed = f", listed in {job.given.rejects}" if job.given.rejects else ""
        shown.append(("bad rows", f"{n_invalid:,} passed over{listed}"))
    shown += [("features", f"{shared['features']}"), ("basis points", f"{shared['points']}")]
    table = facts_table([*shown, *lines, ("model", f"{job.output}")])
    job.screen.result({**shared, **facts, "seconds": round(seconds, 3)}, table, output=job.output)


def component_facts(stored: Stored) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Components and explained variance of a model, for machines and for people."""
    components = stored.components
    count = int(components.variances.shape[0])
    ratio = float(components.explained_variance_ratio.sum())
    certificate = stored.stream.certificate
    low, high = certificate.best_explained_variance_ratio_interval
    kind = certificate.bounds.kind
    facts = {
        "components": count,
        "explained_variance_ratio": ratio,
        "best_explained_variance_ratio_interval": [low, high],
        "kind": kind,
    }
    lines = [
        ("components", f"{count} with {ratio:.1%} of the variance"),
        ("best possible", f"{low:.1%} to {high:.1%} of the variance ({kind})"),
    ]
    return facts, lines


def random_row_facts(
    stored: Stored, drawn_from: int
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The same of a model of random rows: of how many, and how far it is from the best."""
    facts, lines = component_facts(stored)
    below = stored.estimator.certificate_.statistical.shortfall_bound
    more = {"drawn_from": drawn_from, "shortfall_bound": below}
    lines = [
        ("drawn from", f"{drawn_from:,} rows"),
        *lines,
        ("below that", f"by {below:.2%} of the variance at most"),
    ]
    return {**facts, **more}, lines
