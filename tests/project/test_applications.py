"""The table of what applications reach."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import applications, monitor
from benchmarks.applications import Reached, Row


def test_the_table_says_what_was_reached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def measured(words: str, enough: bool | None) -> Row:
        return Row(words, "1", "2", lambda data: Reached(f"{words} {data}", enough))

    made_up = SimpleNamespace(APPLICATIONS=(measured("good", True), measured("left out", None)))
    monkeypatch.setattr(applications, "MODULES", ("a",))
    monkeypatch.setattr(applications, "import_module", lambda name: made_up)
    assert applications.main(["--data", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == [
        f"| good | 1 | 2 | good {tmp_path} | yes |",
        f"| left out | 1 | 2 | left out {tmp_path} | – |",
    ]
    made_up.APPLICATIONS = (measured("good", True), measured("Bad", False))
    assert applications.main(["--only", "bad"]) == 1
    assert capsys.readouterr().out.splitlines()[2:] == ["| Bad | 1 | 2 | Bad None | **no** |"]


def test_every_module_has_rows() -> None:
    names = [row.name for row in applications.rows()]
    assert len(names) == len(set(names)) >= 5
    assert monitor.tennessee(None).enough is None
    assert np.isfinite(monitor.three_tanks(30, 0)).all()
