"""TableModel: tables with categories, dates and missing values, encoded the same way later."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from kernelstream import StreamingKernelPCA, StreamingKernelRidge, load
from kernelstream.papers import OnlineKernelPCA
from kernelstream.stream.imputation import Imputation
from kernelstream.tables import TableEncoder, TableModel
from kernelstream.tables.encoder import as_table

N = 600
RNG = np.random.default_rng(0)
Z = RNG.normal(size=N)
WHOLE = pd.DataFrame(
    {
        "a": Z,
        "b": 2.0 * Z + 0.2 * RNG.normal(size=N),
        "colour": RNG.choice(["red", "green", "blue"], N),
        "ok": RNG.random(N) > 0.3,
    }
)
GAPS = WHOLE.assign(b=WHOLE.b.mask(RNG.random(N) < 0.2), colour=WHOLE.colour.mask(Z > 1.5))
KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "batch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
}


def pca(**options: Any) -> StreamingKernelPCA:
    return StreamingKernelPCA(**{"n_components": 3, "basis": 30, "random_state": 0, **options})


def model(columns: Any = None, **options: Any) -> TableModel:
    return TableModel(pca(**options), TableEncoder(columns))


@pytest.mark.parametrize("kind", KINDS)
def test_categories_and_gaps(kind: str, tmp_path: Any) -> None:
    frame = KINDS[kind](GAPS)
    found = model(scale="auto").fit(frame)
    features = ("a", "b", "colour=blue", "colour=green", "colour=red", "ok")
    assert found.encoder_.schema_.features == features and found.n_features_in_ == 4
    certificate = found.estimator_.certificate_
    assert certificate.filled and found.estimator_.n_features_in_ == 6
    assert ("rows", "as they were imputed: missing values are the model's") in certificate.rows()
    scores = found.transform(frame)
    assert np.isfinite(scores).all() and scores.shape == (N, 3)
    back = found.inverse_transform(scores)
    assert back.column_names == ["a", "b", "colour", "ok"] and back.num_rows == N
    found.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert (
        np.array_equal(again.transform(frame), scores)
        and again.encoder_.schema_ == found.encoder_.schema_
    )
    assert again.partial_fit(frame).estimator_.n_samples_seen_ == 2 * N
    assert repr(clone(found)) == repr(found) and not hasattr(clone(found), "estimator_")


def test_gaps_are_filled_by_rows_like_theirs() -> None:
    """Much better than by the mean of the column."""
    found = model(scale="auto").fit(GAPS)
    rows = found.encoder_.encode(GAPS)
    scaler = found.estimator_.stream_.scaler
    filled = scaler.undo(scaler.apply(rows))
    missing = GAPS.b.isna().to_numpy()
    error = np.mean((filled[missing, 1] - WHOLE.b[missing]) ** 2)
    assert error < 0.2 * WHOLE.b.var()
    assert np.allclose(filled[~missing, :2], rows[~missing, :2])


@pytest.mark.parametrize("options", [{}, {"scale": "standard"}, {"scale": "auto"}])
def test_the_same_rows_give_the_same_model_however_they_are_cut(options: Any) -> None:
    X = WHOLE[["a", "b"]].to_numpy().copy()
    X[::5, 1] = np.nan
    filled = {**options, "scale": Imputation(options.get("scale"))}
    one, many = pca(**filled).partial_fit(X), pca(**filled)
    for block in np.array_split(X, 23):
        many.partial_fit(block)
    assert np.array_equal(one.dual_coef_, many.dual_coef_)
    whole, frames = model(**options).partial_fit(GAPS), model(**options)
    for i in range(0, N, 100):
        frames.partial_fit(GAPS[i : i + 100])
    assert np.array_equal(frames.estimator_.dual_coef_, whole.estimator_.dual_coef_)


def test_gaps_of_arrays_are_filled_where_that_is_asked_for() -> None:
    X = WHOLE[["a", "b"]].to_numpy().copy()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN: row 3, column 1 \(both counted.*TableModel"):
        pca().fit(X)
    found = pca(scale=Imputation()).fit(X)
    assert np.isfinite(found.transform(X)).all() and found.__sklearn_tags__().input_tags.allow_nan
    assert np.isfinite(found.transform_one(X[3])).all()
    assert found.learn_one(X[3]).n_samples_seen_ == N + 1
    X[4, 0] = np.inf
    with pytest.raises(ValueError, match="infinity: row 4, column 0"):
        found.partial_fit(X)
    in_table = model().fit(X[:4])
    assert np.isfinite(in_table.transform(X[:4])).all()
    with pytest.raises(ValueError, match="missing must be one of"):
        TableModel(pca(), TableEncoder(missing="drop")).fit(X[:3])


def test_bad_rows_are_passed_over_where_that_is_asked_for() -> None:
    X = WHOLE[["a", "b"]].to_numpy().copy()
    X[[3, 5], 1], X[7, 0] = np.nan, np.inf
    good = np.isfinite(X).all(axis=1)
    weights = np.arange(1.0, N + 1)
    found = pca().partial_fit(X, sample_weight=weights, on_bad_rows="skip")
    same = pca().partial_fit(X[good], sample_weight=weights[good])
    assert np.array_equal(found.dual_coef_, same.dual_coef_)
    found.partial_fit(X, on_bad_rows="skip")
    assert found.n_samples_seen_ == 2 * good.sum()
    with pytest.raises(ValueError, match="on_bad_rows must be one of"):
        pca().partial_fit(X, on_bad_rows="ignore")
    named = pd.DataFrame(X, columns=["t", "u"])
    with pytest.raises(ValueError, match="row 7, column 't': inf is infinite"):
        model().partial_fit(named)
    words = WHOLE.assign(a=["1.5", "x", "2.5"] * 200)
    with pytest.raises(ValueError, match="row 1, column 'a': 'x' is not a number"):
        model().partial_fit(words)


def test_scales_are_warned_of_and_mended() -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    with pytest.warns(UserWarning, match=r"'proline'.*scale='auto'"):
        pca().fit(X)
    with pytest.warns(UserWarning, match=r"1 of 13 columns: 12\."):
        pca().partial_fit(X.to_numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pca(scale="auto").fit(X)
        pca(kernel="linear").fit(X)
        OnlineKernelPCA(2, gamma=1e-4).fit(X)
    nearest = make_pipeline(pca(n_components=10, scale="auto"), KNeighborsClassifier())
    assert cross_val_score(nearest, X, y, cv=3).mean() > 0.92  # .67 without


def test_scales_that_are_alike_stay() -> None:
    X = WHOLE[["a", "b"]].to_numpy()
    plain, auto = pca(gamma=0.3).fit(X), pca(gamma=0.3, scale="auto").fit(X)
    assert auto.stream_.scaler is None and np.array_equal(plain.dual_coef_, auto.dual_coef_)


def test_columns_that_are_not_learned_are_named() -> None:
    frame = WHOLE[["a", "b"]].assign(id=range(N), note=[f"n{i}" for i in range(N)])
    with pytest.warns(UserWarning, match=r"'id' \(counts the rows\), 'note' .*columns="):
        found = model().fit(frame)
    assert list(found.feature_names_in_) == ["a", "b"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = model(columns={"id": "number", "note": "out"}, scale="auto").fit(frame)
    assert list(asked.feature_names_in_) == ["a", "b", "id"]
    # The first rows of a stream may count up by accident.
    assert list(model(columns={"note": "out"}).partial_fit(frame[:60]).feature_names_in_) == [
        "a",
        "b",
        "id",
    ]
    with pytest.raises(ValueError, match="cannot be treated as 'word'"):
        model(columns={"a": "word"}).fit(frame)


def test_regressions_take_such_frames_too() -> None:
    ridge = TableModel(StreamingKernelRidge(basis=30, scale="auto", random_state=0)).fit(GAPS, Z)
    assert ridge.score(GAPS, Z) > 0.9


def test_frames_of_plain_numbers_are_taken_as_ever() -> None:
    plain = WHOLE[["a", "b"]]
    found = pca().fit(plain)
    assert list(found.feature_names_in_) == ["a", "b"]
    assert np.array_equal(found.dual_coef_, pca().fit(plain.to_numpy()).dual_coef_)
    in_table = model().fit(plain)
    assert np.array_equal(found.dual_coef_, in_table.estimator_.dual_coef_)
    assert np.array_equal(in_table.transform(plain), in_table.transform(plain.to_numpy()))


def test_a_column_of_mixed_kinds_is_text_with_its_gaps() -> None:
    frame = pd.DataFrame({"x": [1, "a", None, np.nan, 2.5]}, dtype=object)
    assert as_table(frame)["x"].to_pylist() == ["1", "a", None, None, "2.5"]


@pytest.mark.parametrize("frame", [WHOLE, WHOLE[["a", "b"]]], ids=["words", "numbers"])
def test_names_that_come_twice_are_refused(frame: pd.DataFrame) -> None:
    """The first of two columns was dropped without a word, where others held words."""
    twice = pd.concat([frame, frame[["a"]]], axis=1)
    with pytest.raises(ValueError, match="several columns called a: rename them"):
        model().fit(twice)


def test_kinds_of_columns_that_numpy_has_no_numbers_for() -> None:
    frame = WHOLE[["a"]].assign(grade=pd.Categorical(np.arange(N) % 3))
    found = model(scale="auto").fit(frame)
    levels = ("grade=0", "grade=1", "grade=2")
    assert found.encoder_.schema_.features == ("a", *levels)
    took = WHOLE[["a"]].assign(took=pd.to_timedelta(np.abs(WHOLE.b), unit="min"))
    with pytest.warns(UserWarning, match=r"'took' \(not numbers \(duration"):
        model().fit(took)
    dates = WHOLE[["a"]].assign(when=pd.date_range("2026-01-01", periods=N))
    with pytest.raises(ValueError, match=r"'when' holds timestamp.*, not numbers"):
        model(columns={"when": "number"}).fit(dates)
    with pytest.warns(UserWarning, match=r"'when' \(dates or times\)\. columns=\{'when': KIND\} "):
        model().fit(dates)


def test_whole_numbers_of_many_digits_are_keys() -> None:
    """Of 10**30 Arrow knew no type, and floats cannot tell 2**60 from the next one."""
    for first in (2**60, 10**30):
        frame = WHOLE[["a", "b"]].assign(account=[first + i for i in range(N)])
        with pytest.warns(UserWarning, match="'account' \\(a key"):
            assert model().fit(frame).n_features_in_ == 2


def test_what_is_neither_one_value_nor_missing_is_named() -> None:
    frame = WHOLE[["a"]].assign(p=[1, "x", None] * (N // 3))
    with pytest.raises(ValueError, match="row 1, column 'p': 'x' is not a number"):
        model().fit(frame)


def test_a_lazy_frame_is_transformed() -> None:
    frame = pl.from_pandas(WHOLE[["a", "b"]])
    found = pca().fit(frame)
    assert np.array_equal(found.transform(frame.lazy()), found.transform(frame))


# -- what users do with tables


def test_a_pipeline_in_cross_validation_and_grid_search() -> None:
    y = (Z + 0.5 * (WHOLE.colour == "red") > 0).to_numpy()
    pipeline = make_pipeline(
        TableEncoder(),
        pca(n_components=10, scale="auto"),
        LogisticRegression(),
    )
    assert cross_val_score(pipeline, GAPS, y, cv=3).mean() > 0.9
    grid = {"streamingkernelpca__n_components": [2, 10], "tableencoder__missing": ["fill"]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(GAPS, y)
    assert search.best_params_["streamingkernelpca__n_components"] == 10
    names = search.best_estimator_[0].get_feature_names_out()
    assert list(names) == ["a", "b", "colour=blue", "colour=green", "colour=red", "ok"]


def month(seed: int, **more: Any) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    temperature = rng.normal(20.0, 5.0, 400)
    frame = {
        "temperature": temperature,
        "pressure": 2.0 * temperature + rng.normal(size=400),
        "state": rng.choice(["on", "off", "idle"], 400),
    }
    return pd.DataFrame(frame | more)


def test_three_months_of_a_table_that_changes() -> None:
    """An extra column, another order, a new level; a lost column is named."""
    january = month(0)
    february = month(1, operator="Kim")[["state", "operator", "temperature", "pressure"]]
    march = month(2).replace({"state": {"idle": "service"}})
    found = model(scale="auto").partial_fit(january)
    features = found.encoder_.schema_.features
    found.partial_fit(february).partial_fit(march)
    assert found.estimator_.n_samples_seen_ == 1200
    assert found.encoder_.schema_.features == features
    assert np.isfinite(found.transform(march)).all()
    same = model(scale="auto").partial_fit(january)
    same.partial_fit(month(1)).partial_fit(march)
    assert np.array_equal(found.estimator_.dual_coef_, same.estimator_.dual_coef_)
    before = found.transform(march)
    with pytest.raises(ValueError, match="has no column 'pressure'"):
        found.partial_fit(january.drop(columns="pressure"))
    assert np.array_equal(found.transform(march), before)


@pytest.mark.parametrize(
    "learn",
    [
        lambda frame: pca().fit(frame),
        lambda frame: pca().partial_fit(frame),
        lambda frame: StreamingKernelRidge(basis=30).fit(frame, Z),
        lambda frame: pca().fit(WHOLE[["a", "b"]]).transform(frame),
    ],
    ids=["fit", "partial_fit", "ridge", "transform"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_with_text_names_the_table_model(learn: Any, kind: str) -> None:
    words = r"Column 'colour' holds no numbers, and .* kernelstream\.tables\.TableModel\("
    with pytest.raises(ValueError, match=words):
        learn(KINDS[kind](WHOLE.drop(columns="ok")))


def test_estimators_of_other_libraries(tmp_path: Any) -> None:
    nearest = TableModel(KNeighborsClassifier()).fit(GAPS, WHOLE.ok)
    assert nearest.score(GAPS, WHOLE.ok) > 0.6 and not hasattr(nearest, "merge")
    with pytest.raises(TypeError, match="has a KNeighborsClassifier"):
        nearest.save(tmp_path / "m")


def test_models_of_tables_merge() -> None:
    one, two = (model(scale=None, gamma=0.3).fit(WHOLE[at]) for at in (slice(300), slice(300, N)))
    both = one.merge(two)
    assert both.estimator_.n_samples_seen_ == N
    with pytest.raises(ValueError, match="learned different columns: b"):
        one.merge(model(gamma=0.3).fit(WHOLE.drop(columns="b")))
