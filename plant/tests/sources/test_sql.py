"""Rows of queries: order, position, what is told; DuckDB, and PostgreSQL where there is one."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelstream.tables import SourceError
from kernelstream.tables.live import LiveRow, LiveRows

pytest.importorskip("duckdb", reason="needs duckdb")
from kernelstream.tables.feeds import open_address
from kernelstream_plant.sources.sql import has_order, without_password

INSTALLED = "/usr/lib/postgresql/*/bin"  # where Debian puts its programs


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
    parse = LiveRows(2, ["a", "b"], takes_missing=True, time_column="t")
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


def test_a_password_does_not_belong_into_an_address(days: Path) -> None:
    for wrong in ("postgresql://me:secret@host/db", "postgresql://host/db?password=secret"):
        with pytest.raises(SourceError, match="PGPASSWORD") as told:
            opened(ORDERED, None, wrong)
        assert "secret" not in str(told.value)


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    """The address of a PostgreSQL: that of KERNELSTREAM_POSTGRESQL, or one that is started here."""
    pytest.importorskip("adbc_driver_postgresql", reason="needs adbc-driver-postgresql")
    given = os.environ.get("KERNELSTREAM_POSTGRESQL")
    if given:
        yield given
        return
    places = [
        os.path.dirname(os.path.realpath(shutil.which("initdb") or "")),
        *glob.glob(INSTALLED),
    ]
    programs = next((p for p in places if os.path.exists(f"{p}/pg_isready")), None)
    if programs is None or sys.platform == "win32":
        pytest.skip("needs a PostgreSQL: apt-get install postgresql, or KERNELSTREAM_POSTGRESQL")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "secret"
        secret.write_text("a secret")
        user: dict[str, Any] = {}
        if os.getuid() == 0:  # it refuses to run as root
            user = {"user": "nobody", "group": "nogroup"}
            for path in (folder, secret):
                shutil.chown(path, **user)
        where = ("-D", f"{folder}/data")
        begin = [f"{programs}/initdb", *where, "-U", "press", "-A", "scram-sha-256"]
        subprocess.run(
            [*begin, "--pwfile", str(secret), "--no-sync"],
            check=True, capture_output=True, cwd=folder, **user,
        )  # fmt: skip
        server = subprocess.Popen(
            [
                *(f"{programs}/postgres", *where, "-F", "-k", folder, "-p", str(port)),
                *("-c", "listen_addresses=127.0.0.1"),
            ],
            stderr=subprocess.DEVNULL,
            cwd=folder,
            **user,
        )
        try:
            until = time.monotonic() + 30
            ready = [f"{programs}/pg_isready", "-h", "127.0.0.1", "-p", str(port)]
            while subprocess.run(ready, capture_output=True, check=False).returncode:
                assert time.monotonic() < until, "PostgreSQL does not answer"
                time.sleep(0.1)
            yield f"postgresql://press@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)


SERIES = (
    "sql:SELECT t, t * 0.5::float8 AS a, CASE WHEN t % 1000 = 0 THEN NULL ELSE 2::float8 END AS b "
    "FROM generate_series(1, 5000) t ORDER BY t"
)


@pytest.mark.slow
def test_postgresql(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a real server, on from a position; the password comes from the environment."""
    monkeypatch.setenv("PGPASSWORD", "a secret")
    feed = opened(SERIES, None, postgresql)
    seen = []
    for row in feed.rows():
        seen.append(row)
        if len(seen) == 4990:
            break
    place = feed.position()
    feed.close()
    again = opened(SERIES, place, postgresql)
    seen += list(again.rows())
    again.close()
    assert all(isinstance(row, LiveRow) for row in seen)
    assert [row.time for row in seen] == list(range(1, 5001))
    assert np.isnan(seen[999].x[1]) and seen[1000].x.tolist() == [500.5, 2.0]
    with pytest.raises(SourceError, match="The query cannot be answered"):
        opened("sql:SELECT nothing FROM nowhere ORDER BY t", None, postgresql)


@pytest.mark.slow
@pytest.mark.skipif(
    bool(os.environ.get("KERNELSTREAM_POSTGRESQL")), reason="that server has passwords of its own"
)
def test_postgresql_wants_the_password(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "guessed")
    with pytest.raises(SourceError, match="password authentication failed") as told:
        opened(SERIES, None, postgresql)
    assert "guessed" not in str(told.value)
