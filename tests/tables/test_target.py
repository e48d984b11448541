"""What is to be predicted: a number or a class, by a sample, and the targets of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from kernelstream.tables import SchemaOptions, Source, SourceError, Target, infer_target, open_table

N = 60


def found(values: Any, **wishes: Any) -> Target:
    return infer_target(pa.table({"y": values}), "y", SchemaOptions(**wishes))


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (np.linspace(0.0, 1.0, N), None),
        (np.arange(N), None),  # as many whole numbers as rows
        (np.arange(N) % 2 + 0.5, None),  # two numbers, but no whole ones
        (np.arange(N) % 3 - 1, [-1, 0, 1]),
        (["3", "10", "3"] * 20, [3, 10]),  # of a text file
        (["0,5", "1,5"] * 30, None),
        (["red", "blue", None] * 20, ["blue", "red"]),
        (["yes", "no"] * 30, ["no", "yes"]),  # in the words of the table
        ([True, False] * 30, ["false", "true"]),
    ],
)
def test_what_a_target_is(values: Any, classes: list[Any] | None) -> None:
    target = found(values)
    assert target.is_class == (classes is not None)
    if classes is not None:
        assert target.classes.tolist() == classes
    again = Target.from_facts(json.loads(json.dumps(target.to_facts())))
    assert again == target


def test_the_user_says_otherwise() -> None:
    assert not found(np.arange(N) % 3, treat={"y": "number"}).is_class
    many = found(np.arange(N) // 2, treat={"y": "category"})
    assert many.classes.tolist() == list(range(N // 2))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([7] * N, "is 7 in all rows"),
        (["x"] * N, "is x in all rows"),
        ([True] * N, "is true in all rows"),
        ([None] * N, "empty"),
        (pd.date_range("2024-01-01", periods=N), "dates or times"),
        ([f"name {i}" for i in range(N)], "different in the sample"),
    ],
)
def test_what_cannot_be_predicted(values: Any, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        found(values)


def test_targets_of_rows_and_what_is_wrong_with_some() -> None:
    target = found(["3", "10", "3"] * 20)
    y, bad = target.values(pa.array(["10", "3.0", "", "4", "x"]))
    assert y[:2].tolist() == [10, 3]
    assert {cell.place for cell in bad} == {2, 3, 4}
    assert "missing" in bad[0].reason and "none of the 2 classes" in bad[1].reason
    y, bad = found(["a", "b"] * 30).values(pa.array(["b ", None, "c"]))
    assert y[0] == "b" and [cell.place for cell in bad] == [1, 2]
    y, bad = found(np.linspace(0, 1, N)).values(pa.array([0.5, None, np.inf]))
    assert y[0] == 0.5 and [cell.place for cell in bad] == [1, 2]


@pytest.mark.parametrize(
    "facts",
    [
        None,
        {},
        {"name": "y"},
        {"name": "y", "use": "boolean", "levels": []},
        {"name": "y", "use": "number", "levels": ["red"]},
    ],
)
def test_a_file_that_no_release_has_written(facts: Any) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        Target.from_facts(facts)


def test_a_source_gives_targets_and_a_row_without_one_is_bad(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n" + "1.5,u\n2.5,v\n" * 30 + "3.5,\n4.5,v\n")
    source = Source(path, schema=SchemaOptions(), target="y", on_bad_rows="skip")
    assert source.names == ("a",) and source.target is not None
    (block,) = list(source)
    assert block.y is not None and block.y.tolist() == ["u", "v"] * 30 + ["v"]
    assert [str(bad.column) for bad in block.bad] == ["y"] and len(block) == 61
    (first,) = list(Source(path, schema=SchemaOptions(), target="y", limit=10, on_bad_rows="skip"))
    assert first.y is not None and first.y.tolist() == ["u", "v"] * 5


def test_the_target_of_an_array_is_one_of_its_columns(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(N, 3))
    np.save(tmp_path / "rows.npy", X)
    (block,) = list(Source(tmp_path / "rows.npy", schema=SchemaOptions(), target="x1"))
    assert block.y is not None and np.array_equal(block.y, X[:, 1]) and block.X.shape == (N, 2)


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.npy"])
def test_open_table_with_a_target_pairs_sampled_rows_and_targets(name: str, tmp_path: Path) -> None:
    n = 30_000  # more than a sample has
    x = np.random.default_rng(0).normal(size=n)
    frame = pd.DataFrame({"x": x, "y": 2.0 * x})
    if name.endswith("csv"):
        frame.to_csv(tmp_path / name, index=False)
    elif name.endswith("parquet"):
        frame.to_parquet(tmp_path / name)
    else:
        np.save(tmp_path / name, frame.to_numpy())
    table = open_table(tmp_path / name, target="x1" if name.endswith("npy") else "y")
    assert table.sampled_rows is not None and table.sampled_targets is not None
    assert len(table.sampled_rows) == 10_000
    assert np.allclose(table.sampled_targets, 2.0 * table.sampled_rows[:, 0])
    assert abs(np.median(np.searchsorted(np.sort(x), table.sampled_rows[:, 0])) - n / 2) < n / 20
