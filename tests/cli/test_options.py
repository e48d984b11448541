"""Options as text."""

from __future__ import annotations

import pytest
import typer

from kernelstream.cli.failures import USAGE, CommandError
from kernelstream.cli.options import seconds
from kernelstream.cli.reporting import height_and_width


def test_durations() -> None:
    assert [seconds(t) for t in ("60s", "5m", "1.5h", "2")] == [60, 300, 5400, 2]
    for text in ("soon", "-1s", "1.2.3s", "5d", ""):
        with pytest.raises(typer.BadParameter, match="write 60s, 5m or 1h"):
            seconds(text)


def test_sizes_of_images() -> None:
    assert height_and_width("28 x 14") == (28, 14)
    with pytest.raises(CommandError, match="is no image size") as failure:
        height_and_width("1x" + "1" * 5000)
    assert failure.value.code == USAGE
