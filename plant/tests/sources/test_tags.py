"""The join of tags, alone: last value, grid, tolerance, late and dead tags."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernelstream.tables import SourceError
from kernelstream_plant.sources.tags import LONGEST_GAP, TagJoin, join_of


def joined(join: TagJoin, now: float | None = None) -> list[tuple[float, list[float]]]:
    return [(at, list(row.values())) for at, row in join.rows(now)]


def test_the_last_value_before_each_time_of_the_grid() -> None:
    join = TagJoin(["a", "b"], interval=1.0, tolerance=5.0)
    for at, value in ((0.1, 1.0), (0.9, 2.0), (1.0, 3.0), (1.5, 4.0), (3.2, 5.0)):
        join.put("a", value, at)
    join.put("b", 7.0, 0.5)
    assert joined(join) == [(1.0, [3.0, 7.0]), (2.0, [4.0, 7.0]), (3.0, [4.0, 7.0])]
    assert joined(join) == []


def test_the_rows_do_not_depend_on_how_values_come_together() -> None:
    rng = np.random.default_rng(0)
    values = [
        (name, float(v), float(at))
        for name in "abc"
        for at, v in zip(np.cumsum(rng.exponential(0.7, 200)), rng.normal(size=200), strict=True)
    ]
    values.sort(key=lambda entry: entry[2])
    at_once, one_by_one = (TagJoin("abc", interval=1.0, tolerance=3.0) for _ in range(2))
    for entry in values:
        at_once.put(*entry)
    rows = list(at_once.rows())
    singly = []
    for entry in values:
        one_by_one.put(*entry)
        singly += list(one_by_one.rows())
    np.testing.assert_equal(
        [list(r.values()) for _, r in rows], [list(r.values()) for _, r in singly]
    )
    # straight from the definition
    for at, row in rows:
        for name, value in row.items():
            before = [(t, v) for n, v, t in values if n == name and t <= at]
            expected = before[-1][1] if before and at - before[-1][0] <= 3.0 else math.nan
            assert value == expected or (math.isnan(value) and math.isnan(expected))


def test_an_old_value_is_missing_and_a_dead_tag_is_named_once() -> None:
    told: list[str] = []
    join = TagJoin(["a", "b"], interval=1.0, tolerance=2.0, dead=4.0, tell=told.append)
    join.put("b", 1.0, 0.5)
    for at in np.arange(0.5, 12.0):
        join.put("a", at, at)
    rows = joined(join)
    assert [math.isnan(row[1]) for _, row in rows] == [False] * 2 + [True] * 9
    assert told == ["b has sent nothing for 4 s"]
    join.put("b", 2.0, 12.1)
    join.put("a", 0.0, 13.5)
    assert joined(join)[-1] == (13.0, [11.5, 2.0])
    assert told[1:] == ["b is back"]


def test_late_values_are_counted_and_patience_waits_for_them() -> None:
    told: list[str] = []
    hasty = TagJoin(["a"], 1.0, 5.0, tell=told.append)
    patient = TagJoin(["a"], 1.0, 5.0, patience=2.0, tell=told.append)
    seen = []
    for join in (hasty, patient):
        for at, value in ((0.5, 1.0), (2.5, 2.0)):
            join.put("a", value, at)
        rows = joined(join)
        join.put("a", 9.0, 1.2)
        join.put("a", 3.0, 6.0)
        seen.append(rows + joined(join))
        join.put("a", 9.0, 1.3)
    assert hasty.late == 2 and patient.late == 1
    assert len(told) == 2 and told[0].startswith("a: a value of 1.8 s ago came after its row")
    assert seen[0][1] == (2.0, [1.0]) and seen[1][1] == (2.0, [9.0])


def test_the_clock_makes_rows_where_nothing_comes() -> None:
    join = TagJoin(["a"], 1.0, tolerance=2.0)
    assert joined(join, now=100.0) == []  # before the first value there is no grid
    join.put("a", 1.0, 0.5)
    rows = joined(join, now=4.5)
    assert [at for at, _ in rows] == [1.0, 2.0, 3.0, 4.0]
    assert [math.isnan(v) for _, (v,) in rows] == [False, False, True, True]


def test_a_long_pause_is_not_filled_with_rows() -> None:
    join = TagJoin(["a"], 1.0)
    join.put("a", 1.0, 0.5)
    joined(join)
    join.put("a", 2.0, 1e9)
    assert len(joined(join)) < 20
    assert len(joined(join, now=1e9 + LONGEST_GAP - 10)) < LONGEST_GAP


def test_what_makes_no_sense() -> None:
    join = TagJoin(["a"])
    join.put("zzz", 1.0, 0.0)
    assert join.unknown == 1
    with pytest.raises(SourceError, match="the time nan"):
        join.put("a", 1.0, math.nan)
    with pytest.raises(SourceError, match="interval=0"):
        TagJoin(["a"], interval=0)
    with pytest.raises(SourceError, match=r"joined by their names: .*--columns"):
        join_of({}, None, print)
    with pytest.raises(SourceError, match="tolerance must be a number"):
        join_of({"tolerance": "soon"}, ["a"], print)
