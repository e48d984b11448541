"""Options as text."""

from __future__ import annotations

import pytest

from kernelstream.cli.failures import USAGE, CommandError
from kernelstream.cli.options import seconds, whole_number
from kernelstream.cli.reporting import height_and_width


def test_durations() -> None:
    assert [seconds(t) for t in ("60s", "5m", "1.5h", "2", None)] == [60, 300, 5400, 2, None]


def test_numbers_that_python_does_not_read() -> None:
    assert whole_number("0300", "--basis") == 300
    assert height_and_width("28 x 14") == (28, 14)
    for read in (
        lambda: whole_number("1" * 5000, "--basis"),
        lambda: height_and_width("1x" + "1" * 5000),
    ):
        with pytest.raises(CommandError, match="a number of 5000 digits") as failure:
            read()
        assert failure.value.code == USAGE
