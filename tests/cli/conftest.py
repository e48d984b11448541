"""Rows in a folder, and the commands run in this process, which costs no start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from kernelstream import load
from kernelstream.cli.app import app

NAMES = ["a", "b", "c"]
OPTIONS = ["--basis", "30", "--components", "3", "--gamma", "0.2"]
BAD = "a,b,c\n" + "1,2,3\n4,5,6\n" * 300 + "7,,9\n8,x,10\n" + "2,1,0\n" * 10


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(1500, 3)) * [1.0, 2.0, 0.5]


@pytest.fixture
def data(X: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the rows as Parquet and a text column beside them; it is where commands run."""
    table = pd.DataFrame(X, columns=NAMES).assign(id=[f"r{i}" for i in range(len(X))])
    table.to_parquet(tmp_path / "x.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: Any, code: int = 0, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    problem = result.exception
    if problem is not None and not isinstance(problem, SystemExit):
        raise problem
    assert result.exit_code == code, result.output
    return result


def outcome(*words: Any, **options: Any) -> dict[str, Any]:
    return json.loads(run(*words, "--json", **options).stdout)


def said(result: Result) -> str:
    return " ".join(result.stderr.split())


def fitted(*more: Any, output: str = "m.safetensors", source: str = "x.parquet") -> None:
    run("fit", source, "-o", output, "--force", *OPTIONS, *more)


def learned(path: Any) -> Any:
    """The estimator in a file; in that of a TableModel, the one that learned encoded rows."""
    model = load(path)
    return getattr(model, "estimator_", model)
