"""Data collection for a report: uniform sample of rows, binned errors over time, largest errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelstream.arrays import prints_short, uniforms
from kernelstream.estimators import StreamingKernelPCA

SAMPLE_ROWS = 2000
BINS = 400
STRANGEST = 10


@prints_short
@dataclass(frozen=True)
class Observed:
    """A uniform sample of rows, and the reconstruction errors of all of them over time.

    Attributes
    ----------
    rows : array of shape (n, d)
        The sample, in the order of the stream.
    numbers : array of shape (n,)
        Which rows these are, from 1.
    labels : list or None
        What to colour them by.
    n_rows : int
        All rows that went by.
    bin_rows : int
        Rows in a bin of the following; the last may be short.
    mean_error, largest_error : array of shape (b,)
        Of each bin.
    strangest : tuple of (int, array)
        Numbers and values of the rows of largest error, the largest first.
    """

    rows: np.ndarray
    numbers: np.ndarray
    labels: list[Any] | None
    n_rows: int
    bin_rows: int
    mean_error: np.ndarray
    largest_error: np.ndarray
    strangest: tuple[tuple[int, np.ndarray], ...] = ()


def observe(
    model: StreamingKernelPCA, blocks: Iterable[tuple[np.ndarray, list[Any] | None]], seed: int = 0
) -> Observed:
    """Look at blocks of rows (with labels, or None) once, in bounded memory.

    Parameters
    ----------
    model : StreamingKernelPCA
        A fitted model.
    blocks : iterable of (rows, labels)
        Labels are a list, or None.
    seed : int
        Of the sample of rows that is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(900, 3))
    >>> model = StreamingKernelPCA(2, basis=40, random_state=0).fit(X)
    >>> seen = observe(model, ((X[i : i + 100], None) for i in range(0, 900, 100)))
    >>> seen.n_rows, seen.rows.shape, bool(seen.mean_error.max() <= seen.largest_error.max())
    (900, (900, 3), True)
    """
    sample: list[tuple[float, int, np.ndarray, Any]] = []  # the rows of smallest random key
    worst, n, with_labels = 1.0, 0, False
    bins = Bins()
    strange: list[tuple[float, int, np.ndarray]] = []
    for X, labels in blocks:
        keys = uniforms(seed, "report", n, len(X))
        with_labels = with_labels or labels is not None
        for i in np.flatnonzero(keys < worst):
            label = None if labels is None else labels[i]
            sample.append((float(keys[i]), n + int(i) + 1, X[i].copy(), label))
        if len(sample) > 2 * SAMPLE_ROWS:
            sample = sorted(sample, key=lambda entry: entry[0])[:SAMPLE_ROWS]
            worst = sample[-1][0]
        errors = np.asarray(model.reconstruction_error(X), dtype=float)
        bins.add(errors)
        least = strange[-1][0] if len(strange) == STRANGEST else -np.inf
        strange += [
            (float(errors[i]), n + int(i) + 1, X[i].copy()) for i in np.flatnonzero(errors > least)
        ]
        strange = sorted(strange, key=lambda entry: (-entry[0], entry[1]))[:STRANGEST]
        n += len(X)
    if not sample:
        raise ValueError("There are no rows to report on.")
    sample = sorted(sample, key=lambda entry: entry[0])[:SAMPLE_ROWS]
    sample.sort(key=lambda entry: entry[1])
    return Observed(
        rows=np.stack([row for _, _, row, _ in sample]),
        numbers=np.array([number for _, number, _, _ in sample]),
        labels=[label for *_, label in sample] if with_labels else None,
        n_rows=n,
        bin_rows=bins.width,
        mean_error=bins.total / bins.count,
        largest_error=bins.largest,
        strangest=tuple((number, row) for _, number, row in strange),
    )


class Bins:
    """Sums, maxima and counts over bins of equal length; when there are too many, pairs join."""

    def __init__(self) -> None:
        self.width = 1
        self.total, self.largest, self.count = np.zeros(0), np.zeros(0), np.zeros(0)

    def add(self, values: np.ndarray) -> None:
        """More values of the stream: the last bin is filled first."""
        if len(self.count) and self.count[-1] < self.width:
            n = int(self.width - self.count[-1])
            self.total[-1] += values[:n].sum()
            self.largest[-1] = max(self.largest[-1], values[:n].max(initial=-np.inf))
            self.count[-1] += len(values[:n])
            values = values[n:]
        if not len(values):
            return
        starts = np.arange(0, len(values), self.width)
        self.total = np.append(self.total, np.add.reduceat(values, starts))
        self.largest = np.append(self.largest, np.maximum.reduceat(values, starts))
        self.count = np.append(self.count, np.diff(np.append(starts, len(values))))
        while len(self.total) > BINS:
            starts = np.arange(0, len(self.total), 2)
            self.total = np.add.reduceat(self.total, starts)
            self.largest = np.maximum.reduceat(self.largest, starts)
            self.count = np.add.reduceat(self.count, starts)
            self.width *= 2
