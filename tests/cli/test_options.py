"""Options as text."""

from __future__ import annotations

from kernelstream.cli.options import seconds


def test_durations() -> None:
    assert [seconds(t) for t in ("60s", "5m", "1.5h", "2", None)] == [60, 300, 5400, 2, None]
