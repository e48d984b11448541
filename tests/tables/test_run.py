"""``fit`` of files, generators and lazy frames: as good as of rows in memory, and resumable."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset
import pytest

from benchmarks import until as check
from kernelstream import StreamingKernelPCA, load
from kernelstream.arrays import progress
from kernelstream.estimators import passes, until
from kernelstream.tables import FileRows, Source, TableEncoder, TableModel
from kernelstream.tables import readers as readers_module

X = np.random.default_rng(0).normal(size=(3000, 3)) * [1.0, 2.0, 0.5]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


@pytest.fixture
def days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(readers_module, "BLOCK_BYTES", 8 * 3 * 500)
    for i in range(3):
        FRAME[1000 * i : 1000 * (i + 1)].reset_index(drop=True).to_parquet(f"day{i}.parquet")
    return tmp_path


def pca(**options: Any) -> StreamingKernelPCA:
    return StreamingKernelPCA(**{"n_components": 3, "basis": 30, "random_state": 0, **options})


def model(columns: Any = None, **options: Any) -> TableModel:
    return TableModel(pca(**options), TableEncoder(columns))


def halves() -> Iterator[np.ndarray]:
    yield from np.array_split(X, 7)


def test_files_are_read_twice(days: Path) -> None:
    found = model(gamma=0.2).fit("day*.parquet")
    learned, memory = found.estimator_, pca(gamma=0.2).fit(X)
    assert learned.n_samples_seen_ == 3000 and list(found.feature_names_in_) == ["a", "b", "c"]
    explained = learned.explained_variance_ratio_
    assert np.allclose(explained, memory.explained_variance_ratio_, atol=0.01)
    assert learned.certificate_.details.excess_bound <= 2 * memory.certificate_.details.excess_bound
    assert np.allclose(found.transform(FRAME), found.transform(FRAME.iloc[:, [2, 0, 1]]))
    again = model(gamma=0.2).fit(Source("day*.parquet"))
    assert np.array_equal(again.estimator_.dual_coef_, learned.dual_coef_)
    listed = model(gamma=0.2).fit(["day0.parquet", Path("day1.parquet"), "day2.parquet"])
    assert np.array_equal(listed.estimator_.dual_coef_, learned.dual_coef_)
    with pytest.raises(TypeError, match=r"fit takes rows, and got files: 'day.*TableModel"):
        pca().fit("day*.parquet")


@pytest.mark.parametrize("kind", ["iterator", "function", "polars", "dataset", "frames", "weights"])
def test_blocks_of_any_kind(kind: str, days: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "SLICE", 700)
    rows = {
        "iterator": halves(),
        "function": halves,
        "polars": pl.from_pandas(FRAME).lazy(),
        "dataset": pyarrow.dataset.dataset("day0.parquet"),
        "frames": (FRAME[i : i + 600] for i in range(0, 3000, 600)),
        "weights": ((block, np.ones(len(block))) for block in halves()),
    }[kind]
    found = pca(gamma=0.2).fit(rows)
    n = 1000 if kind == "dataset" else 3000
    query = FRAME if hasattr(found, "feature_names_in_") else X
    assert found.n_samples_seen_ == n and np.isfinite(found.transform(query)).all()
    one_pass = pca(gamma=0.2).partial_fit(X)
    # What can be read once is a stream; what can be read again gets a second pass.
    if kind in ("iterator", "frames", "weights"):
        assert np.array_equal(found.dual_coef_, one_pass.dual_coef_)
    else:
        assert found.stream_.state is not None and not found.stream_.state.basis.carried


def test_scale_and_width_come_from_all_files(days: Path) -> None:
    """The first file alone would give others."""
    for i in range(3):
        (FRAME.sort_values("b") * [1, 100, 1])[1000 * i : 1000 * (i + 1)].to_parquet(
            f"day{i}.parquet", index=False
        )
    found = model(scale="auto").fit("day*.parquet")
    assert found.estimator_.stream_.scaler.deviation == pytest.approx(
        X.std(axis=0) * [1, 100, 1], rel=0.05
    )
    with pytest.warns(UserWarning, match="Nine tenths .* 'b'.*scale='auto'"):
        model().fit("day*.parquet")


def test_what_cannot_be_done_is_said(days: Path) -> None:
    with pytest.raises(ValueError, match="weight_column"):
        model().fit("day*.parquet", sample_weight=np.ones(3000))
    with pytest.raises(ValueError, match="no row"):
        pca().fit(iter(()))
    with pytest.raises(ValueError, match="No file matches"):
        model().fit("night*.parquet")


def test_a_model_of_files_is_saved_with_its_columns(days: Path) -> None:
    FRAME.assign(id=range(3000), kind=np.where(X[:, 0] > 0, "p", "q")).to_csv("t.csv", index=False)
    found = model({"kind": "codes"}, scale="auto").fit("t.csv")
    uses = {c.name: c.use for c in found.encoder_.schema_.columns}
    assert uses["kind"] == "codes" and uses["id"] == "left out"
    found.save("m.safetensors")
    frame = pd.read_csv("t.csv")
    assert np.array_equal(load("m.safetensors").transform(frame), found.transform(frame))


def test_files_show_how_far_they_were_read(
    days: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A line had rows and their rate only."""
    monkeypatch.setattr(progress, "LOG_EVERY", 0.0)
    with caplog.at_level("INFO", "kernelstream"):
        model(gamma=0.2, batch_size=100, verbose=True).fit("day*.parquet")
    shares = [
        int(s) for line in caplog.messages for s in re.findall(r"^pass 2: (\d+)%, .* left", line)
    ]
    assert shares == sorted(shares) and len(set(shares)) > 2 and shares[-1] == 100


# -- as many rows of files as are needed


@pytest.fixture
def small() -> Iterator[None]:
    with check.small():
        yield


def two() -> TableModel:
    return model(n_components=2, basis=12, gamma=0.3)


def two_columns(n: int = 3000) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 2))


FORMATS = ["parquet", "csv", "csv.gz", "ndjson", "feather", "npy"]


def written(X: np.ndarray, ending: str, **more: Any) -> str:
    """Rows in a file of some format, which is read in small blocks."""
    frame, path = pd.DataFrame(X, columns=["a", "b"]).assign(**more), f"rows.{ending}"
    if ending == "parquet":
        frame.to_parquet(path, row_group_size=700)
    elif ending == "npy":
        np.save(path, X)
    elif ending == "feather":
        frame.to_feather(path)
    elif ending == "ndjson":
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(readers_module, "BLOCK_BYTES", 8 * 2 * 300)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("ending", FORMATS)
def test_draws_of_files_are_those_of_an_array(ending: str) -> None:
    X = two_columns()
    files = FileRows(Source(written(X, ending)))
    memory = until.Population.of(X, None)
    assert files.n == memory.n == 3000 and files.weight == 3000.0
    wanted = {"learned": 100, "wider": 7, "judging": 500}
    drawn = files.draws(3, wanted)
    for purpose, n in wanted.items():
        expected = memory.draw(3, purpose, slice(0, n))
        assert drawn(purpose, slice(0, n)) == pytest.approx(expected, abs=1e-12)
    assert np.array_equal(drawn("judging", slice(64, 128)), drawn("judging", slice(0, 500))[64:128])


@pytest.mark.usefixtures("folder")
def test_rows_of_files_are_drawn_by_their_weight() -> None:
    X, weights = two_columns(), np.random.default_rng(5).pareto(1.0, 3000)
    weights[[0, 299, 300, 1500, 2999]] = 0.0  # also where blocks begin and end
    path = written(X, "parquet", w=weights)
    files = FileRows(Source(path, weight_column="w"))
    memory = until.Population.of(X, weights)
    expected = memory.draw(3, "judging", slice(0, 4000))
    assert np.array_equal(files.draws(3, {"judging": 4000})("judging", slice(0, 4000)), expected)
    with pytest.raises(ValueError, match="weight_column"):
        two().fit(path, sample_weight=weights, until=0.6)
    written(X, "parquet", w=0.0 * weights)
    with pytest.raises(ValueError, match="All rows have weight zero"):
        two().fit(Source(path, weight_column="w"), until=0.6)


def test_a_point_at_the_very_end_is_the_last_row_that_counts(folder: Path) -> None:
    path = written(two_columns(700), "parquet", w=np.repeat([0.1, 0.0], [690, 10]))
    files = FileRows(Source(path, weight_column="w"))
    assert np.array_equal(files.rows_at(np.array([files.weight, 0.0])), two_columns(700)[[689, 0]])


@pytest.mark.usefixtures("small", "folder")
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_what_is_said_of_files_is_said_of_all_their_rows(ending: str) -> None:
    X = two_columns()
    path = written(X, ending)
    found, plain = two().fit(path, until=0.6), two().estimator.fit(X, until=0.6)
    one, other = found.estimator_.certificate_.statistical, plain.certificate_.statistical
    assert one == other and one.n_rows == 3000
    assert np.array_equal(found.estimator_.dual_coef_, plain.dual_coef_)
    assert list(found.feature_names_in_) == ["a", "b"]
    whole, expected = two().fit(path, until=0.001).estimator_, two().fit(path).estimator_
    assert whole.n_samples_seen_ == 3000
    assert np.array_equal(whole.dual_coef_, expected.dual_coef_)


@pytest.mark.usefixtures("small", "folder")
def test_columns_of_files_are_understood_and_gaps_are_filled() -> None:
    X = two_columns()
    X[::50, 1] = np.nan
    path = written(X, "csv", kind=np.where(np.arange(3000) % 3, "one", "two"))
    found = two().fit(path, until=0.6)
    assert found.estimator_.certificate_.statistical.n_rows == 3000
    assert found.encoder_.schema_.features == ("a", "b", "kind=one", "kind=two")
    again = found.transform(pd.read_csv(path)[:5])
    assert np.isfinite(again).all()


@pytest.mark.usefixtures("small", "folder")
def test_bad_rows_of_files_are_no_part_of_what_is_spoken_of() -> None:
    X = two_columns()
    X[::50, 1] = np.nan
    path = written(X, "parquet")
    with pytest.raises(ValueError, match="the value is missing"):
        two().fit(Source(path), until=0.6)
    found = two().fit(Source(path, on_bad_rows="skip"), until=0.6)
    assert found.estimator_.certificate_.statistical.n_rows == 2940
    found = two().fit(Source(path, on_bad_rows="skip", limit=2000), until=0.6)
    assert found.estimator_.certificate_.statistical.n_rows == 2000


def test_files_that_change_meanwhile_and_pipes_are_refused(folder: Path) -> None:
    path = written(two_columns(), "csv")
    found = FileRows(Source(path))
    written(two_columns(2000), "csv")
    with pytest.raises(ValueError, match="changed meanwhile"):
        found.draws(0, {"judging": 500})
    piped = Source("-", stdin=io.BytesIO(Path(path).read_bytes()))
    with pytest.raises(ValueError, match="write them to a file first"):
        two().fit(piped, until=0.6)
