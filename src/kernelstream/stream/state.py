"""The fitted model as a value: the parts, what they learned, and the rows that still wait."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelstream.backends.arrays import (
    Array,
    concatenate_rows,
    is_foreign,
    is_sparse,
    like,
    to_float64,
    to_host,
)
from kernelstream.backends.devices import placed
from kernelstream.bases import Basis
from kernelstream.certificate.ledger import Ledger
from kernelstream.kernels import Kernel
from kernelstream.stream.wiener import LinearMap, Wiener
from kernelstream.trackers import Moments, Tracker
from kernelstream.trackers.moments import CrossMoments


@dataclass(frozen=True)
class Parts:
    """The chain: a kernel, a basis, a tracker, centred or not, and how many components to show."""

    kernel: Kernel
    basis: Basis
    tracker: Tracker
    center: bool
    n_components: int | float | None
    seed: int
    certify: str | bool = "auto"
    regress_inputs: bool = False  # whether the rows themselves are targets of a regression


class Cached:
    """A value that may carry a computed view of itself, which is no part of the value."""

    def __getstate__(self) -> dict[str, Any]:
        computed = ("view", "caught_up", "solution")
        return {k: v for k, v in self.__dict__.items() if k not in computed}


@dataclass(frozen=True, eq=False)
class State(Cached):
    """Everything a stream has learned."""

    n_rows: int
    moments: Moments  # W and Σ w z
    basis: Any
    tracker: Any
    ledger: Ledger
    signs: Array | None  # components of an earlier block end, for their signs
    next_signs: int  # rows at which `signs` is taken anew
    targets: CrossMoments | None = None  # Σ w z yᵀ where rows come with targets y


@dataclass(frozen=True)
class Standard:
    """Mean and deviation of the start of the stream, frozen: x ← (x − mean) / deviation."""

    mean: np.ndarray
    deviation: np.ndarray

    def apply(self, X: Array) -> Array:
        """Standardise rows."""
        if is_sparse(X):
            raise ValueError(
                "scale='standard' needs dense rows: centring would fill a sparse matrix. Scale the "
                "data yourself (for example with sklearn's MaxAbsScaler) and use scale=None."
            )
        return (X - like(self.mean, X, X.dtype)) / like(self.deviation, X, X.dtype)

    def undo(self, X: Array) -> Array:
        """Return to the units of the data."""
        return X * like(self.deviation, X, X.dtype) + like(self.mean, X, X.dtype)


@dataclass(frozen=True)
class Waiting:
    """Rows that wait for their block to be complete, as copies."""

    rows: tuple[Array, ...] = ()
    weights: tuple[np.ndarray | None, ...] = ()
    targets: tuple[Array, ...] = ()  # one a block of rows, or none at all
    count: int = -1  # rows in all, counted when not given

    def __post_init__(self) -> None:
        if self.count < 0:
            object.__setattr__(self, "count", sum(int(block.shape[0]) for block in self.rows))

    def __len__(self) -> int:
        return self.count

    def join(self, more: Rows | None = None) -> Rows:
        """The waiting rows followed by ``more``, in one piece."""
        blocks = [*self.rows, *([] if more is None else [more.X])]
        parts = [*self.weights, *([] if more is None else [more.weights])]
        given = [*self.targets, *([] if more is None or more.targets is None else [more.targets])]
        targets = concatenate_rows(given) if given else None
        if all(w is None for w in parts):
            return Rows(concatenate_rows(blocks), None, targets)
        filled = [
            np.ones(b.shape[0]) if w is None else w for b, w in zip(blocks, parts, strict=True)
        ]
        return Rows(concatenate_rows(blocks), np.concatenate(filled), targets)

    def packed(self) -> Waiting:
        """The same rows in one piece: how they came in is no part of the model."""
        if not self.rows:
            return self
        rows = self.join().canonical()
        targets = () if rows.targets is None else (rows.targets,)
        return Waiting((rows.X,), (rows.weights,), targets)

    def append(self, rows: Rows) -> Waiting:
        """Keep copies of more rows."""
        if len(rows) == 0:
            return self
        weights = None if rows.weights is None else np.array(rows.weights, dtype=float)
        return Waiting(
            (*self.rows, copied(rows.X)),
            (*self.weights, weights),
            self.targets if rows.targets is None else (*self.targets, copied(rows.targets)),
            self.count + len(rows),
        )


def copied(X: Array) -> Array:
    """A copy that the caller's writing does not reach."""
    return X.copy() if is_sparse(X) or isinstance(X, np.ndarray) else like(X, X) + 0.0


@dataclass(frozen=True)
class Rows:
    """Rows with their weights (None: all 1) and, for a regression, their targets."""

    X: Array
    weights: np.ndarray | None
    targets: Array | None = None  # (n, t)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __getitem__(self, where: slice) -> Rows:
        start, stop, _ = where.indices(len(self))
        return Rows(
            self.X[start:stop, :],
            None if self.weights is None else self.weights[where],
            None if self.targets is None else self.targets[start:stop, :],
        )

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


@dataclass(frozen=True, eq=False)
class Model(Cached):
    """A stream between two calls.

    Attributes
    ----------
    parts : Parts
        The chain. The kernel's numbers are fixed once the stream has begun.
    batch_size : int
        Rows in an internal block.
    n_features : int
        Width of the rows.
    dtype : str
        Type of the rows, "float32" or "float64".
    standardise : bool
        Whether rows are standardised with the start of the stream.
    standard : Standard, LinearMap or None
        The numbers for that, once known.
    state : State or None
        What was learned; None until enough rows have come to begin.
    waiting : Waiting
        Rows whose block is not complete.
    device : str or None
        Where rows of the host are sent to be computed with; None: they stay where they are.
    reduction : Wiener or None
        What makes a linear map of the start of the stream, in the place of standardising.
    """

    parts: Parts
    batch_size: int
    n_features: int
    dtype: str
    standardise: bool = False
    standard: Standard | LinearMap | None = None
    state: State | None = None
    waiting: Waiting = field(default_factory=Waiting)
    device: str | None = None
    reduction: Wiener | None = None

    @property
    def prepares(self) -> bool:
        """Whether rows are as the kernel sees them, or how they become so is known."""
        return self.standard is not None or not (self.standardise or self.reduction)

    @property
    def n_rows(self) -> int:
        """Rows seen, folded or waiting."""
        return len(self.waiting) + (0 if self.state is None else self.state.n_rows)

    def on(self, device: str | None) -> Model:
        """The model on a device of PyTorch, or (None) on the host; rows that wait stay there."""
        return dataclasses.replace(self, state=moved(self.state, device), device=device)

    def block(self, rows: Rows) -> tuple[Array, np.ndarray | None, Array | None]:
        """Rows, weights and targets as a fold wants them."""
        X = self.prepared(rows.X)
        if not self.parts.regress_inputs:
            targets = None if rows.targets is None else placed(rows.targets, self.device)
        else:
            # Rows that were mapped to fewer dimensions are wanted back as they came.
            targets = X if self.reduction is None else placed(rows.X, self.device)
        return X, rows.weights, targets

    def prepared(self, X: Array) -> Array:
        """Rows as the kernel sees them, where it sees them."""
        return placed(self.scaled(X), self.device)

    def scaled(self, X: Array) -> Array:
        """Rows in the units of the kernel; in float64 where a proof is wanted."""
        if self.parts.certify == "tight":
            X = to_float64(X)
        return X if self.standard is None else self.standard.apply(X)


def moved(value: Any, device: str | None) -> Any:
    """A value with its arrays on a device of PyTorch, or (None) on the host.

    What the annotations call ``Array`` moves, what they call ``np.ndarray`` lives on the host.
    """
    if isinstance(value, tuple):
        return tuple(moved(item, device) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value,
            **{
                f.name: moved(getattr(value, f.name), device)
                for f in dataclasses.fields(value)
                if f.init and "np.ndarray" not in str(f.type)
            },
        )
    if isinstance(value, np.ndarray) or is_foreign(value):
        return to_host(value) if device is None else placed(to_host(value), device)
    return value
