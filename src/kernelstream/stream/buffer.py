"""Buffer: copies of the rows of an unfinished block; `stream` fills and empties it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelstream.arrays.namespaces import Array, is_sparse, like
from kernelstream.serialization import stored
from kernelstream.serialization.part import Value
from kernelstream.stream.state import Rows

# Upper limit of w k(x, x) of a buffered row: sums over as many rows as can be counted are finite.
MOST_OF_A_ROW = float(np.finfo(float).max * np.finfo(float).eps)
# Rows that came one by one are joined in pieces of this many: appending to a long tuple takes time
# that grows with its length.
PIECE_ROWS = 32


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


def copy_rows(X: Array) -> Array:
    """A copy that the caller's writing does not reach."""
    return X.copy() if is_sparse(X) or isinstance(X, np.ndarray) else like(X, X) + 0.0
