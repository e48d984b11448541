"""Long runs over files: passes, checkpoints written at intervals, resuming, random rows.

A checkpoint is a model file that also says how far the run has come. A run that was stopped and
resumed ends with the same model, bit for bit, as one that was not.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream import kernels
from kernelstream.arrays import uniforms
from kernelstream.estimators import (
    KernelEstimator,
    Passes,
    ProgressiveSampling,
    StoredEstimator,
    StreamingKernelPCA,
    check_rows,
)
from kernelstream.serialization import ModelFile
from kernelstream.stream import ColumnScales
from kernelstream.tables.encoder import TableEncoder
from kernelstream.tables.files import fingerprint
from kernelstream.tables.source import Block, Source, SourcePosition
from kernelstream.tables.target import Target

if TYPE_CHECKING:
    from kernelstream.tables.model import TableModel


def prepare(estimator: KernelEstimator, names: Sequence[str], fills: bool) -> bool:
    """Prepare an estimator for encoded rows; True if it will fill missing values.

    Parameters
    ----------
    estimator : KernelEstimator
        An estimator that has learned nothing.
    names : sequence of str
        Names of the encoded columns.
    fills : bool
        Whether there are missing values to fill.
    """
    if isinstance(estimator.kernel, kernels.Kernel):  # it may be a name or a function as well
        estimator.kernel = kernels.with_numbers(estimator.kernel, names)
    fills = fills and estimator.can_fill
    if fills:
        estimator.fill_missing()
    return fills


def calibrate(estimator: KernelEstimator, source: Source) -> None:
    """Take scaling and kernel parameters from a uniform sample of all rows, if there is one.

    A pipe cannot be read twice: its first rows decide, as in any stream.

    Parameters
    ----------
    estimator : KernelEstimator
        An estimator that has learned nothing.
    source : Source
        The rows.
    """
    X, sample = source.sampled_rows, source.sample
    if X is not None and len(X) and sample is not None and sample.whole:
        estimator.calibrate(X)


def begin(model: TableModel, source: Source) -> None:
    """Give a model the schema of files, and scaling and kernel parameters from a sample of them."""
    model.encoder_ = TableEncoder.of(source.schema, **model.new_encoder().get_params())
    model.begin(model.encoder_.schema_.fills)
    estimator, X = model.estimator_, source.sampled_rows
    if X is None or not len(X) or not isinstance(estimator, StreamingKernelPCA):
        return
    calibrate(estimator, source)
    if estimator.scale is None:
        ColumnScales.of(X).warn(source.names)


# -- a run


class Learner:
    """Learn blocks of rows in one pass, by ``partial_fit``.

    Parameters
    ----------
    estimator : estimator
        The estimator that learns.
    target : Target or None
        The column that it predicts.
    """

    number = 1  # of the present pass
    repeatable = False  # whether the rows can be read twice
    n_rows = 0  # that the present pass has learned
    first_fraction = 0.5  # of the time of two passes that the first one takes

    def __init__(self, estimator: Any, target: Target | None = None):
        self.estimator, self.target = estimator, target

    @property
    def n_passes(self) -> int:
        """Passes that there will be; 1 where only the first rows will show it."""
        stream = getattr(self.estimator, "stream_", None)
        is_useful = stream is not None and stream.wants_second_pass
        return 2 if self.number == 2 or (self.repeatable and is_useful) else 1

    def continue_from(self, estimator: Any, progress: Progress) -> None:
        """Continue a run that was stopped.

        Parameters
        ----------
        estimator : estimator
            The estimator in its checkpoint.
        progress : Progress
            How far it had come.
        """
        self.estimator = estimator
        self.number, self.n_rows = progress.number, progress.n_rows

    def learn(self, block: Block, first: int) -> None:
        """Learn a block.

        Parameters
        ----------
        block : Block
            The rows.
        first : int
            Number of valid rows before it.
        """
        options: dict[str, Any] = {"sample_weight": block.weights}
        if block.weights is not None and not block.weights.any():
            return
        self.n_rows += len(block)
        if self.target is None:
            self.estimator.partial_fit(block.X, **options)
            return
        if self.target.is_class and not self.estimator.__sklearn_is_fitted__():
            options["classes"] = self.target.classes
        self.estimator.partial_fit(block.X, block.y, **options)

    def end(self) -> bool:
        """Finish the present pass; True where the rows have to be read again for another one."""
        if not self.n_rows:
            raise ValueError("There is no row to learn from.")
        return False


class LearnerInPasses(Learner):
    """Learn blocks of rows in two passes where that is useful: landmarks first, then statistics.

    Parameters
    ----------
    estimator : StreamingKernelPCA
        The estimator that learns.
    repeatable : bool
        Whether the rows can be read twice.
    """

    def __init__(self, estimator: StreamingKernelPCA, repeatable: bool):
        super().__init__(estimator)
        self.repeatable, self.passes = repeatable, Passes(estimator, repeatable)

    @property
    def number(self) -> int:  # type: ignore[override]
        """Number of the present pass."""
        return self.passes.number

    @property
    def first_fraction(self) -> float:  # type: ignore[override]
        """Fraction of the time of two passes that the first one takes."""
        return self.estimator.stream_.begin_first_pass().first_pass_fraction

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Rows that the present pass has learned."""
        return self.passes.n_rows

    def continue_from(self, estimator: Any, progress: Progress) -> None:
        """Continue a run that was stopped."""
        self.estimator = estimator
        self.passes = Passes(estimator, self.passes.repeatable, progress.number, progress.n_rows)

    def learn(self, block: Block, first: int) -> None:
        """Learn a block."""
        self.passes.learn(block.X, block.weights)

    def end(self) -> bool:
        """Finish the present pass; True where another one is useful."""
        return self.passes.end()


def learner_of(estimator: Any, source: Source, passes: int | None = None) -> Learner:
    """The learner of an estimator that has no learner of its own.

    Parameters
    ----------
    estimator : estimator
        The estimator that learns.
    source : Source
        The rows.
    passes : int, default=None
        1 reads the rows once. None and 2 read files twice where that is useful.
    """
    if isinstance(estimator, StreamingKernelPCA):
        return LearnerInPasses(estimator, passes != 1 and not source.from_pipe)
    return Learner(estimator, source.target)


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes
    ----------
    number : int
        Number of the present pass.
    file, row : int
        Place in the source.
    n_rows, n_invalid : int
        Valid and invalid rows that were read: valid ones in this pass, invalid ones in the first.
    """

    number: int = 1
    file: int = 0
    row: int = 0
    n_rows: int = 0
    n_invalid: int = 0


class CheckpointMismatchError(ValueError):
    """A checkpoint was made by another run.

    Attributes
    ----------
    changed : tuple or None
        A parameter that differs: its name, its value in the checkpoint, and its value now.
    """

    def __init__(self, message: str, changed: tuple[str, Any, Any] | None = None):
        super().__init__(message)
        self.changed = changed


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is saved regularly.

    Attributes
    ----------
    path : Path
        The file.
    every : float
        Seconds between two checkpoints; infinity saves none.
    identity : dict
        Parameters that must be the same when the run is resumed.
    save : callable
        Function of an estimator, a path and the progress, which writes a model file.
    """

    path: Path
    every: float
    identity: dict[str, Any]
    save: Callable[[Any, Path, dict[str, Any]], None]

    def require_same_run(self, stored: dict[str, Any], files: list[list[Any]]) -> None:
        """Raise unless a stored progress is that of a run with this identity and these files.

        Parameters
        ----------
        stored : dict
            The progress in the checkpoint.
        files : list of list
            Fingerprints of the files.
        """
        for name, value in json.loads(json.dumps(self.identity)).items():
            before = stored["identity"].get(name)
            if before != value:
                changed = (name, before, value)
                raise CheckpointMismatchError(
                    f"The checkpoint {self.path} was made with {name}={before}, now it is {value}: "
                    "remove it to start from the beginning.",
                    changed,
                )
        for before, now in zip(stored["files"], files, strict=False):
            if before != now:
                raise CheckpointMismatchError(
                    f"{now[0]} changed since the checkpoint {self.path} was made: remove it to "
                    "start from the beginning."
                )
        if len(stored["files"]) != len(files):
            raise CheckpointMismatchError(
                f"The sources are not those of the checkpoint {self.path}: remove it to start from "
                "the beginning."
            )


class RunObserver:
    """Observes a run; this one shows the progress of an estimator that is verbose."""

    def reading(self, run: Run) -> contextlib.AbstractContextManager[Any]:
        """A context in which the rows of one pass are read."""
        fraction = None if run.source.from_pipe else run.source.fraction
        return Passes(run.learner.estimator, False, run.learner.number).progress(fraction)

    def on_block(self, run: Run, block: Block) -> None:
        """A block was learned."""


class Run:
    """Learn the rows of a source, in one pass or two, with checkpoints.

    Parameters
    ----------
    learner : Learner
        What learns them.
    source : Source
        The rows.
    checkpoint : Checkpoint or None
        Where the run is saved.
    observer : RunObserver or None
        What is told of each block.
    """

    def __init__(
        self,
        learner: Learner,
        source: Source,
        checkpoint: Checkpoint | None = None,
        observer: RunObserver | None = None,
    ):
        self.learner, self.source, self.checkpoint = learner, source, checkpoint
        self.observer = observer or RunObserver()
        self.progress = Progress()
        self.position: dict[str, Any] | None = None  # in an address
        self.saved_at = time.monotonic()

    def complete(self) -> None:
        """Learn to the end; where it is interrupted, leave a checkpoint."""
        self._remember()
        try:
            while True:
                self._read()
                if not self.learner.end():
                    return
                self.progress = Progress(2, n_invalid=self.progress.n_invalid)
                self._remember()
        except KeyboardInterrupt:
            if self.checkpoint is not None and self.checkpoint.every < math.inf:
                self._save()
            raise

    def resume(self, estimator: Any, stored: dict[str, Any]) -> None:
        """Continue from a checkpoint.

        Parameters
        ----------
        estimator : estimator
            The estimator in the checkpoint.
        stored : dict
            The progress in it; that of another run is refused.
        """
        assert self.checkpoint is not None
        self.checkpoint.require_same_run(stored, self._files())
        self.progress = Progress(**stored["place"])
        self.learner.continue_from(estimator, self.progress)
        if self.source.has_places:  # it was opened at the place of the checkpoint
            self.position = stored.get("position")
            self.progress = replace(self.progress, file=0, row=0)

    def _read(self) -> None:
        start = SourcePosition(self.progress.file, self.progress.row)
        with self.observer.reading(self):
            for block in self.source.ahead(start, self.progress.n_rows):
                if len(block):
                    self._learn(block)
                self._advance(block)
                self.observer.on_block(self, block)
                self._save_regularly()

    def _learn(self, block: Block) -> None:
        try:
            self.learner.learn(block, self.progress.n_rows)
        except ValueError as problem:
            where = f"{block.file}, rows {block.rows[0]} to {block.rows[-1]}"
            raise ValueError(f"{where}: {problem}") from problem

    def _advance(self, block: Block) -> None:
        now = self.progress
        self.position = self.source.place(block.end)
        self.progress = replace(
            now,
            file=block.end.file,
            row=block.end.row,
            n_rows=now.n_rows + len(block),
            n_invalid=now.n_invalid + (len(block.bad) if now.number == 1 else 0),
        )
        self._remember()

    # -- checkpoints

    def _files(self) -> list[list[Any]]:
        return [list(entry) for entry in fingerprint(self.source.files)]

    def _remember(self) -> None:
        """Keep estimator and progress of one moment: an interrupt may come between two blocks."""
        learned = copy.copy(self.learner.estimator) if self.learner.n_rows else None
        self.moment = learned, self.progress, self.position

    def _save_regularly(self) -> None:
        checkpoint = self.checkpoint
        if checkpoint is not None and time.monotonic() - self.saved_at >= checkpoint.every:
            self._save()

    def _save(self) -> None:
        """Write the checkpoint, if there is anything to save."""
        estimator, progress, position = self.moment
        assert self.checkpoint is not None
        if estimator is None:
            return
        stored = {
            "identity": self.checkpoint.identity,
            "files": self._files(),
            "place": asdict(progress),
        }
        if position is not None:
            stored["position"] = position
        self.checkpoint.save(estimator, self.checkpoint.path, stored)
        if position is not None:
            self.source.commit(position)
        self.saved_at = time.monotonic()


def fit_files(
    model: TableModel, source: Source, checkpoint: Any, every: float, until: float | None
) -> None:
    """Learn files into a model that has learned nothing: all rows, or as many as are needed."""
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and source.from_pipe:
        raise ValueError("A checkpoint needs files: a pipe cannot be read from a place in it.")
    progress = None if path is None or not path.exists() else resumed(model, path)
    if progress is None:
        begin(model, source)
    if until is not None and progress is None and draw_until(model, source, until):
        return
    learner = learner_of(model.estimator_, source)
    if path is None:
        Run(learner, source).complete()
        return

    def save(estimator: Any, path: Path, progress: dict[str, Any]) -> None:
        model.estimator_ = estimator
        model.save(path, {"progress": json.dumps(progress, sort_keys=True)})

    identity = {
        name: repr(value)
        for name, value in model.get_params().items()
        if name not in ("estimator", "encoder") and not name.endswith("verbose")
    }
    run = Run(learner, source, Checkpoint(path, every, identity, save))
    if progress is not None:
        run.resume(model.estimator_, progress)
    run.complete()
    model.estimator_ = learner.estimator
    path.unlink(missing_ok=True)


def resumed(model: TableModel, path: Path) -> dict[str, Any]:
    """Give a model what a checkpoint has learned, and return how far its run had come."""
    stored, content = StoredEstimator.from_file(ModelFile.read(path), path)
    if "progress" not in content:
        raise ValueError(f"{path} is a model, not a checkpoint: name another file.")
    model.encoder_, model.estimator_ = stored.encoder_, stored.estimator_
    progress: dict[str, Any] = json.loads(content["progress"])
    return progress


# -- random rows


@dataclass(frozen=True)
class FileRows:
    """Rows of files for ``fit(until=…)``: how many there are, and their weight.

    A row is found by reading: the files once to count their rows, and once for each set of draws.
    The draws are those of an array with the same rows.

    Attributes
    ----------
    estimator : StreamingKernelPCA
        A calibrated estimator that has learned no rows.
    source : Source
        The files.
    n : int
        Number of valid rows.
    weight : float
        Sum of the weights of the rows.
    """

    estimator: StreamingKernelPCA  # calibrated, without rows
    source: Source
    n: int
    weight: float

    @classmethod
    def of(
        cls,
        estimator: StreamingKernelPCA,
        source: Source,
        note: Callable[[Block], None] = lambda block: None,
    ) -> FileRows:
        """Count the valid rows of files; ``note`` is called with every block.

        Parameters
        ----------
        estimator : StreamingKernelPCA
            A calibrated estimator that has learned no rows.
        source : Source
            The files.
        note : callable, optional
            Function that is called with every block, for example to report progress.

        Returns
        -------
        FileRows
            The rows with their number and weight.
        """
        if source.from_pipe:
            raise ValueError(
                "fit(until=...) reads rows several times, and those of a pipe or an address come "
                "once: write them to a file first, or fit all of them."
            )
        n, weight = 0, 0.0
        for block in source.ahead():
            n += len(block)
            weight += float(cumulated(block)[-1]) if len(block) else 0.0
            note(block)
        if n and not weight > 0.0:
            raise ValueError("All rows have weight zero: there is nothing to learn from.")
        return cls(estimator, source, n, weight)

    def draws(self, seed: int, wanted: dict[str, int]) -> Callable[[str, slice], np.ndarray]:
        """So many draws for each purpose, all of them read now, in one pass, and held in memory.

        Parameters
        ----------
        seed : int
            Random seed.
        wanted : dict of str to int
            Number of draws for each purpose.

        Returns
        -------
        callable
            Function of a purpose and a slice that returns these draws.
        """
        chances = [uniforms(seed, f"until {purpose}", 0, n) for purpose, n in wanted.items()]
        X = self.rows_at(np.concatenate(chances) * self.weight)
        cuts = np.cumsum(list(wanted.values()))[:-1]
        drawn = dict(zip(wanted, np.split(X, cuts), strict=True))
        return lambda purpose, at: drawn[purpose][at]

    def rows_at(self, points: np.ndarray) -> np.ndarray:
        """The rows at some points of the line on which each is as long as its weight.

        Parameters
        ----------
        points : array of shape (n,)
            Points between 0 and the total weight.

        Returns
        -------
        array of shape (n, d)
            The rows, one for each point.
        """
        order = np.argsort(points, kind="stable")
        points = np.minimum(points[order], np.nextafter(self.weight, 0.0))
        rows = np.empty((len(points), len(self.source.names)), dtype=self.source.dtype)
        done, start = 0, 0.0
        for block in self.source.ahead():
            if not len(block):
                continue
            ends = cumulated(block)
            there = slice(done, int(np.searchsorted(points, start + ends[-1])))
            index = np.searchsorted(ends, points[there] - start, side="right")
            last = int(np.searchsorted(ends, ends[-1]))  # the last with a weight
            rows[order[there]] = block.X[np.minimum(index, last)]
            done, start = there.stop, start + float(ends[-1])
        if done < len(points):
            raise ValueError("The files have fewer rows than before: they changed meanwhile.")
        return rows

    def learn(self, model: Any, X: np.ndarray) -> None:
        """Learn draws as rows of these files: with their scaling and kernel parameters.

        Parameters
        ----------
        model : StreamingKernelPCA
            The estimator that learns.
        X : array of shape (n, d)
            The draws.
        """
        vars(model).update(vars(self.estimator))
        stream = model.stream_ if model.__sklearn_is_fitted__() else model.new_stream(X)
        model.set_stream(stream.learn_all(check_rows(stream, X)))

    def checked(self, model: Any, X: np.ndarray) -> Any:
        """Draws as a query of a model.

        Parameters
        ----------
        model : StreamingKernelPCA
            The estimator that is evaluated.
        X : array of shape (n, d)
            The draws.

        Returns
        -------
        array of shape (n, d)
            The rows, for functions of the stream of the model.
        """
        return model.check_rows(X)


def draw_until(model: TableModel, source: Source, until: float) -> bool:
    """Learn as many rows of files as are needed; False: all of them are."""
    if not isinstance(model.estimator_, StreamingKernelPCA):
        raise TypeError(f"{type(model.estimator_).__name__} has no fit(until=...).")
    sampling = ProgressiveSampling(until)
    found = sampling.fit(model.estimator_, FileRows.of(model.estimator_, source))
    if found is not None:
        model.estimator_ = found
    return found is not None


def cumulated(block: Block) -> np.ndarray:
    """Weights of the rows of a block, summed up to each."""
    if block.weights is None:
        return np.arange(1.0, len(block) + 1.0)
    return np.cumsum(block.weights)
