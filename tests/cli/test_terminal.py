"""Progress where there is no terminal: lines, of all passes, with the time left."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelstream.cli import terminal
from tests.cli.conftest import OPTIONS, run, said


def test_lines_without_a_terminal(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "LOG_EVERY", 0.0)
    words = said(run("fit", "x.parquet", "-o", "m.safetensors", *OPTIONS))
    # the first pass keeps some rows, which takes less time than the second
    assert "pass 1 of 2: 20%, " in words and "pass 2 of 2: 100%, 0:00:00 left, 1,500 rows" in words
    assert said(run("fit", "x.parquet", "-o", "m.safetensors", *OPTIONS, "-q", "--force")) == ""


def test_a_short_run_prints_no_progress(data: Path) -> None:
    assert "rows/s" not in said(run("fit", "x.parquet", "-o", "m.safetensors", *OPTIONS))
