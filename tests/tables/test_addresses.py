"""An address as a source: blocks, bad rows, limits, and where the next run goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

from kernelstream.tables import (
    BadRowError,
    Connection,
    LiveRow,
    LiveRows,
    Schema,
    Source,
    SourceError,
    feeds,
    files,
    is_address,
)

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
    assert source.names == ("a", "b")
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


def test_an_address_stands_alone(made: list[Scripted]) -> None:
    with pytest.raises(SourceError, match="An address stands alone"):
        Source([ADDRESS, "sql:SELECT 1"])


def test_rows_have_to_end_unless_there_is_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []

    def opened(address: str, parse: LiveRows, position: Any, **options: Any) -> Scripted:
        asked.append(options["ends"])
        return Scripted(parse, position)

    monkeypatch.setattr(feeds, "open_address", opened)
    Source(ADDRESS)
    Source(ADDRESS, limit=2)
    assert asked == [True, False]


def installed(monkeypatch: pytest.MonkeyPatch, **targets: str) -> None:
    """Entry points of ``kernelstream.sources``, and no others."""

    def found(group: str, name: str) -> list[EntryPoint]:
        assert group == files.SOURCES
        return [EntryPoint(name, targets[name], group)] if name in targets else []

    monkeypatch.setattr(files, "entry_points", found)
    monkeypatch.setattr(feeds, "entry_points", found)


def open_scripted(address: str, parse: LiveRows, position: Any, **options: Any) -> Scripted:
    assert address.startswith("wire:")
    return Scripted(parse, position)


def test_another_distribution_opens_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one of a scheme that the library does not know."""
    installed(monkeypatch, wire=f"{__name__}:open_scripted")
    assert is_address("wire:7") and not is_address("wires:7") and is_address("SQL:SELECT 1")
    assert sum(map(len, Source("wire:7", on_bad_rows="skip"))) == 8


@pytest.mark.parametrize(
    ("address", "extra"), [("kafka://broker/plant", "kafka"), ("mqtts://host/plant/+", "mqtt")]
)
def test_without_the_plant_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch, address: str, extra: str
) -> None:
    installed(monkeypatch)
    with pytest.raises(SourceError) as problem:
        Source(address)
    scheme = address.partition(":")[0]
    remedy = f"pip install 'kernelstream-plant[{extra}]'"
    assert str(problem.value) == f"{scheme}: needs the package kernelstream-plant: {remedy}"


def test_names_of_a_model_are_those_of_tags(made: list[Scripted]) -> None:
    Source("mqtt://host/x", schema=Schema.of_numbers(["b", "a"]), keep=["time"], limit=1)
    assert made[0].parse.names == ("b", "a")
    (block,) = Source("sql:SELECT 1", schema=Schema.of_numbers(["b", "a"]), keep=["time"], limit=3)
    assert (
        block.X.tolist()[2] == [-2.0, 2.0]
        and block.carried.column("time").to_pylist() == [None] * 3
    )
