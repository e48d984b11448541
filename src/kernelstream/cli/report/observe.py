"""Data collection for a report: uniform sample of rows with their errors, and largest errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from kernelstream.arrays import prints_short, uniforms
from kernelstream.estimators import StreamingKernelPCA

SAMPLE_ROWS = 2000
LARGEST = 10

Entry = tuple[float, int, float, np.ndarray, Any]  # key, number, error, row, label


@prints_short
@dataclass(frozen=True)
class Observed:
    """A uniform sample of rows with their reconstruction errors, and the largest errors of all.

    Attributes
    ----------
    rows : array of shape (n, d)
        The sample, in the order of the stream.
    numbers : array of shape (n,)
        Numbers of these rows, from 1.
    errors : array of shape (n,)
        Their reconstruction errors.
    labels : list or None
        What to color them by.
    n_rows : int
        Number of all rows.
    largest : tuple of (int, float, array)
        Numbers, errors and values of the ten rows with the largest error, the largest first.
    """

    rows: np.ndarray
    numbers: np.ndarray
    errors: np.ndarray
    labels: list[Any] | None
    n_rows: int
    largest: tuple[tuple[int, float, np.ndarray], ...] = ()


def observe(
    model: StreamingKernelPCA, blocks: Iterable[tuple[np.ndarray, list[Any] | None]], seed: int = 0
) -> Observed:
    """Read blocks of rows (with labels, or None) once, in bounded memory.

    Parameters
    ----------
    model : StreamingKernelPCA
        A fitted model.
    blocks : iterable of (rows, labels)
        Labels are a list, or None.
    seed : int
        Random seed of the sample.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(900, 3))
    >>> model = StreamingKernelPCA(2, basis=40, random_state=0).fit(X)
    >>> seen = observe(model, ((X[i : i + 100], None) for i in range(0, 900, 100)))
    >>> seen.n_rows, seen.rows.shape, len(seen.largest)
    (900, (900, 3), 10)
    """
    sample: list[Entry] = []
    largest: list[Entry] = []
    n_rows, with_labels = 0, False
    for X, labels in blocks:
        with_labels = with_labels or labels is not None
        errors = np.asarray(model.reconstruction_error(X), dtype=float)
        columns = errors, X, [None] * len(X) if labels is None else labels
        keys = uniforms(seed, "report", n_rows, len(X))
        sample = with_smallest(sample, SAMPLE_ROWS, keys, n_rows, *columns)
        largest = with_smallest(largest, LARGEST, -errors, n_rows, *columns)
        n_rows += len(X)
    if not sample:
        raise ValueError("There are no rows to report on.")
    sample.sort(key=itemgetter(1))
    _, numbers, errors_of_sample, rows, labels_of_sample = zip(*sample, strict=True)
    return Observed(
        rows=np.stack(rows),
        numbers=np.array(numbers),
        errors=np.array(errors_of_sample),
        labels=list(labels_of_sample) if with_labels else None,
        n_rows=n_rows,
        largest=tuple((number, error, row) for _, number, error, row, _ in largest),
    )


def with_smallest(
    entries: list[Entry],
    count: int,
    keys: np.ndarray,
    n_before: int,
    errors: np.ndarray,
    X: np.ndarray,
    labels: Sequence[Any],
) -> list[Entry]:
    """The entries with the smallest keys, among those so far and the rows of a block."""
    limit = entries[-1][0] if len(entries) == count else np.inf
    entries = entries + [
        (float(keys[i]), n_before + i + 1, float(errors[i]), X[i].copy(), labels[i])
        for i in np.flatnonzero(keys < limit).tolist()
    ]
    return sorted(entries, key=itemgetter(0))[:count]
