"""The sample by which tables are understood: uniform, the same in every format, in order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernelstream.tables import SchemaOptions, Source, sample
from tests.tables.conftest import WRITERS


@pytest.fixture(autouse=True)
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "ROWS", 600)


def rows_of(path: Path, X: np.ndarray) -> np.ndarray:
    """The numbers of the rows in the sample of a file."""
    found = Source(path, schema=SchemaOptions()).sampled_rows
    assert found is not None
    place = {value: i for i, value in enumerate(X[:, 0].tolist())}
    return np.array([place[value] for value in found[:, 0].tolist()])


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_rows_in_every_format(name: str, tmp_path: Path, X: np.ndarray) -> None:
    WRITERS["x.npy"](tmp_path / "x.npy", X)
    WRITERS[name](tmp_path / name, X)
    found = rows_of(tmp_path / name, X)
    assert np.array_equal(found, rows_of(tmp_path / "x.npy", X))
    assert len(found) == 600 and (np.diff(found) > 0).all()
    assert abs(found.mean() - len(X) / 2) < 150


def test_every_file_is_in_it(tmp_path: Path, X: np.ndarray) -> None:
    for i in range(3):
        WRITERS["x.csv"](tmp_path / f"{i}.csv", X[1000 * i : 1000 * (i + 1)] + 100 * i)
    found = Source(tmp_path, schema=SchemaOptions()).sampled_rows
    assert found is not None
    counts = np.bincount(np.round(found[:, 0] / 100).astype(int))
    assert len(counts) == 3 and counts.min() > 150


@pytest.mark.parametrize("names", [("a.npy", "b.csv"), ("b.csv", "a.npy")])
def test_sample_of_an_array_and_text_has_rows_of_both(
    names: tuple[str, ...], tmp_path: Path, X: np.ndarray
) -> None:
    np.save(tmp_path / "a.npy", X)
    np.savetxt(tmp_path / "b.csv", X + 100, delimiter=",")
    found = Source([tmp_path / name for name in names], schema=SchemaOptions()).sampled_rows
    assert found is not None
    assert min(np.sum(found[:, 0] < 50), np.sum(found[:, 0] > 50)) > 150


def test_with_a_limit_only_rows_that_will_be_read(tmp_path: Path, X: np.ndarray) -> None:
    for name in ("x.csv", "x.parquet", "x.npy", "x.ndjson"):
        WRITERS[name](tmp_path / name, X)
        source = Source(tmp_path / name, schema=SchemaOptions(), limit=100)
        assert source.sampled_rows is not None
        assert np.array_equal(source.sampled_rows, X[:100])


def test_sample_of_a_file_with_invalid_rows_has_those_that_are_read(tmp_path: Path) -> None:
    """What follows a quote that is not closed is no row, neither here nor when it is read."""
    lines = [f"{i / 7},{i % 5}" for i in range(200)]
    lines[50], lines[60] = "1", '2,"open'
    (tmp_path / "x.csv").write_text("a,b\n" + "\n".join(lines) + "\n")
    source = Source(tmp_path / "x.csv", schema=SchemaOptions(), on_bad_rows="skip")
    assert source.sampled_rows is not None
    assert np.array_equal(source.sampled_rows, np.concatenate([block.X for block in source]))
    assert len(source.sampled_rows) == 59
