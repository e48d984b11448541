"""Progress of long calls: true shares now and then, and nothing for those who do not ask."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA
from kernelstream.arrays import progress


@pytest.fixture
def no_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a script that set up none: pytest has handlers of its own."""
    monkeypatch.setattr(progress.logger, "hasHandlers", lambda: False)
    yield


def test_verbose_is_seen_without_logging(
    no_logging: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "LOG_EVERY", 0.0)
    X = np.random.default_rng(0).normal(size=(3000, 3))
    StreamingKernelPCA(2, basis=20, random_state=0, verbose=True).fit(X)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "StreamingKernelPCA: 3000 rows seen"
    assert lines[-2].startswith("StreamingKernelPCA.fit: 100%, 0:00:00 left, 3,000 rows")
    StreamingKernelPCA(2, basis=20, random_state=0).fit(X)
    assert capsys.readouterr().err == ""


def test_verbose_goes_to_the_logger_where_there_is_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kernelstream")
    StreamingKernelPCA(2, basis=20, verbose=True).partial_fit(np.eye(30))
    assert caplog.messages == ["StreamingKernelPCA: 30 rows seen"]


def test_a_line_is_drawn_anew_where_that_can_be_done(
    no_logging: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_is_terminal", lambda: True)
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with progress.shown(True, "work", 10):
        progress.advance(4)
    drawn = capsys.readouterr().err
    assert drawn.startswith("\rwork: 40%, ") and drawn.endswith("\r\033[K")
    progress.advance(4)
    assert capsys.readouterr().err == ""


def test_time_left() -> None:
    line = progress.Line("work", 100)
    line.rows = 25
    assert line.text(10.0) == "work: 25%, 0:00:30 left, 25 rows, 2 rows/s"
    unknown = progress.Line("work", None)
    unknown.rows = 25
    assert unknown.text(10.0) == "work: 25 rows, 2 rows/s"


def test_a_share_tells_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run that goes on in the middle, by what was done since."""
    now, share = [100.0], [0.5]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    line = progress.Line("pass 1", lambda: share[0])
    line(10)
    assert line.text(0.0).startswith("pass 1: 50%, 10 rows")
    now[0], share[0] = 110.0, 0.6
    line(10)
    assert line.text(10.0) == "pass 1: 60%, 0:00:40 left, 20 rows, 2 rows/s"
