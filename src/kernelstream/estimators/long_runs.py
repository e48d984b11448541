"""``fit`` of rows that do not lie in memory: files, blocks of a generator, lazy frames.

Files are read twice, as the command line does: points first, then statistics in their span. With a
checkpoint a run that was stopped goes on where it was, and ends as if nothing had happened.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream import serialization
from kernelstream.arrays import progress
from kernelstream.estimators import inputs
from kernelstream.estimators.base import build
from kernelstream.estimators.beginning import begin
from kernelstream.stream.fit import (
    begin_first_pass,
    begin_second_pass,
    end_second_pass,
    wants_second_pass,
)

SLICE = 50_000  # rows of a lazy frame that are collected at a time
UNIMPORTANT = ("verbose", "missing")  # parameters that a resumed run may have otherwise
Piece = tuple[Any, Any, tuple[int, int]]  # rows, weights, and the position after them


def is_long(X: Any) -> bool:
    """Whether rows are to be read from somewhere, instead of being here."""
    if is_file(X) or hasattr(X, "__next__"):
        return True
    return is_lazy(X) or is_chunked(X) or (callable(X) and not hasattr(X, "shape"))


def is_lazy(X: Any) -> bool:
    """Whether this is a frame of polars that is still to be computed, or a dataset of Arrow."""
    return (hasattr(X, "collect") and hasattr(X, "collect_schema")) or (
        hasattr(X, "to_batches") and hasattr(X, "scanner")
    )


def is_chunked(X: Any) -> bool:
    """Whether this is an array of Dask."""
    return hasattr(X, "compute") and hasattr(X, "numblocks")


@dataclass(frozen=True)
class Supply:
    """Where rows come from: pieces from a position on, once or as often as they are wanted."""

    pieces: Callable[[tuple[int, int]], Iterator[Piece]]
    repeatable: bool
    source: Any = None  # of files

    @property
    def fingerprint(self) -> list[list[Any]]:
        """What shows that files are still the same."""
        from kernelstream.tables import fingerprint

        return [list(entry) for entry in fingerprint(self.source.files)]


def supply_of(X: Any, columns: Any) -> Supply:
    """Rows from whatever the user gave."""
    if is_file(X):
        return _of_files(X, columns)
    if is_lazy(X):
        return Supply(lambda _: _blocks(_lazy_blocks(X)), repeatable=True)
    if is_chunked(X):
        return Supply(lambda _: _blocks(_chunks(X)), repeatable=True)
    if hasattr(X, "__next__"):
        return Supply(lambda _: _blocks(X), repeatable=False)
    return Supply(lambda _: _blocks(iter(X())), repeatable=True)


def is_file(X: Any) -> bool:
    """Whether these are paths of files, or a Source."""
    several = isinstance(X, list | tuple) and len(X) > 0
    if several and all(isinstance(path, str | os.PathLike) for path in X):
        return True
    return isinstance(X, str | os.PathLike) or hasattr(X, "from_pipe")


def source_of(X: Any, columns: Any) -> Any:
    """The Source of paths, its columns understood; one that is given stays as it is."""
    from kernelstream.tables import Source, Wishes

    return X if hasattr(X, "from_pipe") else Source(X, treat=Wishes(treat=columns or {}))


def _of_files(X: Any, columns: Any) -> Supply:
    from kernelstream.tables import Position

    source = source_of(X, columns)

    def pieces(start: tuple[int, int]) -> Iterator[Piece]:
        for block in source.blocks(Position(*start)):
            yield block.X, block.weights, (block.end.file, block.end.row)

    return Supply(pieces, not source.from_pipe, source)


def _blocks(blocks: Iterator[Any]) -> Iterator[Piece]:
    """Blocks of any kind; a pair is rows and their weights."""
    for block in blocks:
        rows, weights = block if isinstance(block, tuple) and len(block) == 2 else (block, None)
        yield rows, weights, (0, 0)


def _chunks(X: Any) -> Iterator[np.ndarray]:
    whole_rows = X.rechunk({1: -1})
    for i in range(whole_rows.numblocks[0]):
        yield np.asarray(whole_rows.blocks[i].compute())


def _lazy_blocks(X: Any) -> Iterator[Any]:
    if hasattr(X, "to_batches"):
        import pyarrow as pa

        yield from (pa.Table.from_batches([batch]) for batch in X.to_batches() if len(batch))
        return
    at = 0
    while len(piece := X.slice(at, SLICE).collect()):
        yield piece
        at += SLICE


def begin_with(estimator: Any, source: Any) -> None:
    """Let a model that has learned nothing know the columns of files, their names and scale."""
    if source.sampled_rows is not None:
        begin(estimator, source)
        if estimator.scale is None and len(source.sampled_rows):
            inputs.warn_of_scales(source.sampled_rows, source.names)
    if source.named:
        estimator.feature_names_in_ = np.array(source.names, dtype=object)


class LongRun:
    """Learn what is supplied into an estimator, in one or two passes.

    Parameters
    ----------
    estimator : StreamingKernelPCA
        A draft that has learned nothing.
    supply : Supply
        The rows.
    checkpoint : path-like or None
        Where the run is saved now and then, and from where it goes on if it is there.
    every : float
        Seconds between two checkpoints.
    """

    def __init__(self, estimator: Any, supply: Supply, checkpoint: Any, every: float):
        self.estimator, self.supply, self.every = estimator, supply, every
        self.path = None if checkpoint is None else Path(checkpoint)
        if self.path is not None and (supply.source is None or not supply.repeatable):
            raise ValueError("A checkpoint needs files: other rows cannot be read from a place on.")
        self.turn, self.place, self.rows = 1, (0, 0), 0
        self.saved = time.monotonic()

    def complete(self) -> None:
        """Learn to the end."""
        if not self._resumed() and self.supply.source is not None:
            begin_with(self.estimator, self.supply.source)
        if self.turn == 1:
            self._pass(frozen=False)
            if not self.rows:
                raise ValueError("There is no row to learn from.")
            if self.supply.repeatable and wants_second_pass(self.estimator.stream_):
                self.estimator.set_stream(begin_second_pass(self.estimator.stream_))
                self.turn, self.place, self.rows = 2, (0, 0), 0
        if self.turn == 2:
            self._pass(frozen=True)
            self.estimator.set_stream(end_second_pass(self.estimator.stream_))
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _pass(self, frozen: bool) -> None:
        estimator, title = self.estimator, f"pass {self.turn}"
        names = vars(estimator).pop("feature_names_in_", None) if self.supply.source else None
        try:
            source = self.supply.source
            share = source.fraction if source is not None and self.supply.repeatable else None
            with progress.shown(estimator.verbose, title, share):
                for X, weights, place in self.supply.pieces(self.place):
                    if len(X):
                        self._learn(X, weights, frozen)
                    self.place, self.rows = place, self.rows + len(X)
                    self._save_now_and_then(names)
        finally:
            if names is not None:
                estimator.feature_names_in_ = names

    def _learn(self, X: Any, weights: Any, frozen: bool) -> None:
        estimator = self.estimator
        rows, stream = estimator.checked_rows(X, weights)
        if len(rows):
            with inputs.explain_rows(rows.X):
                stream = stream or estimator.new_stream(rows.X)
                if not frozen and self.supply.repeatable:
                    stream = begin_first_pass(stream)
                estimator.set_stream(stream.learn(rows, frozen=frozen))

    # -- checkpoints

    def _identity(self) -> dict[str, Any]:
        params = self.estimator.get_params(deep=False)
        return {
            "parameters": {
                n: repr(v) for n, v in params.items() if n not in ("verbose", "missing")
            },
            "files": self.supply.fingerprint,
        }

    def _save_now_and_then(self, names: Any) -> None:
        due = time.monotonic() - self.saved >= self.every
        if self.path is None or not due or not self.rows:
            return
        place = {"turn": self.turn, "file": self.place[0], "row": self.place[1], "rows": self.rows}
        extra = {
            "feature_names": None if names is None else tuple(map(str, names)),
            "progress": json.dumps({"identity": self._identity(), "place": place}),
        }
        self.estimator.save(self.path, extra)
        self.saved = time.monotonic()

    def _resumed(self) -> bool:
        """Go on from the checkpoint, if there is one; one of another run is refused."""
        if self.path is None or not self.path.exists():
            return False
        stored, content = build(serialization.read(self.path), self.path)
        found = json.loads(content.get("progress") or "{}")
        if json.loads(json.dumps(self._identity())) != found.get("identity"):
            raise ValueError(
                f"The checkpoint {self.path} was made with other parameters, or its files have "
                "changed since: remove it to start afresh."
            )
        place = found["place"]
        self.turn, self.rows = int(place["turn"]), int(place["rows"])
        self.place = int(place["file"]), int(place["row"])
        for name in ("n_features_in_", "feature_names_in_", "columns_", "missing"):
            if hasattr(stored, name):
                setattr(self.estimator, name, getattr(stored, name))
        self.estimator.set_stream(stored.stream_)
        return True
