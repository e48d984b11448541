"""An address as a source: blocks, bad rows, limits, and where the next run goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelstream import StreamingKernelPCA
from kernelstream.tables import (
    BadRowError,
    Connection,
    Source,
    SourceError,
    TableModel,
    feeds,
)
from kernelstream.tables.live import LiveRow, LiveRows

ADDRESS = "kafka://broker/plant"
SCRIPT = [
    None,
    *({"a": float(i), "b": -float(i), "id": f"r{i}"} for i in range(3)),
    None,  # a pause
    "plant[0] at 3: not a JSON object",
    *({"a": float(i), "b": -float(i), "id": f"r{i}"} for i in range(3, 8)),
    None,
]


class Scripted:
    """A feed that says what it was told to say."""

    def __init__(self, parse: LiveRows, position: dict[str, Any] | None):
        self.parse, self.at = parse, 0 if position is None else int(position["at"])
        self.committed: list[Any] = []
        self.closed = False
        self.tell: Callable[[str], None] = lambda text: None

    def rows(self) -> Iterator[LiveRow | str | None]:
        for item in SCRIPT[self.at :]:
            self.at += 1
            yield self.parse.row_of(item) if isinstance(item, dict) else item

    def position(self) -> dict[str, Any]:
        return {"at": self.at}

    def commit(self, position: Any) -> None:
        self.committed.append(position)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Scripted]:
    """The feeds that are opened, whatever the address is."""
    feeds_made: list[Scripted] = []

    def opened(address: str, parse: LiveRows, position: Any, **options: Any) -> Scripted:
        feeds_made.append(Scripted(parse, position))
        return feeds_made[-1]

    monkeypatch.setattr(feeds, "open_address", opened)
    return feeds_made


def test_a_pause_ends_a_block_and_bad_rows_are_named(made: list[Scripted]) -> None:
    source = Source(ADDRESS, keep=["id"], on_bad_rows="skip")
    assert source.names == ("a", "b") and source.left_out == ("id",)
    first, second = source
    assert first.X[:, 0].tolist() == [0, 1, 2] and second.X[:, 0].tolist() == [3, 4, 5, 6, 7]
    assert second.carried.column("id").to_pylist() == ["r3", "r4", "r5", "r6", "r7"]
    (bad,) = second.bad
    assert (bad.file, bad.row, bad.reason) == (ADDRESS, 4, "plant[0] at 3: not a JSON object")
    with pytest.raises(BadRowError, match=r"plant\[0\] at 3"):
        list(Source(ADDRESS))
    with pytest.raises(SourceError, match="only once"):
        list(source)


def test_the_next_source_goes_on_after_the_last_row(made: list[Scripted]) -> None:
    """Also where a limit has cut a block: what was read and not learned comes again."""
    source = Source(ADDRESS, on_bad_rows="skip", limit=5)
    seen = list(source)
    place = source.place(seen[-1].end)
    assert sum(map(len, seen)) == 5 and place is not None
    source.commit(place)
    source.close()
    assert made[0].committed == [place] and made[0].closed
    rest = Source(ADDRESS, on_bad_rows="skip", connection=Connection(position=place))
    rows = np.concatenate([block.X for block in [*seen, *rest]])
    assert rows[:, 0].tolist() == list(range(8))
    with pytest.raises(SourceError, match="has no row, or none after"):
        Source(ADDRESS, connection=Connection(position={"at": len(SCRIPT)}))


def test_what_has_no_end_wants_a_limit(made: list[Scripted]) -> None:
    for address in ("mqtt://host/plant/+", "opcua://host:4840"):
        with pytest.raises(SourceError, match="has no end: say with --limit"):
            Source(address, columns=["a", "b"])
        assert sum(map(len, Source(address, columns=["a", "b"], limit=2))) == 2
    with pytest.raises(SourceError, match="An address stands alone"):
        Source([ADDRESS, "sql:SELECT 1"])


def test_names_of_a_model_are_those_of_tags(made: list[Scripted]) -> None:
    Source("mqtt://host/x", features=["b", "a"], keep=["time"], limit=1)
    assert made[0].parse.names == ("b", "a")
    (block,) = Source("sql:SELECT 1", features=["b", "a"], keep=["time"], limit=3)
    assert (
        block.X.tolist()[2] == [-2.0, 2.0]
        and block.carried.column("time").to_pylist() == [None] * 3
    )


def test_a_query_is_learned_as_its_rows_are(tmp_path: Path) -> None:
    """In Python: ``fit`` and ``partial_fit`` of a source of any kind."""
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
