"""Numba compilation of sequential passes: lazy import, disk cache, fallback to plain Python.

Numba is imported when a pass is first called, not when the package is imported: users of the
covariance tracker never pay for it. Passes see numbers and arrays only; anything else would be
compiled again in every process. ``NUMBA_DISABLE_JIT=1`` runs the same code as plain Python, and so
does a machine without Numba, with a warning. Machine code is kept in Numba's cache where one can be
written and read, and is made anew in each process where not (a container that is read-only, a
service without a home, a full disk).
"""

from __future__ import annotations

import functools
import pickle
import warnings
from collections.abc import Callable
from typing import Any

# Sums may be taken in any order and fused with products: that is what lets inner loops use vector
# registers. Nothing else of IEEE arithmetic is given up.
_FAST_MATH = {"reassoc", "contract"}

# Compiled functions and their Python functions: since they may call each other, Numba has to know
# all of them before it compiles one.
_functions: list[tuple[Callable[..., Any], Callable[..., Any]]] = []


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``function`` on its first call and keep the machine code where that is possible.

    Parameters
    ----------
    function : callable
        Function of numbers and arrays that Numba can compile. It may call other compiled functions
        of the same file, whose machine code becomes part of its own. (Those of other files as well,
        but Numba's cache would not notice when they change.)

    Returns
    -------
    callable
        The function, which is compiled when it is first called.
    """
    fast: Callable[..., Any] | None = None

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        nonlocal fast
        try:
            fast = fast or _compile(function, cache=True)
            return fast(*arguments)
        except (RuntimeError, OSError, EOFError, pickle.UnpicklingError):
            # From the cache ("no locator available"), a folder that cannot be written, a full disk
            # or a file that another process left half written; passes, arithmetic on arrays, raise
            # none of these. The pass has not run: its arguments are as they were.
            fast = _compile(function, cache=False)
            return fast(*arguments)

    _functions.append((call, function))
    return call


def _compile(function: Callable[..., Any], cache: bool) -> Callable[..., Any]:
    numba = _numba()
    if numba is None:
        return function
    for call, inner in tuple(_functions):
        _make_callable(call, inner)
    return numba.njit(cache=cache, fastmath=_FAST_MATH)(function)


@functools.cache
def _make_callable(call: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Let compiled functions call this one: its machine code becomes part of theirs."""
    options = {"fastmath": _FAST_MATH, "forceinline": True}
    _numba().extending.overload(call, options, strict=False)(lambda *types: function)


@functools.cache
def _numba() -> Any:
    """Numba, or None with a warning where it is missing or does not know this Python."""
    try:
        import numba
        import numba.extending
    except (ImportError, OSError) as problem:  # OSError: its library of LLVM cannot be loaded
        warnings.warn(
            f"Numba cannot be imported ({problem}). Sequential passes (trackers hebbian, "
            "subset_hebbian, lms and rls, and the rows of a monitor) run as plain Python: results "
            "are the same up to rounding, these passes tens to hundreds of times slower. To have "
            "them compiled: pip install numba.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return numba
