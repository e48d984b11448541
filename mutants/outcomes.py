"""A plugin of pytest that leaves out tests by name, and writes down what failed and the times.

``MUTANTS_LEFT_OUT`` is a file with the names of tests that are not run: those that fail on the
unchanged code, on a machine where packages are missing, and those that take too long;
``MUTANTS_OUTCOMES`` is the file to write.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

_failed: list[str] = []
_broken: list[str] = []
_seconds: dict[str, float] = {}
_began = time.perf_counter()


def pytest_configure(config: Any) -> None:
    """Import the module whose examples are asked for, as everybody else does.

    Pytest would import its package first and with it the module, and then the file once more: its
    classes would be there twice.
    """
    for argument in config.args:
        _, inside, path = argument.rpartition("/src/")
        if inside:
            importlib.import_module(path.removesuffix(".py").replace("/", "."))


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    path = os.environ.get("MUTANTS_LEFT_OUT")
    if path is None:
        return
    left_out = set(json.loads(Path(path).read_text(encoding="utf-8")))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.failed:
        _failed.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _broken.append(report.nodeid)


def pytest_sessionfinish() -> None:
    took = time.perf_counter() - _began
    outcome = {"failed": _failed, "broken": _broken, "seconds": took, "tests": _seconds}
    Path(os.environ["MUTANTS_OUTCOMES"]).write_text(json.dumps(outcome), encoding="utf-8")
