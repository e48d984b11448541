"""In company: pipelines, searches, frames and unions of scikit-learn, with streams inside.

``test_scikit_learn.py`` holds each estimator to scikit-learn's rules; here they work together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kernelstream import (
    KernelMonitor,
    KernelPCA,
    StreamingKernelClassifier,
    StreamingKernelPCA,
    StreamingKernelRidge,
    kernels,
    landmarks,
    trackers,
)
from kernelstream.papers import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
)

# Tables are learned here as they come; that their scales differ is said, and tested, elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore:Nine tenths of the squared distances")

TRANSFORMERS: dict[str, Any] = {
    "StreamingKernelPCA": StreamingKernelPCA(3, gamma=0.1, basis=30, random_state=0),
    "KernelPCA": KernelPCA(3, kernel="rbf", gamma=0.1, basis=30, random_state=0),
    "KernelHebbianPCA": KernelHebbianPCA(3, gamma=0.1, n_epochs=3, tol=0.0, random_state=0),
    "OnlineKernelPCA": OnlineKernelPCA(3, gamma=0.1, random_state=0),
    "AdaptiveKernelPCA": AdaptiveKernelPCA(3, gamma=0.1, random_state=0),
    "IncrementalKernelPCA": IncrementalKernelPCA(3, gamma=0.1, n_points=30, random_state=0),
}
LEARNERS: dict[str, Any] = {
    **TRANSFORMERS,
    "StreamingKernelRidge": StreamingKernelRidge(gamma=0.1, basis=30, random_state=0),
    "StreamingKernelClassifier": StreamingKernelClassifier(gamma=0.1, basis=30, random_state=0),
    "KernelMonitor": KernelMonitor(basis=30, width=30.0, random_state=0),
}


def wine() -> tuple[pd.DataFrame, np.ndarray]:
    """178 rows of 13 named measurements in very different units, shuffled."""
    frame, y = load_wine(return_X_y=True, as_frame=True)
    order = np.random.default_rng(0).permutation(len(frame))
    return frame.iloc[order], y.to_numpy()[order]


# --- pipelines


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_every_transformer_in_a_pipeline(name: str) -> None:
    X, y = wine()
    pipeline = make_pipeline(StandardScaler(), clone(TRANSFORMERS[name]), LogisticRegression())
    assert pipeline.fit(X, y).score(X, y) > 0.8
    scores = pipeline[:-1].transform(X)
    by_hand = clone(TRANSFORMERS[name]).fit(StandardScaler().fit_transform(X))
    np.testing.assert_array_equal(scores, by_hand.transform(StandardScaler().fit_transform(X)))


def test_a_pipeline_streams_through_its_steps() -> None:
    # A Pipeline has no partial_fit. Every step that learns is told by hand, in order, and the
    # finished pipeline is put together from steps that are fitted.
    X, _ = wine()
    X = X.to_numpy()
    scaler, model = StandardScaler(), clone(TRANSFORMERS["StreamingKernelPCA"])
    for block in np.array_split(X, 6):
        model.partial_fit(scaler.partial_fit(block).transform(block))
    pipeline = Pipeline([("scale", scaler), ("kpca", model)])
    np.testing.assert_array_equal(pipeline.transform(X), model.transform(scaler.transform(X)))
    assert not hasattr(Pipeline([("kpca", model)]), "partial_fit")
    # ... or the model does it itself, with the mean and deviation of the first rows
    alone = StreamingKernelPCA(3, gamma=0.1, basis=30, scale="standard", random_state=0)
    for block in np.array_split(X, 6):
        alone.partial_fit(block)
    # fewer rows than the start buffer, so all of them have given the scale
    scaled = clone(TRANSFORMERS["StreamingKernelPCA"]).partial_fit(
        StandardScaler().fit_transform(X)
    )
    expected = scaled.transform(StandardScaler().fit_transform(X))
    np.testing.assert_allclose(alone.transform(X), expected, atol=1e-9)


def test_a_pipeline_goes_back() -> None:
    X = load_digits().data[:400] / 16.0
    model = StreamingKernelPCA(20, basis=80, preimage="ridge", random_state=0)
    pipeline = make_pipeline(StandardScaler(with_std=False), model).fit(X)
    back = pipeline.inverse_transform(pipeline.transform(X))
    assert np.mean((back - X) ** 2) < 0.5 * X.var(axis=0).mean()


def test_a_cached_pipeline_gives_the_same_scores(tmp_path: Any) -> None:
    X, _ = wine()
    steps = [StandardScaler(), TRANSFORMERS["StreamingKernelPCA"], PCA(2)]
    plain = make_pipeline(*map(clone, steps)).fit_transform(X)
    for _ in range(2):  # the second time from the cache
        cached = make_pipeline(*map(clone, steps), memory=str(tmp_path))
        np.testing.assert_array_equal(cached.fit_transform(X), plain)


# --- searches


def test_grid_search_over_kernel_components_and_basis_in_a_pipeline() -> None:
    X, _ = wine()
    pipeline = Pipeline(
        [
            ("scale", StandardScaler()),
            (
                "kpca",
                StreamingKernelPCA(
                    kernel=kernels.RBF(0.1), basis=landmarks.Centroids(20), random_state=0
                ),
            ),
        ]
    )
    grid = {
        "kpca__kernel__gamma": [1e-3, 1e-2, 1.0],
        "kpca__n_components": [1, 6],
        "kpca__basis__n_points": [10, 40],
    }
    search = GridSearchCV(pipeline, grid, cv=2).fit(X)
    means = search.cv_results_["mean_test_score"]
    assert len(means) == 12
    assert np.all(np.isfinite(means))
    assert np.all(means < 0)
    best = search.best_estimator_["kpca"]
    assert best.n_components_ == search.best_params_["kpca__n_components"] == 6
    assert best.kernel_.gamma == search.best_params_["kpca__kernel__gamma"] != 1.0
    assert len(best.basis_points_) == search.best_params_["kpca__basis__n_points"]
    assert search.transform(X).shape == (178, 6)
    # score is the error in input space: the table is what cross-validation by hand gives
    by_hand = cross_val_score(clone(pipeline).set_params(**search.best_params_), X, cv=2)
    assert by_hand.mean() == means.max()


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_every_transformer_in_a_search(name: str) -> None:
    X = load_iris().data
    search = GridSearchCV(clone(TRANSFORMERS[name]), {"gamma": [0.05, 0.5, 200.0]}, cv=3)
    search.fit(np.random.default_rng(0).permutation(X))
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_params_["gamma"] != 200.0


def test_a_random_search_chooses_the_parts() -> None:
    X = np.random.default_rng(0).permutation(load_iris().data)
    choices = {
        "kernel": [kernels.RBF(0.3), kernels.Polynomial(2), kernels.Matern(1.5, 2.0)],
        "basis": [10, landmarks.Landmarks(10), landmarks.Distance(nu=0.1)],
        "tracker": [trackers.Covariance(), trackers.IncrementalSVD()],
    }
    search = RandomizedSearchCV(
        StreamingKernelPCA(3, random_state=0), choices, n_iter=6, cv=2, random_state=0
    ).fit(X)
    assert len(search.cv_results_["params"]) == 6
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


# --- the regression pair


def test_cross_validation_of_the_ridge() -> None:
    X, y = load_diabetes(return_X_y=True)
    ridge = make_pipeline(StandardScaler(), StreamingKernelRidge(basis=100, random_state=0))
    found = cross_val_score(ridge, X, y, cv=5)
    assert found.mean() > 0.4  # r² of ordinary least squares is 0.48
    assert found.mean() > cross_val_score(DummyRegressor(), X, y, cv=5).mean() + 0.3
    errors = cross_val_score(ridge, X, y, cv=5, scoring="neg_root_mean_squared_error")
    assert np.all(errors > -80)
    predicted = cross_val_predict(ridge, X, y, cv=5)
    assert predicted.shape == y.shape
    assert np.corrcoef(predicted, y)[0, 1] > 0.6


def test_cross_validation_of_the_classifier() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    classifier = make_pipeline(
        StandardScaler(), StreamingKernelClassifier(basis=100, random_state=0)
    )
    found = cross_val_score(classifier, X, y, cv=5)
    assert found.mean() > 0.93
    assert found.mean() > cross_val_score(DummyClassifier(), X, y, cv=5).mean() + 0.25
    area = cross_val_score(classifier, X, y, cv=5, scoring="roc_auc")  # by decision_function
    assert np.all(area > 0.95)


def test_a_search_over_the_ridge() -> None:
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = StreamingKernelRidge(
        kernel=kernels.RBF(0.1), basis=landmarks.Centroids(40), random_state=0
    )
    grid = {
        "kernel__gamma": [0.001, 0.01, 10.0],
        "basis__n_points": [20, 60],
        "alpha": ["gcv", 1.0],
    }
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.4
    assert search.best_params_["kernel__gamma"] != 10.0
    np.testing.assert_array_equal(search.predict(X), search.best_estimator_.predict(X))


def test_the_ridge_inside_other_estimators() -> None:
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ridge = StreamingKernelRidge(gamma=0.02, basis=60, random_state=0)
    shifted = TransformedTargetRegressor(clone(ridge), transformer=StandardScaler()).fit(X, y)
    assert shifted.score(X, y) > 0.45
    both = np.column_stack([y, -y])
    several = MultiOutputRegressor(clone(ridge)).fit(X, both)
    np.testing.assert_allclose(several.predict(X)[:, 0], -several.predict(X)[:, 1], rtol=1e-9)
    at_once = clone(ridge).fit(X, both)
    np.testing.assert_allclose(at_once.predict(X), several.predict(X), rtol=1e-6)


# --- frames and names


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output(name: str, library: str) -> None:
    X, _ = wine()
    pipeline = make_pipeline(StandardScaler(), clone(TRANSFORMERS[name]))
    plain = clone(pipeline).fit_transform(X)
    table = pipeline.set_output(transform=library).fit_transform(X)
    expected = [f"{name.lower()}{i}" for i in range(3)]
    assert isinstance(table, {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library])
    assert list(table.columns) == list(pipeline.get_feature_names_out()) == expected
    if isinstance(table, pd.DataFrame):
        assert list(table.index) == list(X.index)
    # the scaler hands on a frame, held by columns: sums run in another order
    np.testing.assert_allclose(table.to_numpy(), plain, atol=1e-7)


def test_the_whole_configuration_may_ask_for_frames() -> None:
    X, y = wine()
    with sklearn.config_context(transform_output="pandas"):
        pipeline = make_pipeline(StandardScaler(), clone(TRANSFORMERS["StreamingKernelPCA"]))
        table = pipeline.fit_transform(X)
        assert isinstance(table, pd.DataFrame)
        assert list(pipeline[-1].feature_names_in_) == list(X.columns)
        ridge = make_pipeline(StandardScaler(), clone(LEARNERS["StreamingKernelRidge"]))
        assert isinstance(ridge.fit(X, y).predict(X), np.ndarray)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("name", LEARNERS)
def test_names_of_features_are_kept_and_checked(name: str, frame: Any) -> None:
    X, y = wine()
    columns = list(X.columns)
    table = frame({column: X[column].to_numpy() for column in columns})
    model = clone(LEARNERS[name])
    model.fit(table, y)
    assert list(model.feature_names_in_) == columns
    assert model.n_features_in_ == 13
    query = "transform" if name in TRANSFORMERS else "predict"
    with pytest.raises(ValueError, match="feature names"):
        getattr(model, query)(table[columns[::-1]])
    if name in TRANSFORMERS:
        with pytest.raises(ValueError, match="input_features"):
            model.get_feature_names_out(["a"] * 13)
        assert len(model.get_feature_names_out(columns)) == 3


@pytest.mark.parametrize("name", LEARNERS)
def test_clones_are_fresh_and_equal(name: str) -> None:
    X, y = wine()
    first = LEARNERS[name]
    second = clone(first)
    assert second is not first
    assert repr(second) == repr(first)
    second.fit(X, y)
    third = clone(second)
    assert not hasattr(third, "n_features_in_")
    third.fit(X, y)
    query = "transform" if name in TRANSFORMERS else "predict"
    np.testing.assert_array_equal(getattr(third, query)(X), getattr(second, query)(X))


# --- columns and unions


def test_column_transformer() -> None:
    X, y = wine()
    X = X.assign(cellar=np.where(X["alcohol"] > 13, "north", "south"))
    numbers = [column for column in X.columns if column != "cellar"]
    columns = ColumnTransformer(
        [
            (
                "kernel",
                make_pipeline(StandardScaler(), TRANSFORMERS["StreamingKernelPCA"]),
                numbers,
            ),
            ("kind", OneHotEncoder(sparse_output=False), ["cellar"]),
        ]
    ).set_output(transform="pandas")
    table = columns.fit_transform(X)
    assert list(table.columns) == [
        *(f"kernel__streamingkernelpca{i}" for i in range(3)),
        "kind__cellar_north",
        "kind__cellar_south",
    ]
    alone = make_pipeline(StandardScaler(), clone(TRANSFORMERS["StreamingKernelPCA"]))
    np.testing.assert_allclose(
        table.iloc[:, :3].to_numpy(), alone.fit_transform(X[numbers]), atol=1e-7
    )
    model = make_pipeline(columns, LogisticRegression())
    assert cross_val_score(model, X, y, cv=3).mean() > 0.85


def test_two_groups_of_columns_have_models_of_their_own() -> None:
    X, _ = wine()
    X = X.to_numpy()
    model = TRANSFORMERS["StreamingKernelPCA"]
    columns = make_column_transformer((clone(model), slice(0, 6)), (clone(model), slice(6, 13)))
    found = columns.fit_transform(X)
    assert found.shape == (178, 6)
    np.testing.assert_array_equal(found[:, :3], clone(model).fit_transform(X[:, :6]))
    np.testing.assert_array_equal(found[:, 3:], clone(model).fit_transform(X[:, 6:]))
    names = list(columns.get_feature_names_out())
    assert len(set(names)) == 6


def test_feature_union() -> None:
    X, y = wine()
    union = FeatureUnion(
        [
            ("linear", PCA(2)),
            ("wide", StreamingKernelPCA(3, gamma=0.01, basis=30, random_state=0)),
            ("narrow", StreamingKernelPCA(3, gamma=0.2, basis=30, random_state=0)),
        ]
    )
    pipeline = make_pipeline(StandardScaler(), union)
    found = pipeline.fit_transform(X)
    assert list(pipeline.get_feature_names_out()) == [
        "linear__pca0",
        "linear__pca1",
        *(f"wide__streamingkernelpca{i}" for i in range(3)),
        *(f"narrow__streamingkernelpca{i}" for i in range(3)),
    ]
    assert not np.allclose(found[:, 2:5], found[:, 5:])
    both = make_pipeline(StandardScaler(), union, LogisticRegression())
    assert cross_val_score(both, X, y, cv=3).mean() > 0.9
    search = GridSearchCV(both, {"featureunion__narrow__gamma": [0.05, 0.2]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.9


def test_components_serve_a_linear_model_as_well_as_the_ridge() -> None:
    # z regressed on all components is the ridge without shrinkage: two ways to one model
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = StreamingKernelPCA(gamma=0.01, basis=15, random_state=0)
    linear = make_pipeline(model, LinearRegression()).fit(X, y)
    basis = landmarks.Landmarks(model.fit(X).basis_points_)
    ridge = StreamingKernelRidge(gamma=0.01, basis=basis, alpha=1e-10, random_state=0).fit(X, y)
    np.testing.assert_allclose(ridge.predict(X), linear.predict(X), rtol=1e-3)
