"""Free memory goes back to the system."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest

from kernelstream.tables.memory import give_back

PIECE, PIECES = 1 << 16, 1600  # bytes that the C library takes from its heap; 100 MB together


def resident() -> int:
    """Bytes of this process that are no part of a file."""
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"),
    reason="of the GNU C library",
)
def test_holes_between_arrays_are_given_back() -> None:
    arrays = [np.ones(PIECE // 8) for _ in range(PIECES)]
    kept = arrays[::50]  # what is above a hole keeps it in the process
    full = resident()
    del arrays
    give_back()
    assert full - resident() > 0.8 * PIECE * PIECES
    assert all(array.sum() == PIECE // 8 for array in kept)


def test_where_the_system_has_no_such_function_nothing_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: pytest.fail("asked for a library"))
    give_back()
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    give_back()
