"""Dask input validation: rows, weights and targets aligned in the same chunks, data types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np
from dask import array as da
from dask.delayed import Delayed, delayed
from distributed import Client

from kernelstream.distributed.dask.graph import computed, tree
from kernelstream.distributed.dask.worker import Holding, naming
from kernelstream.estimators import KernelEstimator
from kernelstream.regression import StreamingKernelClassifier, StreamingKernelRidge
from kernelstream.regression.base import OnePassRidge, targets_of
from kernelstream.regression.ridge import note_shape

WORDS = {"weights": "sample_weight", "y": "y"}  # what the user calls what comes with the rows


@dataclass(frozen=True)
class Chunks:
    """Rows, weights and targets in the same chunks, and what is known without computing them."""

    rows: da.Array
    weights: da.Array | None  # (n, 1)
    targets: da.Array | None  # (n, t) as they were given
    learner: OnePassRidge | None  # knows what becomes of targets
    meta: Any
    word: str
    dtype: Any
    holding: Holding | None = None  # of a detector: which rows are not learned

    @property
    def n_targets(self) -> int | None:
        """Columns that the targets become, where there are any."""
        if isinstance(self.learner, StreamingKernelClassifier):
            return len(self.learner.classes_)
        return None if self.targets is None else int(self.targets.shape[1])

    def each(
        self, function: Callable[..., Any], model: Any, targets: bool = False, **options: Any
    ) -> list[Delayed]:
        """One task for each chunk: ``function(model, chunk's number, rows, weights, …)``.

        As blocks of an array, so that Dask fuses each with the making of its chunk: chunks then
        live inside one task, are never moved to another worker, and never wait for one.
        """
        beside = {"weights": self.weights, "y": self.targets if targets else None}
        present = {name: array for name, array in beside.items() if array is not None}
        results = da.map_blocks(
            _of_chunk,
            self.rows,
            *present.values(),
            beside=tuple(present),
            function=function,
            model=model,
            encoder=_encoder(self.learner) if "y" in present else None,
            options={"holding": self.holding, **options},
            word=self.word,
            chunks=((1,) * self.rows.numblocks[0], (1,)),
            meta=np.empty((0, 0), dtype=object),
            token=function.__name__,
        )
        return list(results.to_delayed().ravel())

    def labels(self, client: Client | None) -> np.ndarray:
        """All labels that the chunks have, sorted; the targets alone are read."""
        assert self.targets is not None
        found = [delayed(np.unique)(block) for block in self.targets.to_delayed().ravel()]
        return computed(tree(_labels_together, found), client)


def _labels_together(labels: list[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate(labels))


def chunks_of(model: KernelEstimator, X: Any, y: Any, sample_weight: Any) -> Chunks:
    """What the user gave, checked as far as it can be without computing it."""
    rows, meta, word = as_array(X)
    targets, learner = _targets(model, y, rows)
    weights = _weights(sample_weight, rows)
    return Chunks(rows, weights, targets, learner, meta, word, float_type(rows))


def as_array(X: Any) -> tuple[da.Array, Any, str]:
    """Rows as an array with one column chunk, what stands for its columns, and Dask's word."""
    if not dask.is_dask_collection(X) or not hasattr(X, "ndim") or X.ndim != 2:
        raise TypeError(
            "Expected a Dask array of shape (n, d) or a Dask dataframe, got "
            f"{type(X).__name__}{getattr(X, 'shape', '')}. Rows in memory go to model.fit."
        )
    if hasattr(X, "to_dask_array"):
        return X.to_dask_array(), X._meta, "partitions"
    return X.rechunk({1: -1}), np.empty((0, X.shape[1])), "blocks"


def float_type(rows: da.Array) -> Any:
    """The type in which rows are worked on, as in memory: float32 stays, all else is float64."""
    return np.float32 if rows.dtype == np.float32 else np.float64


def _weights(sample_weight: Any, rows: da.Array) -> da.Array | None:
    """Weights as a column in the chunks of the rows."""
    if sample_weight is None:
        return None
    weights = _beside(rows, sample_weight, "sample_weight")
    if weights.ndim != 1:
        raise ValueError(f"sample_weight has {weights.ndim} dimensions, expected one.")
    return weights[:, None]


def _targets(
    model: KernelEstimator, y: Any, rows: da.Array
) -> tuple[da.Array | None, OnePassRidge | None]:
    """Targets as columns in the chunks of the rows, and who learns them."""
    name = type(model).__name__
    if isinstance(y, Client):
        raise TypeError("y is a distributed.Client; name the argument: client=…")
    if not isinstance(model, OnePassRidge):
        if y is not None:
            raise ValueError(f"{name} learns from rows alone: leave y out.")
        return None, None
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    targets = _beside(rows, y, "y")
    is_flat = targets.ndim == 1
    if targets.ndim not in (1, 2) or (isinstance(model, StreamingKernelClassifier) and not is_flat):
        raise ValueError(f"y has {targets.ndim} dimensions, which {name} does not take.")
    if isinstance(model, StreamingKernelRidge):
        note_shape(model, is_flat)
    return (targets[:, None] if is_flat else targets.rechunk({1: -1})), model


def _beside(rows: da.Array, values: Any, name: str) -> da.Array:
    """What comes with the rows, in their chunks."""
    if hasattr(values, "to_dask_array"):
        values = values.to_dask_array()
    elif not dask.is_dask_collection(values):
        host = np.asarray(values)
        values = da.from_array(host, chunks=tuple(max(n, 1) for n in host.shape) or 1)
    if values.ndim and not np.isnan(rows.shape[0]) and not np.isnan(values.shape[0]):
        if values.shape[0] != rows.shape[0]:
            raise ValueError(f"{name} has {values.shape[0]} entries, X has {rows.shape[0]} rows.")
        values = values.rechunk({0: rows.chunks[0]})
    if values.ndim and values.numblocks[0] != rows.numblocks[0]:
        raise ValueError(
            f"{name} has {values.numblocks[0]} chunks, X has {rows.numblocks[0]}: where chunk "
            f"sizes are unknown, {name} has to come in the chunks of X."
        )
    return values


def _of_chunk(
    block: Any,
    *arrays: Any,
    beside: tuple[str, ...],
    function: Callable[..., Any],
    model: Any,
    encoder: OnePassRidge | None,
    options: dict[str, Any],
    word: str,
    block_info: Any = None,
) -> Any:
    """``function`` of a chunk; errors name the chunk."""
    number = block_info[0]["chunk-location"][0]
    given = dict(zip(beside, arrays, strict=True))
    weights = given["weights"][:, 0] if "weights" in given else None
    with naming(chunk_name(word, block_info)):
        for what, values in given.items():  # also of a chunk without rows: y may have some
            if values.shape[0] != block.shape[0]:
                raise ValueError(
                    f"{WORDS[what]} has {values.shape[0]} entries here, X has {block.shape[0]} "
                    "rows."
                )
        if "y" in given and encoder is not None and block.shape[0]:
            options = {**options, "targets": _numbers(encoder, given["y"])}
        return function(model, number, block, weights, **options)


def _encoder(learner: OnePassRidge | None) -> OnePassRidge | None:
    """What makes numbers of targets, without all that was learned: it goes with every task."""
    if isinstance(learner, StreamingKernelClassifier):
        light = StreamingKernelClassifier()
        light.classes_ = learner.classes_
        return light
    return None if learner is None else type(learner)()


def _numbers(encoder: OnePassRidge, y: np.ndarray) -> np.ndarray:
    """The targets of a chunk as a regression takes them."""
    is_column = isinstance(encoder, StreamingKernelClassifier)
    return targets_of(encoder, y[:, 0] if is_column else y)


def chunk_name(word: str, block_info: Any) -> str:
    """A chunk in words: how to look at it, and its rows where Dask knows them."""
    number = block_info[0]["chunk-location"][0]
    start, stop = block_info[0]["array-location"][0]
    known = "" if np.isnan(stop) else f", rows {start} to {stop - 1}"
    return f"Chunk {number} (X.{word}[{number}]{known})"
