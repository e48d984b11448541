"""Ledger of squared residuals: fresh and stale parts, growth, forgetting, merging of streams.

A row φ(x) is held as its projection φ̂ on the span of the basis; the energy of the difference,
``ε(x) = k(x,x) − |z|²``, is known when the row is folded. While the basis stays, the missed parts
are orthogonal to everything that is held: they are *fresh*. When the basis grows, parts that were
missed before may lie inside the new span: they become *stale* and enter every bound under a square
root. When the basis loses directions, held energy is lost and becomes missed energy.

Write Φ for the mapped rows as columns, Φ̂ for what is held, P for the projection on the present
span, R = Φ − Φ̂ and G = PR, and κ_k(M) for the sum of the k largest eigenvalues of M. The rules keep
two invariants, for k = ∞ (the trace) always and for k = 1 … K where the ledger has K orders:

    (I1)  κ_k(GᵀG) ≤ stale_k          (I2)  κ_k(RᵀR) ≤ stale_k + fresh_k

Why they do is proved in docs/proofs.md, statements 2 to 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from kernelstream.serialization import stored


def _nothing() -> np.ndarray:
    return np.zeros(0)


@stored
@dataclass(frozen=True)
class Ledger:
    """Energies of a stream, all weighted and in float64.

    Attributes
    ----------
    energy : float
        Σ w k(x, x), the energy of everything seen.
    fresh : float
        Missed energy that is orthogonal to the present span.
    stale : float
        Bound on the missed energy that may lie inside the present span.
    fresh_orders, stale_orders : arrays of shape (K,)
        The same for the k largest directions together, k = 1 … K; empty unless asked for.
    stale_weight : float
        Total weight of the rows folded before the last growth of the span.
    stale_trace, stale_sum : float and array
        What was held of them then: Σ w |z|² and Σ w z.
    stale_scatter : array
        Σ w z zᵀ of them, where orders are kept; else empty.
    exact : float
        Energy of the rows that are points themselves: nothing of them is missed, ever.
    loose : float
        Energy of stale rows whose missed parts are known up to rounding only.
    complete : bool
        False once squared norm was lost that cannot be measured (iterative trackers keep no
        scatter), or a row had coordinates in float32, whose rounding errors have no useful bound.
    blocks : int
        Number of blocks that were added up.
    longest : int
        Rows in the longest of them.
    extent : float
        Largest squared norm of a point, as far as the kernel's rounding error depends on it.
    rounding : float
        Relative rounding error of the coordinates that the last change of basis carried along.

    Examples
    --------
    >>> account = Ledger().fold(energy=10.0, missed=2.0).grow(weight=5.0, trace=8.0)
    >>> account.stale, account.fresh
    (2.0, 0.0)
    """

    energy: Annotated[float, "not negative"] = 0.0
    fresh: Annotated[float, "not negative"] = 0.0
    stale: Annotated[float, "not negative"] = 0.0
    fresh_orders: Annotated[np.ndarray, "float64 (.orders)"] = field(default_factory=_nothing)
    stale_orders: Annotated[np.ndarray, "float64 (.orders)"] = field(default_factory=_nothing)
    stale_weight: Annotated[float, "not negative"] = 0.0
    stale_trace: Annotated[float, "not negative, or infinite"] = 0.0
    stale_sum: Annotated[np.ndarray, "float64 (<=rank)"] = field(default_factory=_nothing)
    stale_scatter: Annotated[np.ndarray, "float64 (.held, .held), or empty"] = field(
        default_factory=_nothing
    )
    exact: Annotated[float, "not negative"] = 0.0
    loose: Annotated[float, "not negative"] = 0.0
    complete: bool = True
    blocks: int = 0
    longest: int = 0
    extent: Annotated[float, "not negative"] = 0.0
    rounding: Annotated[float, "not negative"] = 0.0

    def fold(
        self,
        energy: float,
        missed: float,
        orders: np.ndarray | None = None,
        exact: float = 0.0,
    ) -> Ledger:
        """Enter rows: their energy Σ w k(x,x), what the basis misses of it, and κ_1 … κ_K of that.

        Without ``orders`` the trace stands for all of them. ``exact`` is the part of the energy
        whose rows became points. (Statement 2 of docs/proofs.md.)
        """
        # ε < 0 is rounding only; clipping it keeps the account an upper bound.
        missed = max(missed, 0.0)
        added = missed if orders is None else np.minimum(orders, missed)
        return replace(
            self,
            energy=self.energy + energy,
            fresh=self.fresh + missed,
            fresh_orders=self.fresh_orders + added,
            exact=self.exact + exact,
        )

    def grow(
        self,
        weight: float,
        trace: float = math.inf,
        total: np.ndarray | None = None,
        scatter: np.ndarray | None = None,
    ) -> Ledger:
        """Points were appended: everything missed so far may now lie inside the span.

        ``weight``, ``trace``, ``total`` and ``scatter`` are Σ w, Σ w |z|², Σ w z and Σ w z zᵀ of
        the rows so far. (Statement 3 of docs/proofs.md.)
        """
        return replace(
            self,
            stale=self.stale + self.fresh,
            stale_orders=self.stale_orders + self.fresh_orders,
            fresh=0.0,
            fresh_orders=0.0 * self.fresh_orders,
            stale_weight=max(weight, 0.0),
            stale_trace=trace,
            stale_sum=_nothing() if total is None else total,
            stale_scatter=_nothing() if scatter is None else scatter,
            loose=self.inexact,
        )

    def widen(self, missed: float) -> Ledger:
        """Allow for a missed energy that rounding hid."""
        return replace(self, fresh=self.fresh + missed, fresh_orders=self.fresh_orders + missed)

    def rebase(
        self,
        weight: float,
        loss: float | None,
        orders: np.ndarray | None = None,
        trace: float = math.inf,
        total: np.ndarray | None = None,
        scatter: np.ndarray | None = None,
        rounding: float = 0.0,
    ) -> Ledger:
        """Change the basis: append the new points, then drop the old.

        ``loss`` is tr S − tr TSTᵀ and ``orders`` are κ_k of the lost part. The cross term
        2√(stale·loss) is what remains of the triangle inequality: fresh parts are orthogonal to
        what is lost, stale parts need not be. (Statement 4 of docs/proofs.md.)
        """
        grown = self.grow(weight, trace, total, scatter)
        if loss is None:
            return replace(grown, complete=False)
        loss = max(loss, 0.0)
        lost = np.full(len(self.fresh_orders), loss) if orders is None else orders
        # The root of each factor: their product may leave the range of float64.
        cross = 2.0 * math.sqrt(grown.stale) * math.sqrt(loss)
        crosses = 2.0 * np.sqrt(grown.stale_orders) * np.sqrt(lost)
        return replace(
            grown,
            fresh=grown.fresh + loss + cross,
            fresh_orders=grown.fresh_orders + lost + crosses,
            rounding=rounding,
            exact=0.0,
            loose=0.0,
        )

    def decay(self, factor: float) -> Ledger:
        """Forget: every squared quantity shrinks by the same factor (statement 5)."""
        return replace(
            self,
            energy=self.energy * factor,
            fresh=self.fresh * factor,
            stale=self.stale * factor,
            fresh_orders=self.fresh_orders * factor,
            stale_orders=self.stale_orders * factor,
            stale_weight=self.stale_weight * factor,
            stale_trace=self.stale_trace * factor,
            stale_sum=self.stale_sum * factor,
            stale_scatter=self.stale_scatter * factor,
            exact=self.exact * factor,
            loose=self.loose * factor,
        )

    def window(self, energy: float, missed: float, n: int) -> Ledger:
        """Only the last n rows count, whose energies are added up anew in a basis that stays."""
        return replace(
            self,
            energy=energy,
            fresh=missed,
            fresh_orders=0.0 * self.fresh_orders + missed,
            exact=0.0,
            blocks=1,
            longest=n,
        )

    def merge(self, other: Ledger) -> Ledger:
        """Two streams in one basis: columns are put side by side, squares add (statement 5)."""
        return Ledger(
            energy=self.energy + other.energy,
            fresh=self.fresh + other.fresh,
            stale=self.stale + other.stale,
            fresh_orders=self.fresh_orders + other.fresh_orders,
            stale_orders=self.stale_orders + other.stale_orders,
            stale_weight=self.stale_weight + other.stale_weight,
            stale_trace=self.stale_trace + other.stale_trace,
            stale_sum=_added(self.stale_sum, other.stale_sum),
            stale_scatter=_added(self.stale_scatter, other.stale_scatter),
            exact=self.exact + other.exact,
            loose=self.loose + other.loose,
            complete=self.complete and other.complete,
            blocks=self.blocks + other.blocks,
            longest=max(self.longest, other.longest),
            extent=max(self.extent, other.extent),
            rounding=max(self.rounding, other.rounding),
        )

    def missed_by(self, k: int) -> tuple[float, float]:
        """Bounds (stale_k, fresh_k) on κ_k; the trace where this order is not kept."""
        if 1 <= k <= len(self.fresh_orders):
            return float(self.stale_orders[k - 1]), float(self.fresh_orders[k - 1])
        return self.stale, self.fresh

    @property
    def inexact(self) -> float:
        """Bound on the energy of the rows that did not become points, with its rounding.

        It is a difference of two sums, each of which is rounded as often as a block has rows, and
        three times a block: decay, and rows before and after the last new point.
        """
        rounded = (self.longest + 3 * self.blocks) * np.finfo(float).eps * self.energy
        return max(self.energy - self.exact, 0.0) + rounded

    @property
    def missed(self) -> float:
        """Bound on the whole missed energy, Σ w |φ(x) − φ̂(x)|²."""
        return self.stale + self.fresh


def _added(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a + b``, where a stream in which nothing is stale has no sum."""
    if len(a) == 0 or len(b) == 0:
        return a if len(b) == 0 else b
    return a + b
