"""The one decorator for compiled passes.

Numba is imported when a pass is first called, not when the package is imported: users of the
covariance tracker never pay for it. Passes see numbers and arrays only; anything else would be
compiled again in every process. ``NUMBA_DISABLE_JIT=1`` runs the same code as plain Python.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``function`` on its first call and keep the machine code in Numba's cache."""
    fast: Callable[..., Any] | None = None

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        nonlocal fast
        if fast is None:
            import numba

            # Sums may be taken in any order and fused with products: that is what lets inner
            # loops use vector registers. Nothing else of IEEE arithmetic is given up.
            fast = numba.njit(cache=True, fastmath={"reassoc", "contract"})(function)
        return fast(*arguments)

    return call
