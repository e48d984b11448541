"""What the library returns prints in a few lines, however much it holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream import KernelMonitor, StreamingKernelPCA
from kernelstream.cli import report
from kernelstream.papers import OnlineKernelPCA

MOST = 450  # letters


def records() -> dict[str, Any]:
    X = np.random.default_rng(0).normal(size=(300, 12))
    model = StreamingKernelPCA(10, basis=40, random_state=0).fit(X)
    strange = X[:2] + 5.0 * (np.arange(12) == 4)
    monitor = KernelMonitor(basis=40, random_state=0).fit(X)
    judged = monitor.update_many(np.vstack([X[:60], X[:60] + 3.0]))
    effect = model.explain_components()[0]
    return {
        "certificate": model.certificate_,
        "statement": model.certificate_.statistical,
        "stream": model.stream_,
        "component": effect,
        "column": effect.columns[0],
        "row": model.explain(strange)[0],
        "pre-images": model.inverse_transform(model.transform(X), return_report=True),
        "records": judged,
        "record": judged[-1],
        "event": monitor.event_,
        "drift": monitor.drift_,
        "contributions": judged[-1].contributions,
        "observed": report.observe(model, [(X, None)]),
        "bounds": OnlineKernelPCA(2).fit(X[:60]).bounds(),
    }


def test_records_print_short() -> None:
    pytest.importorskip("bokeh")
    for name, record in records().items():
        assert record is not None, name
        assert 10 < len(repr(record)) <= MOST, f"{name}: {record!r}"
