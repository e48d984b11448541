"""``fit`` of files, generators and lazy frames: as good as of rows in memory, and resumable."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset
import pytest

from kernelstream import StreamingKernelPCA, load
from kernelstream.arrays import progress
from kernelstream.estimators import passes
from kernelstream.tables import Source, TableEncoder, TableModel
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


def test_rows_of_files_cannot_be_drawn(days: Path) -> None:
    with pytest.raises(ValueError, match="or give them as an array"):
        model().fit("day*.parquet", until=0.1)
