"""Addresses as sources of the library: an end, and the entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kernelstream import StreamingKernelPCA
from kernelstream.tables import Connection, Source, SourceError, TableModel
from kernelstream.tables.files import SCHEMES


def test_every_scheme_that_the_library_names_has_an_entry_point() -> None:
    assert {entry.name for entry in entry_points(group="kernelstream.sources")} == set(SCHEMES)


def test_what_has_no_end_wants_a_limit() -> None:
    pytest.importorskip("paho.mqtt", reason="needs paho-mqtt")
    pytest.importorskip("asyncua", reason="needs asyncua")
    for address in ("mqtt://host/plant/+", "opcua://host:4840"):
        with pytest.raises(SourceError, match="has no end: say with --limit"):
            Source(address, columns=["a", "b"])


def test_a_query_is_learned_as_its_rows_are(tmp_path: Path) -> None:
    """In Python: a ``TableModel`` of a source of any kind, and ``partial_fit`` of its blocks."""
    pytest.importorskip("duckdb", reason="needs duckdb")
    X = np.random.default_rng(0).normal(size=(1200, 3))
    table = pd.DataFrame(X, columns=list("abc"))
    table.insert(0, "t", np.arange(1200))
    table.sample(frac=1, random_state=0).to_parquet(tmp_path / "rows.parquet")
    query = f"sql:SELECT a, b, c FROM '{tmp_path}/rows.parquet' ORDER BY t"
    model = StreamingKernelPCA(2, basis=30, gamma=0.3, random_state=0)
    for block in Source(query, connection=Connection()):
        model.partial_fit(block.X)
    plain = StreamingKernelPCA(2, basis=30, gamma=0.3, random_state=0).partial_fit(X)
    assert np.array_equal(model.dual_coef_, plain.dual_coef_)
    fitted = TableModel(StreamingKernelPCA(2, basis=30, gamma=0.3, random_state=0)).fit(query)
    assert fitted.estimator_.n_samples_seen_ == 1200
    assert list(fitted.feature_names_in_) == ["a", "b", "c"]
