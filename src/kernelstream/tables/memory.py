"""Release of free heap memory to the operating system (malloc trim, Arrow pool)."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Give free memory back to the system, as far as the C library and Arrow hold it.

    Arrays of many sizes leave holes when they go, which the GNU C library keeps, and Arrow keeps
    what it has read with. Takes milliseconds: worth it between two passes over the rows, whose
    arrays are not alike. Where there is no such function, nothing happens.

    Examples
    --------
    >>> from kernelstream.tables.memory import give_back
    >>> give_back()
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
