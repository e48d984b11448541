"""Dask input validation: rows and weights aligned in the same chunks, data types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np
from dask import array as da
from dask.delayed import Delayed

from kernelstream.distributed.dask.worker import Holding, naming


@dataclass(frozen=True)
class Chunks:
    """Rows and weights in the same chunks, and what is known without computing them."""

    rows: da.Array
    weights: da.Array | None  # (n, 1)
    meta: Any
    word: str
    dtype: Any
    holding: Holding | None = None  # of a detector: which rows are not learned

    def each(self, function: Callable[..., Any], model: Any, **options: Any) -> list[Delayed]:
        """One task for each chunk: ``function(model, chunk's number, rows, weights, …)``.

        As blocks of an array, so that Dask fuses each with the making of its chunk: chunks then
        live inside one task, are never moved to another worker, and never wait for one.
        """
        results = da.map_blocks(
            _of_chunk,
            self.rows,
            *([] if self.weights is None else [self.weights]),
            function=function,
            model=model,
            options={"holding": self.holding, **options},
            word=self.word,
            chunks=((1,) * self.rows.numblocks[0], (1,)),
            meta=np.empty((0, 0), dtype=object),
            token=function.__name__,
        )
        return list(results.to_delayed().ravel())


def chunks_of(X: Any, sample_weight: Any) -> Chunks:
    """What the user gave, checked as far as it can be without computing it."""
    rows, meta, word = as_array(X)
    return Chunks(rows, _weights(sample_weight, rows), meta, word, float_type(rows))


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
    weights, n = sample_weight, rows.shape[0]
    if hasattr(weights, "to_dask_array"):
        weights = weights.to_dask_array()
    elif not dask.is_dask_collection(weights):
        weights = da.from_array(np.asarray(weights))
    if weights.ndim != 1:
        raise ValueError(f"sample_weight has {weights.ndim} dimensions, expected one.")
    if not np.isnan(n) and not np.isnan(weights.shape[0]):
        if weights.shape[0] != n:
            raise ValueError(f"sample_weight has {weights.shape[0]} entries, X has {n} rows.")
        weights = weights.rechunk({0: rows.chunks[0]})
    if weights.numblocks[0] != rows.numblocks[0]:
        raise ValueError(
            f"sample_weight has {weights.numblocks[0]} chunks, X has {rows.numblocks[0]}: where "
            "chunk sizes are unknown, sample_weight has to come in the chunks of X."
        )
    return weights[:, None]


def _of_chunk(
    block: Any,
    *weights: Any,
    function: Callable[..., Any],
    model: Any,
    options: dict[str, Any],
    word: str,
    block_info: Any = None,
) -> Any:
    """``function`` of a chunk; errors name the chunk."""
    number = block_info[0]["chunk-location"][0]
    with naming(chunk_name(word, block_info)):
        w = weights[0][:, 0] if weights else None
        if w is not None and len(w) != block.shape[0]:  # also of a chunk without rows
            raise ValueError(
                f"sample_weight has {len(w)} entries here, X has {block.shape[0]} rows."
            )
        return function(model, number, block, w, **options)


def chunk_name(word: str, block_info: Any) -> str:
    """A chunk in words: how to look at it, and its rows where Dask knows them."""
    number = block_info[0]["chunk-location"][0]
    start, stop = block_info[0]["array-location"][0]
    known = "" if np.isnan(stop) else f", rows {start} to {stop - 1}"
    return f"Chunk {number} (X.{word}[{number}]{known})"
