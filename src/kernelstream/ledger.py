"""What the basis missed, row by row: the account behind the error certificate.

A row φ(x) is held as its projection φ̂ on the span of the basis; the energy of the difference,
``ε(x) = k(x,x) − |z|²``, is known when the row is folded. While the basis stays, the missed parts
are orthogonal to everything that is held: they are *fresh*. When the basis grows, parts that were
missed before may lie inside the new span: they become *stale* and enter every bound under a square
root. When the basis loses directions, held energy is lost and becomes missed energy.

The rules are the ``k = ∞`` rows of the table in section 3 of the certificate's derivation
(``docs``: "The error certificate"): |G|² ≤ stale and |Φ − Φ̂|² ≤ stale + fresh always hold, where G
is the part of the error that lies inside the present span.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


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
    stale_weight : float
        Total weight of the rows folded before the last growth of the span.
    complete : bool
        False once energy was lost that nobody could measure (iterative trackers keep no scatter).

    Examples
    --------
    >>> account = Ledger().fold(energy=10.0, missed=2.0).grow(weight=5.0)
    >>> account.stale, account.fresh
    (2.0, 0.0)
    """

    energy: float = 0.0
    fresh: float = 0.0
    stale: float = 0.0
    stale_weight: float = 0.0
    complete: bool = True

    def fold(self, energy: float, missed: float) -> Ledger:
        """Enter rows with their energy Σ w k(x,x) and what the basis misses of it."""
        # ε < 0 is rounding only; clipping it keeps the account an upper bound.
        return replace(self, energy=self.energy + energy, fresh=self.fresh + max(missed, 0.0))

    def grow(self, weight: float) -> Ledger:
        """Points were appended: everything missed so far may now lie inside the span."""
        return replace(
            self, stale=self.stale + self.fresh, fresh=0.0, stale_weight=max(weight, 0.0)
        )

    def rebase(self, weight: float, loss: float | None) -> Ledger:
        """Change the basis (append the new points, then drop the old): ``loss`` = tr S − tr TSTᵀ.

        The cross term 2√(stale·loss) is what remains of the triangle inequality: fresh parts are
        orthogonal to what is lost, stale parts need not be.
        """
        grown = self.grow(weight)
        if loss is None:
            return replace(grown, complete=False)
        loss = max(loss, 0.0)
        cross = 2.0 * math.sqrt(grown.stale) * math.sqrt(loss)  # the product itself may underflow
        return replace(grown, fresh=grown.fresh + loss + cross)

    def decay(self, factor: float) -> Ledger:
        """Forget: every squared quantity shrinks by the same factor."""
        return replace(
            self,
            energy=self.energy * factor,
            fresh=self.fresh * factor,
            stale=self.stale * factor,
            stale_weight=self.stale_weight * factor,
        )

    @property
    def missed(self) -> float:
        """Bound on the whole missed energy, Σ w |φ(x) − φ̂(x)|²."""
        return self.stale + self.fresh
