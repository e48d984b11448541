"""Learning into a model file: ``--resume``, path of its checkpoint, progress, rejected rows.

The run itself is :class:`kernelstream.tables.Run`, as in Python. A run that is resumed from a
checkpoint ends with the same bytes as one that was never stopped.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kernelstream.cli.arguments import FitArguments, PaperArguments, UpdateArguments
from kernelstream.cli.failures import CHANGED, USAGE, CommandError, terminable
from kernelstream.cli.modelfile import Stored, history, read, require_apart
from kernelstream.cli.prediction import TargetLearner
from kernelstream.cli.rejects import Rejects
from kernelstream.cli.terminal import RowProgress, Screen, facts_table
from kernelstream.cli.wording import option_of
from kernelstream.serialization import Replacement
from kernelstream.tables import (
    Block,
    CheckpointMismatchError,
    Learner,
    Run,
    Source,
    is_address,
)

Given = FitArguments | UpdateArguments | PaperArguments
Facts = tuple[dict[str, Any], list[tuple[str, str]]]  # for machines, and for people


@dataclass
class Job:
    """What a command learns, and where the model will be.

    Attributes
    ----------
    stored : Stored
        The model to begin with: a fresh one, one that is updated, or that of a checkpoint.
    learner : Learner
        What learns its rows.
    source : Source
        The rows.
    output : Path
        The model file; checkpoints lie beside it.
    identity : dict
        What must be the same when the run is resumed.
    given : FitArguments, UpdateArguments or PaperArguments
        The options.
    screen : Screen
        Where progress is shown.
    """

    stored: Stored
    learner: Learner
    source: Source
    output: Path
    identity: dict[str, str]
    given: Given
    screen: Screen

    @property
    def files(self) -> list[str]:
        """Names of the sources."""
        return [file.path for file in self.source.files]

    @property
    def sizes(self) -> list[int]:
        """Bytes of the sources: what a finished model remembers of them."""
        return [file.size for file in self.source.files]

    def save(self, n_rows: int, n_invalid: int, **more: Any) -> None:
        """Write the model with its history, and remove the checkpoint."""
        more |= {"passes": self.learner.number, "identity": self.identity, "sizes": self.sizes}
        entry = history(self.files, n_rows, n_invalid, **more)
        origin = self.stored.origin
        self.stored.origin = {**origin, "history": [*origin.get("history", []), entry]}
        self.stored.estimator, self.stored.progress = self.learner.estimator, None
        self.stored.save(self.output)
        checkpoint_path(self.output).unlink(missing_ok=True)


def identity_of(given: Given, command: dict[str, str]) -> dict[str, str]:
    """The command and the options that must be the same when a run is resumed."""
    changeable = {
        *("model", "sources", "output", "force", "resume", "checkpoint_every", "rejects"),
        *("quiet", "as_json", "settings", "db"),
    }
    options = {k: v for k, v in asdict(given).items() if k not in changeable}
    words = {option_of(k): "nothing" if v is None else str(v) for k, v in options.items()}
    return {**command, **words}


def checkpoint_path(output: Path) -> Path:
    """The checkpoint of an output."""
    return Replacement.companion(output, ".checkpoint")


def learner_for(stored: Stored, source: Source, passes: int | None) -> Learner:
    """What learns the rows of a source into a model."""
    if source.target is None:
        return Learner(stored.estimator, source, passes)
    holdout = stored.origin["target"]["hold_back"]
    return TargetLearner(stored.estimator, source, holdout, passes)


def learn(job: Job) -> None:
    """Learn to the end, and write the model."""
    source, given, screen, path = job.source, job.given, job.screen, checkpoint_path(job.output)
    require_apart([job.output, path, given.rejects], job.files)
    run, began = ScreenRun(job), time.perf_counter()
    if given.resume and is_complete(job):
        screen.say(f"Already complete: {job.output}.")
        screen.result({"model": str(job.output), "complete": True}, output=job.output)
        return
    if given.resume:
        resume(run, job)
    elif path.exists():
        screen.say(f"Starting afresh; --resume would have gone on from {path}.")
    run.rejects = Rejects(given.rejects, run.progress.n_invalid)
    with terminable(), contextlib.closing(run.rejects):
        try:
            run.complete()
        except KeyboardInterrupt:
            if path.exists():
                screen.say(f"Interrupted; --resume goes on from {path}.")
            raise
        job.stored.estimator = job.learner.estimator
        facts = described(job)
    position = {} if run.position is None else {"position": run.position}
    job.save(run.progress.n_rows, run.progress.n_invalid, **position)
    if run.position is not None:
        source.commit(run.position)
    source.close()
    show_result(job, time.perf_counter() - began, facts)


class ScreenRun(Run):
    """A run that shows its progress, and lists its rejected rows."""

    rejects: Rejects
    first_fraction = 0.5  # of the time of two passes, until the first one is read

    def __init__(self, job: Job):
        path, every = checkpoint_path(job.output), job.given.checkpoint_every
        if every is not None and not Replacement.is_possible(job.output):
            raise CommandError(
                USAGE,
                f"{job.output} is no plain file: there is no place for a checkpoint beside it.",
            )
        every = math.inf if every is None else every
        super().__init__(job.learner, job.source, path, every, job.identity)
        self.stored, self.screen = job.stored, job.screen

    def save(self, estimator: Any, progress: dict[str, Any]) -> None:
        """Write a checkpoint."""
        assert self.path is not None
        replace(self.stored, estimator=estimator, progress=progress).save(self.path)

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
        learner = self.learner
        if learner.number == 1:
            self.rejects.add(block.bad)
        has_components = learner.number == learner.n_passes and hasattr(
            learner.estimator, "stream_"
        )
        self.bar.update(len(block), learner.estimator if has_components else None)


# -- resume


def resumed(given: Given, output: Path | None = None) -> tuple[Stored, Source] | None:
    """The model of a checkpoint that is to be resumed, and its source; None without one."""
    path = checkpoint_path(output or given.output or Path())
    if not (given.resume and path.exists()):
        return None
    stored = read(path, half_done=True)
    if stored.progress is None:
        raise CommandError(CHANGED, f"{path} is a model, not a checkpoint.")
    if "-" in given.sources:
        raise CommandError(
            CHANGED, "--resume needs files: a pipe cannot be read from a place in it."
        )
    # Columns that a model knows by name are those of its checkpoint.
    return stored, open_source(stored, replace(given, columns=None) if stored.names else given)


def open_source(stored: Stored, given: Given) -> Source:
    """The rows that a model learns next; an address is read from where the model left it."""
    weight_column = getattr(given, "weight_column", None)
    options = given.source_options(given.columns, weight_column=weight_column)
    if is_address(given.sources[0]):
        position = stored.position_of(given.sources[0])
        options["connection"] = replace(options["connection"], position=position)
    return stored.open_source(given.sources, options, stored.target)


def is_complete(job: Job) -> bool:
    """Whether the output has learned what this job would learn; a model of another is an error."""
    output, is_update = job.output, job.identity["command"] == "update"
    # What an address had is learned; an update looks for what came since.
    if job.stored.progress is not None or (is_update and job.source.has_places):
        return False
    if not output.exists():
        return False
    entries = read(output).origin.get("history", [])
    if entries and is_entry_of(job, entries[-1]):
        return True
    if is_update:
        return False
    raise CommandError(
        CHANGED,
        f"There is no checkpoint, and {output} was made from other sources or with other options. "
        "Replace it with --force in the place of --resume, or write another file with -o.",
    )


def is_entry_of(job: Job, entry: dict[str, Any]) -> bool:
    """Whether the last entry of a model's history is what this job would learn.

    An update in place is not compared by the model it began with: that one is gone.
    """
    before = {"model": None, **entry.get("identity", {})}
    now = {**job.identity, "model": before["model"]}
    return (before, entry["sources"], entry.get("sizes")) == (now, job.files, job.sizes)


def resume(run: Run, job: Job) -> None:
    """Continue a run from its checkpoint; one that does not fit fails with the reason."""
    path, progress = checkpoint_path(job.output), job.stored.progress
    if progress is None:
        job.screen.say(f"No checkpoint {path} yet: starting afresh.")
        return
    try:
        run.resume(job.stored.estimator, progress)
    except CheckpointMismatchError as problem:
        raise CommandError(CHANGED, str(problem)) from None
    turn = "" if run.progress.number == 1 else " of the second pass"
    job.screen.say(f"Going on after {run.progress.n_rows:,} rows{turn}, from {path}.")


# -- summary


def described(job: Job) -> Facts:
    """The held-out score of a prediction, or components and explained variance of a model."""
    if isinstance(job.learner, TargetLearner):
        return job.learner.described(job.stored, job.screen)
    components, certificate = job.stored.components, job.stored.stream.certificate
    count = int(components.variances.shape[0])
    ratio = float(components.explained_variance_ratio.sum())
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


def show_result(job: Job, seconds: float, described: Facts) -> None:
    """Print what was learned."""
    entry, estimator = job.stored.origin["history"][-1], job.stored.estimator
    n_rows, n_invalid = entry["rows"], entry["bad_rows"]
    facts = {
        "model": str(job.output),
        "rows": n_rows,
        "bad_rows": n_invalid,
        "passes": entry["passes"],
        "rows_seen": estimator.n_samples_seen_,
        "features": estimator.n_features_in_,
        "points": len(getattr(estimator, "basis_points_", ())),
        **described[0],
        "seconds": round(seconds, 3),
    }
    lines = [("rows", f"{n_rows:,} in {seconds:.1f} s")]
    if n_invalid:
        listed = f", listed in {job.given.rejects}" if job.given.rejects else ""
        lines.append(("bad rows", f"{n_invalid:,} passed over{listed}"))
    lines += [("features", f"{facts['features']}"), ("basis points", f"{facts['points']}")]
    lines += [*described[1], ("model", f"{job.output}")]
    job.screen.result(facts, facts_table(lines), output=job.output)
