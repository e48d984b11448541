"""Values of a stream: rows with weights and targets, the buffer, the learned state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from kernelstream.arrays.namespaces import Array, concatenate_rows, is_sparse, like, take_rows
from kernelstream.certificates.observer import CertificateObserver
from kernelstream.serialization import stored
from kernelstream.serialization.part import Value
from kernelstream.stream.robust import RobustWeights
from kernelstream.trackers import Moments
from kernelstream.trackers.moments import CrossMoments

# Upper limit of w k(x, x) of a buffered row: sums over as many rows as can be counted are finite.
MOST_OF_A_ROW = float(np.finfo(float).max * np.finfo(float).eps)
# Rows that came one by one are joined in pieces of this many: appending to a long tuple takes time
# that grows with its length.
PIECE_ROWS = 32


@stored
@dataclass(frozen=True)
class Rows:
    """Rows with their weights (None: all 1) and, for a regression, their targets.

    Attributes
    ----------
    X : array of shape (n, d), dense or CSR
        The rows; missing values are NaN.
    weights : array of shape (n,) or None
        Weights of the rows; None means that all are 1.
    targets : array of shape (n, t) or None
        Targets of a regression.
    """

    X: Annotated[Array, "rows (.rows, columns), or NaN"]
    weights: Annotated[np.ndarray | None, "float64 (.rows), positive"] = None
    targets: Annotated[Array | None, "rows (.rows, targets)"] = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __getitem__(self, where: slice) -> Rows:
        start, stop, _ = where.indices(len(self))
        return Rows(
            self.X[start:stop, :],
            None if self.weights is None else self.weights[where],
            None if self.targets is None else self.targets[start:stop, :],
        )

    def take(self, index: np.ndarray) -> Rows:
        """Some of the rows, in a given order.

        Parameters
        ----------
        index : array of int
            Indices of the rows.
        """
        weights = None if self.weights is None else self.weights[index]
        targets = None if self.targets is None else take_rows(self.targets, index)
        return Rows(take_rows(self.X, index), weights, targets)

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of several parts, in one piece.

        Parameters
        ----------
        parts : sequence of Rows
            The parts, in order.
        """
        X = concatenate_rows([rows.X for rows in parts])
        given = [rows.targets for rows in parts if rows.targets is not None]
        targets = concatenate_rows(given) if given else None
        if all(rows.weights is None for rows in parts):
            return cls(X, None, targets)
        weights = [np.ones(len(rows)) if rows.weights is None else rows.weights for rows in parts]
        return cls(X, np.concatenate(weights), targets)

    def canonical(self) -> Rows:
        """The same rows in C order, and no weights where all are 1.

        Products round differently on transposed memory and with ones multiplied in: the model must
        not depend, bit for bit, on how the caller holds its rows.
        """
        X, targets = (
            np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a
            for a in (self.X, self.targets)
        )
        plain = self.weights is None or bool(np.all(self.weights == 1.0))
        return Rows(X, None if plain else self.weights, targets)


def copy_rows(X: Array) -> Array:
    """A copy that the caller's writing does not reach."""
    return X.copy() if is_sparse(X) or isinstance(X, np.ndarray) else like(X, X) + 0.0


@stored
@dataclass(frozen=True, eq=False)
class Buffer(Value):
    """Buffered rows, as copies: those of one call after the other."""

    blocks: tuple[Rows, ...] = ()

    @cached_property
    def _count(self) -> int:
        return sum(map(len, self.blocks))

    def __len__(self) -> int:
        return self._count

    def join(self, *more: Rows) -> Rows:
        """The buffered rows followed by ``more``, in one piece."""
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
        blocks = (*self.blocks, Rows(copy_rows(rows.X), weights, targets))
        count = self._count + len(rows)
        if count % PIECE_ROWS == 0 and sum(map(len, blocks[-PIECE_ROWS:])) == PIECE_ROWS:
            blocks = (*blocks[:-PIECE_ROWS], Rows.joined(blocks[-PIECE_ROWS:]))
        longer = Buffer(blocks)
        object.__setattr__(longer, "_count", count)
        return longer


@stored
@dataclass(frozen=True, eq=False)
class State:
    """Everything a stream has learned.

    Attributes
    ----------
    n_rows : int
        Number of rows in completed blocks.
    moments : Moments
        Weight, sum of the coordinates and sum of the squared norms.
    basis : object
        State of the landmark strategy.
    tracker : object
        State of the tracker.
    signs : array of shape (q, r) or None
        Components at the end of an earlier block, the reference for signs.
    next_signs : int
        Number of rows at which ``signs`` is replaced.
    targets : CrossMoments or None
        Moments of the coordinates with the targets, if rows have targets.
    observer : CertificateObserver or None
        Ledger and sample of the certificate; None with ``certify=False``.
    judge : RobustWeights or None
        Residual quartiles of a robust stream.
    """

    n_rows: int
    moments: Moments  # W, Σ w z and Σ w k(x,x)
    basis: Any
    tracker: Any
    # components of an earlier block end, for their signs
    signs: Annotated[Array | None, "float64 (<=rank, ?)"]
    next_signs: Annotated[int, "of any size"]  # rows at which `signs` is taken anew
    targets: CrossMoments | None = None  # Σ w z yᵀ where rows come with targets y
    observer: CertificateObserver | None = None
    judge: RobustWeights | None = (
        None  # of a robust stream: how well rows fit that have come so far
    )
