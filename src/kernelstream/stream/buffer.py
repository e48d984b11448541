"""Buffered rows: rows that do not yet fill a block, single rows of ``learn_one``.

A block of rows is kept as a copy in a :class:`Buffer`, which is part of the stream's value. Rows
that come one by one go through :class:`SingleRows`: to make a new stream of every such row would
cost many times what the row does, so they are written beside the stream that they will join, and
the stream with them is put together when it is asked for.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg

from kernelstream.arrays.namespaces import Array, is_foreign, is_sparse, like
from kernelstream.kernels import Kernel, Smoothness
from kernelstream.serialization import stored
from kernelstream.serialization.part import Value
from kernelstream.stream.state import Rows

if TYPE_CHECKING:
    from kernelstream.stream.stream import Stream

MOST_SINGLE_ROWS = 1024  # written beside a stream: a block of a device may have many more
# Above every w k(x, x) of a row that waits: sums over as many rows as can be counted are finite.
MOST_OF_A_ROW = float(np.finfo(float).max * np.finfo(float).eps)
LEAST_NORM = 1.0  # a kernel that is not known to be finite there is not known at all


@stored
@dataclass(frozen=True, eq=False)
class Buffer(Value):
    """Rows that wait, as copies: those of one call after the other."""

    blocks: tuple[Rows, ...] = ()

    @cached_property
    def _count(self) -> int:
        return sum(map(len, self.blocks))

    def __len__(self) -> int:
        return self._count

    def join(self, *more: Rows) -> Rows:
        """The waiting rows followed by ``more``, in one piece."""
        return Rows.joined((*self.blocks, *more))

    def in_one_piece(self) -> Buffer:
        """The same rows: how they came in is no part of the model."""
        return Buffer((self.join().canonical(),)) if self.blocks else self

    def append(self, rows: Rows) -> Buffer:
        """Keep copies of more rows."""
        if len(rows) == 0:
            return self
        weights = None if rows.weights is None else np.array(rows.weights, dtype=float)
        targets = None if rows.targets is None else copy_rows(rows.targets)
        return Buffer((*self.blocks, Rows(copy_rows(rows.X), weights, targets)))


def copy_rows(X: Array) -> Array:
    """A copy that the caller's writing does not reach."""
    return X.copy() if is_sparse(X) or isinstance(X, np.ndarray) else like(X, X) + 0.0


class SingleRows:
    """A stream, and room for rows that wait for the same block as its own.

    Rows are never written again: a stream that was handed out stays as it is while more rows come.

    Parameters
    ----------
    base : Stream
        The stream without the rows that are written here.
    room : int
        Rows that may come before something has to be decided.
    limit : float
        Rows whose squared norm is below it need no further look.
    """

    __slots__ = (
        "_base",
        "_count",
        "_dot",
        "_dtype",
        "_limit",
        "_one_by_one",
        "_room",
        "_rows",
        "_shape",
        "_shown",
    )

    def __init__(self, base: Stream, room: int, limit: float):
        self._base = base
        self._dtype = np.dtype(base.dtype)
        self._shape = (base.n_features,)
        self._room = min(room, MOST_SINGLE_ROWS)
        self._rows = np.empty((self._room, base.n_features), self._dtype)
        self._count = 0
        self._shown = (0, base)
        self._limit = limit
        self._one_by_one = threading.Lock()  # threads that put a row at the same time
        # BLAS itself, for NumPy's product takes its time to warn of an overflow
        self._dot = scipy.linalg.get_blas_funcs("dot", dtype=self._dtype)

    @staticmethod
    def beside(stream: Stream) -> SingleRows | None:
        """Room for a stream that goes on row by row; None where every row has to be looked at.

        Rows of the host don't wait for a stream that lives elsewhere, unless it sends for them.
        """
        room = stream.rows_to_decision - 1
        waiting = stream.waiting.blocks
        if room < 1 or not stream.n_rows or (waiting and waiting[0].targets is not None):
            return None
        if is_foreign(stream.held_array) and stream.device is None:
            return None
        limit = safe_norm(stream)
        return None if limit is None else SingleRows(stream, room, limit)

    def put(self, x: Any) -> bool:
        """Keep a copy of a row, if it is one of the usual kind and there is room.

        What is not (another type or shape, a number that is not finite) is left to the caller, who
        has the time to find out what it is. Rows come by the million: no word too many here.
        """
        if (
            type(x) is np.ndarray
            and x.dtype is self._dtype
            and x.shape == self._shape
            and self._dot(x, x) < self._limit  # false for NaN
        ):
            with self._one_by_one:
                n = self._count
                if n < self._room:
                    self._rows[n] = x
                    self._count = n + 1
                    return True
        return False

    def close(self) -> None:
        """Take no more rows: somebody goes on from the stream with those that are here."""
        with self._one_by_one:
            self._room = self._count

    @property
    def stream(self) -> Stream:
        """The stream with the rows that are here, the same value until another row comes."""
        count = self._count
        if self._shown[0] != count:
            waiting = Buffer((*self._base.waiting.blocks, Rows(self._rows[:count])))
            self._shown = (count, replace(self._base, waiting=waiting))
        return self._shown[1]


def safe_norm(stream: Stream) -> float | None:
    """A squared norm below which a row is as good as looked at; None where none is known.

    Squared distances have to be finite in the type of the rows (``inputs.require_summable``), and
    so has the energy (``Stream.wait``), of the row as the kernel sees it.
    """
    largest = float(np.finfo(stream.dtype).max) / 4.0
    kernel = stream.chain.kernel
    if not kernel.psd:  # such rows are folded when they come, to see whether they can be
        return None
    if stream.scaling is None:
        largest = min(largest, stream.reach)
    if kernel.unit_norm:
        return largest
    if stream.scaling is not None or not kernel.fixed:
        return None
    most = min(float(np.finfo(stream.dtype).max) / 4.0, MOST_OF_A_ROW)
    if kernel.max_squared_norm < most:
        return largest
    d = stream.n_features
    known = kernel.smoothness > Smoothness.UNKNOWN  # else it may be anything
    if not (known and squared_norm_below(kernel, LEAST_NORM, d) < most):
        return None
    limit = largest
    while not squared_norm_below(kernel, limit, d) < most:  # a power of the norm, as a rule
        limit = max(math.sqrt(limit), LEAST_NORM)
    return limit


def squared_norm_below(kernel: Kernel, norm: float, d: int) -> float:
    """A number that ``k(x, x)`` does not exceed while ``|x|² ≤ norm``, for rows of d columns.

    It is that of a row with ``|x_j|² = norm`` in every column: ``k(x, x)`` grows with each of them
    in sums and products of functions of ``x·y`` that are positive semidefinite (their power series
    have no negative coefficients, Schoenberg 1942), whatever columns they take.
    """
    with np.errstate(over="ignore"):
        return float(kernel.diag(np.full((1, d), math.sqrt(norm)))[0])
