"""``fit`` from iterators, lazy frames, Arrow datasets and Dask arrays, in one or two passes.

Blocks that can be read again are read twice: landmarks first, then statistics in their span. An
iterator is read once, as a stream.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

from kernelstream.arrays import progress
from kernelstream.estimators.kernel_estimator import KernelEstimator

SLICE = 50_000  # rows of a lazy frame that are collected at a time


def is_lazy(X: Any) -> bool:
    """Whether this is a lazy frame of polars, or a dataset of Arrow."""
    return (hasattr(X, "collect") and hasattr(X, "collect_schema")) or (
        hasattr(X, "to_batches") and hasattr(X, "scanner")
    )


def is_chunked(X: Any) -> bool:
    """Whether this is an array of Dask."""
    return hasattr(X, "compute") and hasattr(X, "numblocks")


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


def learn_blocks(
    estimator: KernelEstimator, blocks: Callable[[], Iterator[Any]] | Iterator[Any]
) -> None:
    """Learn blocks into an estimator that has learned nothing; a pair is rows and weights."""
    passes = Passes(estimator, repeatable=callable(blocks))
    while True:
        with passes.progress():
            for block in blocks() if callable(blocks) else blocks:
                rows, weights = (
                    block if isinstance(block, tuple) and len(block) == 2 else (block, None)
                )
                if len(rows):
                    passes.learn(rows, weights)
        if not passes.end():
            return


class Passes:
    """One pass over blocks of rows, or two, into an estimator that has learned nothing.

    Parameters
    ----------
    estimator : KernelEstimator
        The estimator.
    repeatable : bool
        Whether the rows can be read again.
    number : int, default=1
        The present pass, of a run that is resumed.
    n_rows : int, default=0
        Rows that it has read.
    """

    def __init__(
        self, estimator: KernelEstimator, repeatable: bool, number: int = 1, n_rows: int = 0
    ):
        self.estimator, self.repeatable = estimator, repeatable
        self.number, self.n_rows = number, n_rows

    @staticmethod
    def blocks_of(X: Any) -> Callable[[], Iterator[Any]] | Iterator[Any] | None:
        """Rows that are read block by block.

        Parameters
        ----------
        X : object
            What ``fit`` was given: an iterator, a function that returns one, a lazy frame of
            polars, a dataset of Arrow, a Dask array, or rows in memory.

        Returns
        -------
        callable, iterator or None
            A function that reads the blocks from the first one; the iterator itself, which can be
            read once; None for rows in memory.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream.estimators import Passes
        >>> read = Passes.blocks_of(lambda: iter([np.zeros((5, 2)), np.ones((3, 2))]))
        >>> [len(block) for block in read()]
        [5, 3]
        >>> Passes.blocks_of(np.zeros((5, 2))) is None
        True
        """
        if is_lazy(X):
            return lambda: _lazy_blocks(X)
        if is_chunked(X):
            return lambda: _chunks(X)
        if hasattr(X, "__next__"):
            return cast(Iterator[Any], X)
        return (lambda: iter(X())) if callable(X) and not hasattr(X, "shape") else None

    def progress(
        self, fraction: Callable[[], float] | None = None
    ) -> contextlib.AbstractContextManager[None]:
        """Show the progress of the present pass while its blocks are learned, with ``verbose``.

        Parameters
        ----------
        fraction : callable, optional
            Returns the fraction of the rows that has been read.
        """
        wanted = getattr(self.estimator, "verbose", False)
        return progress.shown(wanted, f"pass {self.number}", fraction)

    def learn(self, X: Any, sample_weight: Any = None) -> None:
        """Learn a block in the present pass.

        Parameters
        ----------
        X : array of shape (n, d)
            The rows.
        sample_weight : array of shape (n,), optional
            Their weights.
        """
        estimator = self.estimator
        rows, stream = estimator._rows_to_learn(X, sample_weight)
        self.n_rows += len(rows)
        if not len(rows):
            return
        stream = stream or estimator.new_stream(rows.X)
        if self.repeatable and self.number == 1:
            stream = stream.begin_first_pass()
        estimator.set_stream(stream.learn(rows, frozen=self.number == 2))

    def end(self) -> bool:
        """Finish the present pass; True where the rows have to be read again for another one."""
        estimator = self.estimator
        if not self.n_rows:
            raise ValueError("There is no row to learn from.")
        stream = estimator.stream_
        if self.number == 2:
            estimator.set_stream(stream.finish())
            return False
        if not (self.repeatable and stream.wants_second_pass):
            return False
        estimator.set_stream(stream.begin_second_pass())
        self.number, self.n_rows = 2, 0
        return True
