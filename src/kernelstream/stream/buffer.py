"""Rows that come one by one: kept beside the model that they will join, until somebody looks.

A row that waits for its block changes nothing but the list of rows that wait. To make a new model
of every such row would cost many times what the row does, so they gather in a buffer, and the model
with them is put together when it is asked for. Rows in the buffer are never written again: a model
that was handed out stays as it is while more rows come.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg

from kernelstream.backends.arrays import is_foreign
from kernelstream.stream.state import Model, Waiting
from kernelstream.stream.stream import rows_to_decision

MOST_ROWS = 1024  # in a buffer: a block of a device may have many more
LEAST_NORM = 1.0  # a kernel that is not known to be finite there is not known at all


class Inbox:
    """A model, and room for rows that wait for the same block as its own.

    Parameters
    ----------
    base : Model
        The model without the rows of this buffer.
    n_features : int
        Width of a row as users give it.
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
        "_room",
        "_rows",
        "_shape",
        "_shown",
    )

    def __init__(self, base: Model, n_features: int, room: int, limit: float):
        self._base = base
        self._dtype = np.dtype(base.dtype)
        self._shape = (n_features,)
        self._room = min(room, MOST_ROWS)
        self._rows = np.empty((self._room, n_features), self._dtype)
        self._count = 0
        self._shown = (0, base)
        self._limit = limit
        # BLAS itself, for NumPy's product takes its time to warn of an overflow
        self._dot = scipy.linalg.get_blas_funcs("dot", dtype=self._dtype)

    def put(self, x: Any) -> bool:
        """Keep a copy of a row, if it is one of the usual kind and there is room.

        What is not (another type or shape, a number that is not finite) is left to the caller, who
        has the time to find out what it is. Rows come by the million: no word too many here.
        """
        n = self._count
        if (
            type(x) is np.ndarray
            and x.dtype is self._dtype
            and x.shape == self._shape
            and n < self._room
            and self._dot(x, x) < self._limit  # false for NaN
        ):
            self._rows[n] = x
            self._count = n + 1
            return True
        return False

    @property
    def model(self) -> Model:
        """The model with the rows that are here, the same value until another row comes."""
        count = self._count
        if self._shown[0] != count:
            before = self._base.waiting
            waiting = Waiting(
                (*before.rows, self._rows[:count]),
                (*before.weights, None),
                before.targets,
                before.count + count,
            )
            self._shown = (count, replace(self._base, waiting=waiting))
        return self._shown[1]


def opened(model: Model, n_features: int) -> Inbox | None:
    """An inbox for a stream that goes on row by row; None where every row has to be looked at.

    Rows of the host don't wait for a model that lives elsewhere, unless it sends for them.
    """
    room = rows_to_decision(model) - 1
    if room < 1 or not model.n_rows or model.waiting.targets:
        return None
    held = model.waiting.rows[0] if model.state is None else model.state.moments.total
    if is_foreign(held) and model.device is None:
        return None
    limit = safe_norm(model)
    return None if limit is None else Inbox(model, n_features, room, limit)


def safe_norm(model: Model) -> float | None:
    """A squared norm below which a row is as good as looked at; None where none is known.

    Squared distances have to be finite in the type of the rows (``validation.summable``), and so
    has the energy (``blocks.kept``), of the row as the kernel sees it.
    """
    largest = float(np.finfo(model.dtype).max) / 4.0
    kernel = model.parts.kernel
    if kernel.unit_norm:
        return largest
    if model.standardise or model.standard is not None or model.reduction or not kernel.fixed:
        return None
    if not kernel.energy_limit(LEAST_NORM) < largest:
        return None
    limit = largest
    while not kernel.energy_limit(limit) < largest:  # a power of the norm, as a rule
        limit = max(math.sqrt(limit), LEAST_NORM)
    return limit
