"""Data collection for a report: uniform sample of rows, binned errors over time, largest errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from kernelstream.arrays import prints_short, uniforms
from kernelstream.estimators import StreamingKernelPCA

SAMPLE_ROWS = 2000
BINS = 400


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
        What to color them by.
    n_rows : int
        Number of all rows.
    bin_rows : int
        Rows in a bin of the following; the last may be short.
    mean_error, largest_error : array of shape (b,)
        Of each bin.
    strangest : tuple of (int, array)
        Numbers and values of the ten rows with the largest error, the largest first.
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
    >>> seen.n_rows, seen.rows.shape, len(seen.strangest)
    (900, (900, 3), 10)
    """
    sample: list[tuple[Any, ...]] = []  # key, number, row, label: the smallest random keys
    strange: list[tuple[float, int, np.ndarray]] = []  # error, number, row: the largest errors
    bins, with_labels = Bins(), False
    for X, labels in blocks:
        first, with_labels = bins.n_rows + 1, with_labels or labels is not None
        keys = uniforms(seed, "report", bins.n_rows, len(X))
        for i in np.flatnonzero(keys < (sample[-1][0] if len(sample) == SAMPLE_ROWS else 1.0)):
            label = None if labels is None else labels[i]
            sample.append((keys[i], first + int(i), X[i].copy(), label))
        sample = sorted(sample, key=itemgetter(0))[:SAMPLE_ROWS]
        errors = np.asarray(model.reconstruction_error(X), dtype=float)
        least = strange[-1][0] if len(strange) == 10 else -np.inf
        strange += [
            (float(errors[i]), first + int(i), X[i].copy()) for i in np.flatnonzero(errors > least)
        ]
        strange = sorted(strange, key=itemgetter(0), reverse=True)[:10]
        bins.add(errors)
    if not sample:
        raise ValueError("There are no rows to report on.")
    sample.sort(key=itemgetter(1))
    _, chosen, values, of_rows = zip(*sample, strict=True)
    return Observed(
        rows=np.stack(values),
        numbers=np.array(chosen),
        labels=list(of_rows) if with_labels else None,
        n_rows=bins.n_rows,
        bin_rows=bins.width,
        mean_error=bins.means(),
        largest_error=bins.largest[: bins.count],
        strangest=tuple((number, row) for _, number, row in strange),
    )


class Bins:
    """Sums and maxima of errors over bins of equal length; if there are too many, pairs join."""

    def __init__(self) -> None:
        self.width, self.n_rows = 1, 0
        self.total, self.largest = np.zeros(BINS), np.zeros(BINS)

    @property
    def count(self) -> int:
        """Number of bins in use."""
        return -(-self.n_rows // self.width)

    def add(self, errors: np.ndarray) -> None:
        """Add the errors of further rows."""
        while self.n_rows + len(errors) > BINS * self.width:
            rest = np.zeros(BINS // 2)
            self.total = np.append(self.total.reshape(-1, 2).sum(axis=1), rest)
            self.largest = np.append(self.largest.reshape(-1, 2).max(axis=1), rest)
            self.width *= 2
        places = (self.n_rows + np.arange(len(errors))) // self.width
        np.add.at(self.total, places, errors)
        np.maximum.at(self.largest, places, errors)
        self.n_rows += len(errors)

    def means(self) -> np.ndarray:
        """The mean error of each bin."""
        starts = self.width * np.arange(self.count)
        return self.total[: self.count] / np.minimum(self.width, self.n_rows - starts)
