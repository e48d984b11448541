"""The list of rows that were passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelstream.cli.failures import CommandError
from kernelstream.cli.rejects import Rejects
from kernelstream.tables import BadRow


def test_the_list_of_rejects_is_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    """Rows that were listed after the last checkpoint are met again: they must not stand twice."""
    path = tmp_path / "rejects.ndjson"
    rows = [BadRow("x.csv", i, "a", "the value is missing", "") for i in (3, 7, 9)]
    rejects = Rejects(path, 0)
    rejects.add(tuple(rows[:2]))
    at_checkpoint = 2
    rejects.add(tuple(rows[2:]))
    rejects.close()
    whole = path.read_bytes()
    again = Rejects(path, at_checkpoint)
    again.add(tuple(rows[2:]))
    again.close()
    assert path.read_bytes() == whole and whole.count(b"\n") == 3
    path.unlink()
    with pytest.raises(CommandError, match="not the list of rejects"):
        Rejects(path, at_checkpoint)
