"""What columns are, by a sample of their cells; the forty tables of tests/cli have the rest."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kernelstream.tables import ReadOptions, SchemaOptions, SourceError, infer_schema

N = 100
NUMBERS = np.random.default_rng(0).normal(size=N)


def uses(columns: dict[str, object], **options: object) -> dict[str, str]:
    table = pa.table({"x": NUMBERS, **columns})
    return {c.name: c.use for c in infer_schema(table, SchemaOptions(**options)).columns}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cells", "use"),
    [
        (["1.5", "2", "-3e4", "NA"], "number"),
        (["1,5", "2,25", "-3,0", "7"], "number"),
        (["0", "1", "1", "0"], "number"),
        (["true", "false", "", "true"], "boolean"),
        (["Yes", "No", "yes", "?"], "boolean"),
        (["Ja", "Nein", "Ja", "?"], "category"),  # in English only
        (["a", "b", "a", "c"], "category"),
        (["12.03.2024", "01.04.2024", "30.12.2023", ""], "left out"),
        (["2024-03-12T10:00:00Z", "2024-03-13 11:00", "2024-03-14", None], "left out"),
        (["10:30", "11:45", "23:59", "00:01"], "left out"),
        (["1", "x", "y", "z"], "category"),
        (["1", "2", "3", "x"], "number"),  # a bad cell makes no category of numbers
        ([None, "", "n/a", "-"], "left out"),
    ],
    ids=str,
)
def test_words(cells: list[str | None], use: str) -> None:
    assert uses({"c": pa.array(cells * (N // 4), pa.string())})["c"] == use


def test_text_with_too_many_levels_is_no_category() -> None:
    words = [f"w{i % 60}" for i in range(N)]
    assert uses({"c": words})["c"] == "left out"
    assert uses({"c": words}, treat={"c": "category"})["c"] == "category"


def test_types() -> None:
    dates = pa.array(np.arange(N) * 86_400, pa.int64()).cast(pa.timestamp("s"))
    columns = {
        "when": dates,
        "nested": [[1, 2]] * N,
        "nothing": pa.nulls(N),
        "kind": pa.array(["a", "b"] * (N // 2)).dictionary_encode(),
        "yes": [True, False] * (N // 2),
        "whole": pa.array(np.arange(N) % 7, pa.int8()),
    }
    found = uses(columns)
    expected = ["left out", "left out", "left out", "category", "boolean", "number"]
    assert list(found.values())[1:] == expected


def test_an_order_of_a_few_rows_is_an_accident() -> None:
    few = pa.table({"n": [1, 2, 3, 4], "one": [1, 1, 1, 1]})
    assert [c.use for c in infer_schema(few).columns] == ["number", "number"]


def test_measurements_that_rise_are_no_counter() -> None:
    rising = np.sort(NUMBERS)
    assert uses({"t": rising})["t"] == "number"
    assert uses({"n": np.arange(N) * 3})["n"] == "left out"
    assert uses({"n": np.repeat(np.arange(N // 2), 2)})["n"] == "number"


def test_nothing_to_learn_is_said_with_the_reasons() -> None:
    table = pa.table({"id": range(N), "name": [f"n{i}" for i in range(N)]})
    with pytest.raises(SourceError, match=r"no column of numbers.*id: counts the rows"):
        infer_schema(table)


def test_wishes_that_make_no_sense() -> None:
    for wrong in ({"decimal": ";"}, {"missing": "drop"}, {"treat": {"a": "word"}}):
        with pytest.raises(ValueError, match=r"must be|cannot be"):
            SchemaOptions(**wrong)
    with pytest.raises(SourceError, match="no column 'w'"):
        infer_schema(pa.table({"x": NUMBERS}), read=ReadOptions(weight_column="w"))
