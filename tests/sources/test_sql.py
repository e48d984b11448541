"""Rows of queries: order, position, what is told; DuckDB, and PostgreSQL where there is one."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelstream.sources import SourceError
from kernelstream.sources.live import LiveRow, LiveRows

pytest.importorskip("duckdb", reason="needs duckdb")
from kernelstream.sources.feeds import open_address
from kernelstream.sources.sql import has_order, without_password


@pytest.fixture
def days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for day in range(2):
        table = pd.DataFrame({"t": np.arange(3000) + 3000 * day, "a": 1.0, "b": 2.0})
        table["a"] = table["t"] * 0.5
        table.loc[5, "b"] = None
        table.sample(frac=1, random_state=day).to_parquet(f"day{day}.parquet")
    return tmp_path


def opened(query: str, position: Any = None, database: str | None = None) -> Any:
    parse = LiveRows(io.BytesIO(), 2, ["a", "b"], takes_missing=True, time_column="t")
    return open_address(query, parse, position, database=database)


ORDERED = "sql:SELECT * FROM 'day*.parquet' ORDER BY t"


def test_rows_in_their_order_and_on_from_a_position(days: Path) -> None:
    feed = opened(ORDERED)
    seen = []
    for row in feed.rows():
        seen.append(row)
        if len(seen) == 2500:
            break
    place = feed.position()
    feed.close()
    assert place == {"query": ORDERED[4:], "row": 2500}
    again = opened(ORDERED, place)
    seen += list(again.rows())
    again.close()
    assert [row.time for row in seen] == list(range(6000))
    assert np.isnan(seen[5].x[1]) and seen[7].x.tolist() == [3.5, 2.0]


def test_a_query_without_order_is_told(days: Path) -> None:
    feed = opened("sql:SELECT * FROM 'day0.parquet'")
    told: list[str] = []
    feed.tell = told.append
    assert len(list(feed.rows())) == 3000
    assert feed.position() is None and "no ORDER BY" in told[0]
    with pytest.raises(SourceError, match="cannot be gone on with after row 7"):
        opened("sql:SELECT 1 AS a", {"query": "SELECT 1 AS a", "row": 7})
    with pytest.raises(SourceError, match="another query"):
        opened(ORDERED, {"query": "SELECT 2", "row": 7})


def test_what_cannot_be_answered(days: Path) -> None:
    with pytest.raises(SourceError, match="The query cannot be answered"):
        opened("sql:SELECT nothing FROM nowhere ORDER BY t")
    assert without_password("a://b:c@d", None) == "a://b:***@d"


@pytest.mark.parametrize(
    ("query", "ordered"),
    [
        ("select * from x order\n by t desc", True),
        ("select * from (select * from x order by t) y", False),
        ("select row_number() over (order by t) from x", False),
        ("select 1 -- order by t", False),
    ],
)
def test_order(query: str, ordered: bool) -> None:
    assert has_order(query) is ordered


@pytest.mark.slow
def test_postgresql() -> None:
    """With a server whose address is in KERNELSTREAM_POSTGRESQL; CONTRIBUTING.md has one."""
    address = os.environ.get("KERNELSTREAM_POSTGRESQL")
    if not address:
        pytest.skip("needs a PostgreSQL, named by KERNELSTREAM_POSTGRESQL")
    pytest.importorskip("adbc_driver_postgresql", reason="needs adbc-driver-postgresql")
    query = (
        "sql:SELECT t, t * 0.5::float8 AS a, 2.0::float8 AS b FROM generate_series(1, 5000) t "
        "ORDER BY t"
    )
    feed = opened(query, {"query": query[4:], "row": 4990}, address)
    rows = list(feed.rows())
    feed.close()
    assert all(isinstance(row, LiveRow) for row in rows)
    assert [row.time for row in rows] == list(range(4991, 5001))
