"""``fit(until=…)``: as many rows as are needed, and what is then said of all of them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

from benchmarks import until as check
from kernelstream import KernelPCA, StreamingKernelPCA, landmarks, load, trackers
from kernelstream.estimators import until
from kernelstream.papers import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
)
from kernelstream.tables import Source, readers

OPTIONS: dict[str, Any] = {"gamma": 0.3, "basis": 12, "random_state": 0}


@pytest.fixture
def small() -> Iterator[None]:
    with check.small():
        yield


def rows(n: int = 3000) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 2))


@pytest.mark.parametrize("first", range(0, 9, 3))
def test_what_is_said_of_rows_that_were_not_read_is_true(first: int) -> None:
    """``python -m benchmarks.until --populations 1000`` is the long version."""
    found = [check.outcome(seed) for seed in range(first, first + 3)]
    assert any(said is not None for said in found)
    assert not [problems for _, problems in filter(None, found) if problems]


@pytest.mark.usefixtures("small")
def test_it_stops_early_and_says_so() -> None:
    X = rows()
    model = StreamingKernelPCA(2, **OPTIONS).fit(X, until=0.6)
    said = model.certificate_.statistical
    assert model.n_samples_seen_ == said.n_sampled // 2 < 1000
    assert said.n_rows == 3000 and said.shortfall_bound <= 0.6 and said.confidence == 0.99
    assert "drawn from 3,000" in str(model.certificate_)
    assert model.certificate_.narrowest_ratio[1] == said.kind
    sure = StreamingKernelPCA(2, **OPTIONS).fit(X, until=0.6, confidence=0.8)
    assert sure.n_samples_seen_ < model.n_samples_seen_
    assert "80% confidence" in sure.certificate_.statistical.kind


@pytest.mark.usefixtures("small")
def test_where_more_is_asked_than_draws_can_tell_all_rows_are_learned() -> None:
    X = rows()
    model = StreamingKernelPCA(2, **OPTIONS).fit(X, until=0.001)
    plain = StreamingKernelPCA(2, **OPTIONS).fit(X)
    assert model.n_samples_seen_ == 3000 and model.certificate_.statistical.n_rows == 0
    assert np.array_equal(model.transform(X[:5]), plain.transform(X[:5]))


@pytest.mark.usefixtures("small")
def test_a_model_that_changes_is_not_the_one_that_was_judged(tmp_path: Path) -> None:
    X = rows()
    model = StreamingKernelPCA(2, **OPTIONS).fit(X, until=0.6)
    told = model.certificate_.statistical
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert again.certificate_.statistical == told
    assert again.set_params(n_components=1).certificate_.statistical.n_rows == 0
    assert again.set_params(n_components=2).certificate_.statistical == told
    assert model.compress(6).certificate_.statistical.n_rows == 0
    other = StreamingKernelPCA(2, **OPTIONS | {"random_state": 1}).fit(X[:500])
    assert model.merge(other).certificate_.statistical.n_rows == 0
    again.partial_fit(X[:100])
    assert again.certificate_.statistical.n_rows == 0
    fixed = StreamingKernelPCA(2, gamma=0.3, basis=landmarks.Landmarks(X[:12]), random_state=0)
    fixed.fit(X, until=0.6)
    learned = check.drawing.Population.of(X, None).draw(0, "learned", slice(0, 128))
    fixed.remove(learned[:50]).partial_fit(learned[:50])
    assert fixed.certificate_.statistical.n_rows == 0


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", ["memory map", "csr", "frame", "dask", "list", "float32"])
def test_rows_that_can_be_had_by_their_number(kind: str, tmp_path: Path) -> None:
    X = rows()
    expected = StreamingKernelPCA(2, **OPTIONS).fit(X, until=0.6)
    given: object = X
    if kind == "memory map":
        np.save(tmp_path / "X.npy", X)
        given = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif kind == "csr":
        given = scipy.sparse.csr_array(X)
    elif kind == "frame":
        given = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b"])
    elif kind == "dask":
        given = pytest.importorskip("dask.array").from_array(X, chunks=(700, 2))
    elif kind == "list":
        given = X.tolist()
    else:
        given = X.astype(np.float32)
    model = StreamingKernelPCA(2, **OPTIONS).fit(given, until=0.6)
    one, two = model.certificate_.statistical, expected.certificate_.statistical
    assert one.n_sampled == two.n_sampled and one.n_rows == 3000
    assert one.shortfall_bound == pytest.approx(two.shortfall_bound, abs=0.02)


def test_all_rows_of_a_dask_array_are_read_chunk_by_chunk() -> None:
    X = rows(700)
    lazy = pytest.importorskip("dask.array").from_array(X, chunks=(300, 1))
    points = landmarks.Landmarks(X[:12])
    model = StreamingKernelPCA(2, gamma=0.3, basis=points).fit(lazy)
    plain = StreamingKernelPCA(2, gamma=0.3, basis=points).fit(X)
    assert model.n_samples_seen_ == 700
    assert model.explained_variance_ == pytest.approx(plain.explained_variance_)


@pytest.mark.usefixtures("small")
def test_rows_are_drawn_by_their_weight() -> None:
    X = np.concatenate([rows(1500), rows(1500) + 9.0])
    weights = np.repeat([0.0, 1.0], 1500)
    model = StreamingKernelPCA(2, **OPTIONS).fit(X, sample_weight=weights, until=0.6)
    assert model.certificate_.statistical.n_rows == 3000
    assert np.all(np.asarray(model.basis_points_) > 4.0)
    with pytest.raises(ValueError, match="All rows have weight zero"):
        StreamingKernelPCA(2, **OPTIONS).fit(X, sample_weight=0 * weights, until=0.6)


@pytest.mark.usefixtures("small")
def test_the_statement_does_not_hang_on_the_number_of_threads() -> None:
    X = rows()
    said = []
    for threads in (1, 3):
        with threadpool_limits(threads):
            model = StreamingKernelPCA(2, **OPTIONS).fit(X, until=0.6)
            said.append(model.certificate_.statistical)
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("options", "X", "until", "words"),
    [
        ({"kernel": "linear"}, rows(), 0.6, "for kernels with a bound"),
        ({"tracker": trackers.Covariance(0.99)}, rows(), 0.6, "without forgetting"),
        ({"robust": True}, rows(), 0.6, "robust=True"),
        ({"certify": False}, rows(), 0.6, "there is none"),
        ({}, "day*.parquet", 0.6, "No file matches"),
        ({}, iter([rows()]), 0.6, "come one after the other"),
        ({}, lambda: iter([rows()]), 0.6, "come one after the other"),
        ({}, rows(), 1, "share between 0 and 1"),
        ({}, rows(), 1.5, "share between 0 and 1"),
        ({}, rows(), True, "share between 0 and 1"),
    ],
)
@pytest.mark.usefixtures("small")
def test_what_cannot_be_said_is_refused(
    options: dict[str, Any], X: object, until: Any, words: str
) -> None:
    model = StreamingKernelPCA(2, **{"basis": 12, "random_state": 0} | options)
    with pytest.raises(ValueError, match=words):
        model.fit(X, until=until)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.usefixtures("small")
def test_no_more_rows_are_learned_than_make_a_model_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(until, "MOST_LEARNED", 100)
    model = StreamingKernelPCA(2, **OPTIONS).fit(rows(), until=0.6)
    assert model.n_samples_seen_ == 100 < model.certificate_.statistical.n_sampled // 2


# -- files


FORMATS = ["parquet", "csv", "csv.gz", "ndjson", "feather", "npy"]


def written(X: np.ndarray, ending: str, **more: Any) -> str:
    """Rows in a file of some format, which is read in small blocks."""
    pd = pytest.importorskip("pandas")
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
    monkeypatch.setattr(readers, "BLOCK_BYTES", 8 * 2 * 300)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("ending", FORMATS)
def test_draws_of_files_are_those_of_an_array(ending: str) -> None:
    X = rows()
    files = until.FileRows.of(Source(written(X, ending)))
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
    X, weights = rows(), np.random.default_rng(5).pareto(1.0, 3000)
    weights[[0, 299, 300, 1500, 2999]] = 0.0  # also where blocks begin and end
    path = written(X, "parquet", w=weights)
    files = until.FileRows.of(Source(path, weight_column="w"))
    memory = until.Population.of(X, weights)
    expected = memory.draw(3, "judging", slice(0, 4000))
    assert np.array_equal(files.draws(3, {"judging": 4000})("judging", slice(0, 4000)), expected)
    model = StreamingKernelPCA(2, **OPTIONS)
    with pytest.raises(ValueError, match="weight_column"):
        model.fit(path, sample_weight=weights, until=0.6)
    written(X, "parquet", w=0.0 * weights)
    with pytest.raises(ValueError, match="All rows have weight zero"):
        model.fit(Source(path, weight_column="w"), until=0.6)


def test_a_point_at_the_very_end_is_the_last_row_that_counts(folder: Path) -> None:
    path = written(rows(700), "parquet", w=np.repeat([0.1, 0.0], [690, 10]))
    files = until.FileRows.of(Source(path, weight_column="w"))
    assert np.array_equal(files.rows_at(np.array([files.weight, 0.0])), rows(700)[[689, 0]])


@pytest.mark.usefixtures("small", "folder")
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_what_is_said_of_files_is_said_of_all_their_rows(ending: str) -> None:
    X = rows()
    path = written(X, ending)
    model = StreamingKernelPCA(2, **OPTIONS).fit(path, until=0.6)
    plain = StreamingKernelPCA(2, **OPTIONS).fit(X, until=0.6)
    one, two = model.certificate_.statistical, plain.certificate_.statistical
    assert one == two and one.n_rows == 3000
    assert np.array_equal(model.dual_coef_, plain.dual_coef_)
    assert list(model.feature_names_in_) == ["a", "b"] and model.missing == plain.missing
    everything = StreamingKernelPCA(2, **OPTIONS).fit(path, until=0.001)
    expected = StreamingKernelPCA(2, **OPTIONS).fit(path)
    assert everything.n_samples_seen_ == 3000
    assert np.array_equal(everything.dual_coef_, expected.dual_coef_)


@pytest.mark.usefixtures("small", "folder")
def test_columns_of_files_are_understood_and_gaps_are_filled() -> None:
    X = rows()
    X[::50, 1] = np.nan
    path = written(X, "csv", kind=np.where(np.arange(3000) % 3, "one", "two"))
    model = StreamingKernelPCA(2, **OPTIONS).fit(path, until=0.6)
    assert model.certificate_.statistical.n_rows == 3000
    assert list(model.columns_.features) == list(model.feature_names_in_) != ["a", "b"]
    again = model.transform(pytest.importorskip("pandas").read_csv(path)[:5])
    assert np.isfinite(again).all()


@pytest.mark.usefixtures("small", "folder")
def test_bad_rows_of_files_are_no_part_of_what_is_spoken_of() -> None:
    X = rows()
    X[::50, 1] = np.nan
    path = written(X, "parquet")
    with pytest.raises(ValueError, match="the value is missing"):
        StreamingKernelPCA(2, **OPTIONS).fit(Source(path), until=0.6)
    model = StreamingKernelPCA(2, **OPTIONS).fit(Source(path, on_bad_rows="skip"), until=0.6)
    assert model.certificate_.statistical.n_rows == 2940
    few = Source(path, on_bad_rows="skip", limit=2000)
    assert StreamingKernelPCA(2, **OPTIONS).fit(few, until=0.6).certificate_.statistical.n_rows == (
        2000
    )


def test_files_that_change_meanwhile_and_pipes_are_refused(folder: Path) -> None:
    path = written(rows(), "csv")
    found = until.FileRows.of(Source(path))
    written(rows(2000), "csv")
    with pytest.raises(ValueError, match="changed meanwhile"):
        found.draws(0, {"judging": 500})
    piped = Source("-", stdin=io.BytesIO(Path(path).read_bytes()))
    with pytest.raises(ValueError, match="write them to a file first"):
        StreamingKernelPCA(2, **OPTIONS).fit(piped, until=0.6)


# -- other estimators


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "model",
    [
        OnlineKernelPCA(2, gamma=0.3, nu=0.3),
        AdaptiveKernelPCA(2, gamma=0.3, method="lms", delta=0.5),
        IncrementalKernelPCA(2, gamma=0.3, n_points=12),
        KernelPCA(2, kernel="rbf", gamma=0.3, basis=12),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators_by_other_names_draw_as_well(model: Any) -> None:
    model.set_params(random_state=0).fit(rows(), until=0.9)
    said = model.certificate_.statistical
    assert said.n_rows == 3000 and said.shortfall_bound <= 0.9
    assert model.n_components_ == 2


@pytest.mark.usefixtures("small")
def test_what_no_statement_is_made_of_says_so() -> None:
    with pytest.raises(ValueError, match="passes over all rows again and again"):
        KernelHebbianPCA(2).fit(rows(), until=0.1)
    with pytest.raises(ValueError, match="without forgetting"):
        AdaptiveKernelPCA(2, gamma=0.3).fit(rows(), until=0.9)
