"""What goes wrong is said in words, and to machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelstream.cli.failures import DATA
from kernelstream.sources import Source, SourceError
from tests.cli.conftest import run


def test_errors_for_machines(data: Path) -> None:
    result = run("fit", "no.csv", "-o", "m.safetensors", "--json", code=DATA)
    assert json.loads(result.stderr) == {
        "error": "There is no file or folder 'no.csv'.",
        "exit_code": DATA,
    }


def test_a_closed_standard_input_matters_only_to_those_who_read_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)  # as Python has it where the shell says <&-
    assert len(Source("x.parquet").names) == 3
    with pytest.raises(SourceError, match="standard input is closed"):
        Source("-")
