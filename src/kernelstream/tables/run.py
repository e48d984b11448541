"""Long runs over files: passes, checkpoints written at intervals, resuming.

A checkpoint is a model file that also says how far the run has come. A run that was stopped and
resumed ends with the same model, bit for bit, as one that was not.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream import kernels
from kernelstream.estimators import KernelEstimator, Passes, StreamingKernelPCA
from kernelstream.stream import ColumnScales
from kernelstream.tables.encoder import TableEncoder
from kernelstream.tables.files import fingerprint
from kernelstream.tables.source import Block, Source, SourcePosition

if TYPE_CHECKING:
    from kernelstream.tables.model import TableModel


def prepare(estimator: KernelEstimator, names: Sequence[str], fills: bool) -> None:
    """Prepare an estimator for encoded rows.

    Parameters
    ----------
    estimator : KernelEstimator
        An estimator that has learned nothing.
    names : sequence of str
        Names of the encoded columns.
    fills : bool
        Whether there are missing values to fill, if the estimator can.
    """
    if isinstance(estimator.kernel, kernels.Kernel):  # it may be a name or a function as well
        estimator.kernel = kernels.with_numbers(estimator.kernel, names)
    if fills and estimator.can_fill:
        estimator.fill_missing()


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


# -- a run


class Learner(Passes):
    """Learn blocks of a source: a kernel PCA in one pass or two, others by ``partial_fit``.

    Parameters
    ----------
    estimator : estimator
        The estimator that learns.
    source : Source
        The rows.
    passes : int, default=None
        1 reads the rows once. None and 2 read files twice if that is useful.
    """

    def __init__(self, estimator: Any, source: Source, passes: int | None = None):
        is_kernel_pca = isinstance(estimator, StreamingKernelPCA)
        super().__init__(estimator, is_kernel_pca and passes != 1 and not source.from_pipe)
        self.target = source.target

    @property
    def n_passes(self) -> int:
        """Passes that there will be; 1 where only the first rows will show it."""
        stream = getattr(self.estimator, "stream_", None)
        is_useful = stream is not None and stream.wants_second_pass
        return 2 if self.number == 2 or (self.repeatable and is_useful) else 1

    @property
    def first_fraction(self) -> float:
        """Fraction of the time of two passes that the first one takes."""
        return float(self.estimator.stream_.begin_first_pass().first_pass_fraction)

    def learn_block(self, block: Block, first: int) -> None:
        """Learn a block.

        Parameters
        ----------
        block : Block
            The rows.
        first : int
            Number of valid rows before it.
        """
        if self.repeatable:
            self.learn(block.X, block.weights)
        elif block.weights is None or block.weights.any():
            options: dict[str, Any] = {"sample_weight": block.weights}
            is_new = not self.estimator.__sklearn_is_fitted__()
            if is_new and self.target is not None and self.target.is_class:
                options["classes"] = self.target.classes
            y = () if self.target is None else (block.y,)
            self.estimator.partial_fit(block.X, *y, **options)
            self.n_rows += len(block)

    def end(self) -> bool:
        """Finish the present pass; True if the rows have to be read again for another one."""
        if not self.n_rows:
            raise ValueError("There is no row to learn from.")
        return self.repeatable and super().end()


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
    """A checkpoint was made by another run."""

    def __init__(self, message: str):
        super().__init__(f"{message}: remove it to start from the beginning.")


class Run:
    """Learn the rows of a source, in one pass or two, with checkpoints.

    A subclass may show the progress in :meth:`reading` and :meth:`on_block`, and writes checkpoints
    in :meth:`save`.

    Parameters
    ----------
    learner : Learner
        What learns them.
    source : Source
        The rows.
    path : Path or None
        The checkpoint.
    every : float
        Seconds between two checkpoints; infinity saves none.
    identity : dict
        Parameters that must be the same when the run is resumed.
    """

    def __init__(
        self,
        learner: Learner,
        source: Source,
        path: Path | None = None,
        every: float = math.inf,
        identity: dict[str, Any] | None = None,
    ):
        self.learner, self.source = learner, source
        self.path, self.every, self.identity = path, every, identity or {}
        self.progress = Progress()
        self.position: dict[str, Any] | None = None  # in an address
        self.saved_at = time.monotonic()

    def reading(self) -> contextlib.AbstractContextManager[Any]:
        """A context in which the rows of one pass are read: shows progress if it is verbose."""
        return self.learner.progress(None if self.source.from_pipe else self.source.fraction)

    def on_block(self, block: Block) -> None:
        """A block was learned.

        Parameters
        ----------
        block : Block
            The rows.
        """

    def save(self, estimator: Any, progress: dict[str, Any]) -> None:
        """Write a checkpoint.

        Parameters
        ----------
        estimator : estimator
            What was learned.
        progress : dict
            How far the run has come, for :meth:`resume`.
        """

    def complete(self) -> None:
        """Learn to the end; if it is interrupted, leave a checkpoint."""
        self._remember()
        try:
            while True:
                with self.reading():
                    self._read()
                if not self.learner.end():
                    return
                self.progress = Progress(2, n_invalid=self.progress.n_invalid)
                self._remember()
        except KeyboardInterrupt:
            if self.every < math.inf:
                self._save()
            raise

    def _read(self) -> None:
        start = SourcePosition(self.progress.file, self.progress.row)
        for block in self.source.ahead(start, self.progress.n_rows):
            self._learn(block)
            self.position = self.source.place(block.end)
            now, n_invalid = self.progress, len(block.bad) if self.progress.number == 1 else 0
            read = now.n_rows + len(block), now.n_invalid + n_invalid
            self.progress = Progress(now.number, block.end.file, block.end.row, *read)
            self._remember()
            self.on_block(block)
            if time.monotonic() - self.saved_at >= self.every:
                self._save()

    def _learn(self, block: Block) -> None:
        if not len(block):
            return
        try:
            self.learner.learn_block(block, self.progress.n_rows)
        except ValueError as problem:
            where = f"{block.file}, rows {block.rows[0]} to {block.rows[-1]}"
            raise ValueError(f"{where}: {problem}") from problem

    # -- checkpoints

    def _files(self) -> list[list[Any]]:
        return [list(entry) for entry in fingerprint(self.source.files)]

    def _remember(self) -> None:
        """Keep estimator and progress of one moment: an interrupt may come between two blocks."""
        learned = copy.copy(self.learner.estimator) if self.learner.n_rows else None
        self.moment = learned, self.progress, self.position

    def _save(self) -> None:
        """Write the checkpoint, if there is anything to save."""
        estimator, progress, position = self.moment
        if estimator is None:
            return
        stored = {"identity": self.identity, "files": self._files(), "place": asdict(progress)}
        if position is not None:
            stored["position"] = position
        self.save(estimator, stored)
        if position is not None:
            self.source.commit(position)
        self.saved_at = time.monotonic()

    def resume(self, estimator: Any, stored: dict[str, Any]) -> None:
        """Continue from a checkpoint.

        Parameters
        ----------
        estimator : estimator
            The estimator in the checkpoint.
        stored : dict
            The progress in it; that of another run is refused.
        """
        self._require_same_run(stored)
        self.progress = Progress(**stored["place"])
        self.learner.estimator = estimator
        self.learner.number, self.learner.n_rows = self.progress.number, self.progress.n_rows
        if self.source.has_places:  # it was opened at the place of the checkpoint
            self.position = stored.get("position")
            self.progress = replace(self.progress, file=0, row=0)

    def _require_same_run(self, stored: dict[str, Any]) -> None:
        """Raise unless a stored progress is that of a run with this identity and these files."""
        for name, value in json.loads(json.dumps(self.identity)).items():
            before = stored["identity"].get(name)
            if before != value:
                raise CheckpointMismatchError(
                    f"The checkpoint {self.path} was made with {name}={before}, now it is {value}"
                )
        files = self._files()
        for before, now in zip(stored["files"], files, strict=False):
            if before != now:
                raise CheckpointMismatchError(
                    f"{now[0]} changed since the checkpoint {self.path} was made"
                )
        if len(stored["files"]) != len(files):
            raise CheckpointMismatchError(
                f"The sources are not those of the checkpoint {self.path}"
            )


def fit_files(model: TableModel, source: Source) -> None:
    """Learn files into a model that has learned nothing."""
    model.encoder_ = TableEncoder.of(source.schema, **model.new_encoder().get_params())
    X = np.zeros((0, len(source.names))) if source.sampled_rows is None else source.sampled_rows
    model.estimator_ = estimator = model.new_estimator(X)
    if len(X) and isinstance(estimator, StreamingKernelPCA):
        calibrate(estimator, source)
        if estimator.scale is None:
            ColumnScales.of(X).warn(source.names)
    Run(Learner(estimator, source), source).complete()
