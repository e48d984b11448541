"""Learning from files: one or two passes, checkpoint, resume, random rows up to a target.

A checkpoint is a model file that also says how far the run has come. A run that was stopped and
resumed ends with the same model, bit for bit, as one that was not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from kernelstream.tables.schema import Schema
from kernelstream.tables.source import Block, Source, SourcePosition

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
    model.encoder_ = TableEncoder.of(schema_of(source), **model.new_encoder().get_params())
    model.begin(model.encoder_.schema_.fills)
    estimator, X = model.estimator_, source.sampled_rows
    if X is None or not len(X) or not isinstance(estimator, StreamingKernelPCA):
        return
    calibrate(estimator, source)
    if estimator.scale is None:
        ColumnScales.of(X).warn(source.names)


def schema_of(source: Source) -> Schema:
    """The schema of a source; columns of numbers where none was inferred."""
    return source.encoding


class Run:
    """Learn files into a model, in one or two passes.

    Parameters
    ----------
    model : TableModel
        A model that has learned nothing.
    source : Source
        The rows.
    checkpoint : path-like or None
        Where the run is saved regularly, and from where it is resumed if the file exists.
    every : float
        Seconds between two checkpoints.
    """

    def __init__(self, model: TableModel, source: Source, checkpoint: Any, every: float):
        self.model, self.source, self.every = model, source, every
        self.path = None if checkpoint is None else Path(checkpoint)
        if self.path is not None and source.from_pipe:
            raise ValueError("A checkpoint needs files: a pipe cannot be read from a place in it.")
        self.position, self.n_rows, self.saved_at = SourcePosition(), 0, time.monotonic()
        self.number = 1

    def complete(self) -> None:
        """Learn to the end, and remove the checkpoint."""
        if not self._resume():
            begin(self.model, self.source)
        estimator = self.model.estimator_
        passes = Passes(estimator, not self.source.from_pipe, self.number, self.n_rows)
        if isinstance(estimator, StreamingKernelPCA):
            self._learn_in_passes(passes)
        else:
            self._read(passes, self._learn_block)
        if not self.n_rows:
            raise ValueError("There is no row to learn from.")
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _learn_in_passes(self, passes: Passes) -> None:
        while True:
            self._read(passes, lambda block: passes.learn(block.X, block.weights))
            if not passes.end():
                return
            self.number, self.position = passes.number, SourcePosition()

    def _learn_block(self, block: Block) -> None:
        estimator, target = self.model.estimator_, self.source.target
        options: dict[str, Any] = {"sample_weight": block.weights}
        if target is None:
            estimator.partial_fit(block.X, **options)
            return
        if target.is_class and not estimator.__sklearn_is_fitted__():
            options["classes"] = target.classes
        estimator.partial_fit(block.X, block.y, **options)

    def _read(self, passes: Passes, learn: Callable[[Block], None]) -> None:
        with passes.progress(None if self.source.from_pipe else self.source.fraction):
            for block in self.source.blocks(self.position):
                if len(block):
                    learn(block)
                self.position, self.n_rows = block.end, self.n_rows + len(block)
                self._save_regularly()

    # -- checkpoints

    def _identity(self) -> dict[str, Any]:
        params = self.model.get_params()
        return {
            "parameters": {n: repr(v) for n, v in params.items() if not n.endswith("verbose")},
            "files": [list(entry) for entry in fingerprint(self.source.files)],
        }

    def _save_regularly(self) -> None:
        due = time.monotonic() - self.saved_at >= self.every
        if self.path is None or not due or not self.n_rows:
            return
        place = {"file": self.position.file, "row": self.position.row, "rows": self.n_rows}
        progress = {"identity": self._identity(), "place": place | {"pass": self.number}}
        self.model.save(self.path, {"progress": json.dumps(progress)})
        self.saved_at = time.monotonic()

    def _resume(self) -> bool:
        """Resume from the checkpoint, if there is one; one of another run is refused."""
        if self.path is None or not self.path.exists():
            return False
        stored, content = StoredEstimator.from_file(ModelFile.read(self.path), self.path)
        found = json.loads(content.get("progress") or "{}")
        if json.loads(json.dumps(self._identity())) != found.get("identity"):
            raise ValueError(
                f"The checkpoint {self.path} was made with other parameters, or its files have "
                "changed since: remove it to start from the beginning."
            )
        place = found["place"]
        self.number, self.n_rows = int(place["pass"]), int(place["rows"])
        self.position = SourcePosition(int(place["file"]), int(place["row"]))
        self.model.encoder_, self.model.estimator_ = stored.encoder_, stored.estimator_
        return True


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
    if not isinstance(model.estimator, StreamingKernelPCA):
        raise TypeError(f"{type(model.estimator).__name__} has no fit(until=...).")
    sampling = ProgressiveSampling(until)
    begin(model, source)
    rows = FileRows.of(model.estimator_, source)
    found = sampling.fit(model.estimator_, rows)
    if found is not None:
        model.estimator_ = found
    return found is not None


def cumulated(block: Block) -> np.ndarray:
    """Weights of the rows of a block, summed up to each."""
    if block.weights is None:
        return np.arange(1.0, len(block) + 1.0)
    return np.cumsum(block.weights)
