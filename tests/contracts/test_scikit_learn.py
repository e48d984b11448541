"""The manners of scikit-learn, and what the public attributes promise."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import pickle
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from kernelstream import StreamingKernelPCA, kernels, landmarks, papers, preimages, trackers
from kernelstream.papers import schedules
from tests import samples
from tests.conftest import wrongly_checked

SLOW_STEP = papers.Hebbian(schedules.SearchThenConverge(0.05, 100.0))
BASES = samples.landmark_strategies(20)
TRACKERS: dict[str, Any] = {"covariance": trackers.Covariance(), "hebbian": SLOW_STEP}
KERNELS: dict[str, Any] = {
    **samples.kernels_of_numbers(),
    "sum": 0.5 * kernels.RBF(gamma=0.3) + kernels.Linear(),
    "product": kernels.RBF(gamma=0.1) * kernels.Polynomial(degree=2),
}


def rows(n: int = 120, d: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)) * np.linspace(1.0, 2.0, d)


def model(n_components: Any = 3, **parameters: Any) -> StreamingKernelPCA:
    return StreamingKernelPCA(n_components, **{"random_state": 0, **parameters})


def arrays_in(value: Any, path: str = "") -> list[tuple[str, np.ndarray]]:
    """Every array in a tree of dataclasses and tuples, with its place."""
    if isinstance(value, np.ndarray):
        return [(path, value)]
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return [a for f in fields for a in arrays_in(getattr(value, f.name), f"{path}.{f.name}")]
    if isinstance(value, tuple):
        return [a for i, v in enumerate(value) for a in arrays_in(v, f"{path}.{i}")]
    return []


# --- scikit-learn's own checks


WEIGHTS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "sampled": dict.fromkeys(
        WEIGHTS,
        "fewer points than rows are drawn at random, and the draw is a function of the row's "
        "place: other rows come out when a row is repeated instead of weighted",
    ),
    "hebbian": dict.fromkeys(
        WEIGHTS,
        "a sequential rule learns rows in their order (the check shuffles them), and one step of "
        "twice the length is not two steps",
    ),
    "forgetting": dict.fromkeys(
        WEIGHTS,
        "forgetting counts rows: a row given twice ages the rows before it twice, and the check "
        "shuffles the rows",
    ),
}
CHECKED = {
    "default": StreamingKernelPCA(),
    "everything": StreamingKernelPCA(basis="everything"),
    "landmarks": StreamingKernelPCA(basis="landmarks"),
    "distance": StreamingKernelPCA(basis="distance"),
    "coherence": StreamingKernelPCA(basis="coherence"),
    "sampled": StreamingKernelPCA(basis=landmarks.Landmarks(8)),
    "hebbian": StreamingKernelPCA(2, tracker=papers.Hebbian()),
    "forgetting": StreamingKernelPCA(tracker=trackers.Covariance(forgetting=0.99)),
    "standard": StreamingKernelPCA(basis="everything", scale="standard"),
    "share": StreamingKernelPCA(0.9, basis="everything", kernel="linear", center=False),
}
NAME_OF = {repr(estimator): name for name, estimator in CHECKED.items()}


def expected_failures(estimator: Any) -> dict[str, str]:
    return EXPECTED_FAILURES.get(NAME_OF[repr(estimator)], {}) | wrongly_checked(estimator)


# The checks use weights up to 5, with which the default step of Hebbian is too long: it says so.
@pytest.mark.filterwarnings("ignore:Hebbian. the step was too long:RuntimeWarning")
@samples.checks(list(CHECKED.values()), expected_failed_checks=expected_failures)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@samples.grid("basis, n, center", ["everything", "landmarks", "distance"], [60, 700], [True, False])
def test_a_weight_of_two_is_the_row_twice(basis: str, n: int, center: bool) -> None:
    # More rows than a block: neither the cut into blocks nor the first block's signs may matter.
    X = rows(n, 3)
    weights = np.random.default_rng(1).integers(0, 4, n)
    given: Any = landmarks.Landmarks(X[:20]) if basis == "landmarks" else BASES[basis]
    blocks = {"batch_size": 64, "basis": given, "center": center}
    kernel = kernels.RBF(gamma=0.02)
    weighted = model(3, kernel=kernel, **blocks).fit(X, sample_weight=weights)
    repeated = model(3, kernel=kernel, **blocks).fit(np.repeat(X, weights, axis=0))
    # the eigenvectors' error is 1e-16 over the gap of the spectrum
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-9)
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(
        weighted.explained_variance_ratio_, repeated.explained_variance_ratio_, rtol=1e-9
    )


def test_the_order_of_the_rows_does_not_change_fit() -> None:
    X = rows(300)
    shuffled = np.random.default_rng(3).permutation(300)
    parts = {"basis": "everything", "kernel": "poly", "batch_size": 32}
    np.testing.assert_allclose(
        model(**parts).fit(X).transform(X),
        model(**parts).fit(X[shuffled]).transform(X),
        rtol=1e-8,
        atol=1e-8,
    )


def test_signs_are_those_of_scikit_learn() -> None:
    X = rows(80)
    ours = model(4, gamma=0.1, basis="everything").fit_transform(X)
    theirs = KernelPCA(4, kernel="rbf", gamma=0.1).fit_transform(X)
    np.testing.assert_allclose(ours, theirs, atol=1e-8)


# --- composition with scikit-learn


def test_pipeline() -> None:
    X = rows()
    pipeline = make_pipeline(StandardScaler(), model(gamma=0.2), StandardScaler())
    assert pipeline.fit_transform(X).shape == (120, 3)
    assert list(pipeline[:2].get_feature_names_out()) == [
        f"streamingkernelpca{i}" for i in range(3)
    ]
    assert np.isfinite(make_pipeline(StandardScaler(), model(gamma=0.2)).fit(X).score(X))


def test_grid_search_over_gamma() -> None:
    # A one-dimensional curve: a kernel that is far too narrow cannot reconstruct unseen rows.
    t = np.random.default_rng(0).uniform(0, 3, size=(150, 1))
    X = np.hstack([np.cos(t), np.sin(t), t])
    search = GridSearchCV(model(4), {"gamma": [1e-1, 1.0, 1e4]}, cv=3).fit(X)
    assert search.best_params_["gamma"] != 1e4
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_estimator_.kernel_.gamma == search.best_params_["gamma"]


@pytest.mark.parametrize(
    ("grid", "attribute"),
    [
        ({"tracker__forgetting": [0.9, 1.0]}, lambda e: e.tracker.forgetting),
        ({"basis__n_points": [5, 30]}, lambda e: len(e.basis_points_)),
        ({"kernel__gamma": [0.1, 1.0]}, lambda e: e.kernel_.gamma),
        (
            {"kernel": [kernels.Laplacian(), kernels.RBF()], "basis": [10, "distance"]},
            lambda e: e.basis,
        ),
        ({"preimage__alpha": [1e-3, 10.0]}, lambda e: e.preimage.alpha),
    ],
    ids=["tracker", "basis", "kernel", "parts", "preimage"],
)
def test_grid_search_over_the_parts(grid: dict[str, Any], attribute: Any) -> None:
    estimator = model(
        2,
        kernel=kernels.RBF(gamma=0.1),
        basis=landmarks.Centroids(15),
        tracker=trackers.Covariance(),
        preimage=preimages.Ridge() if "preimage__alpha" in grid else "auto",
    )
    search = GridSearchCV(estimator, grid, cv=2).fit(rows())
    scores = search.cv_results_["mean_test_score"]
    assert np.all(scores < 0)
    assert len(set(scores)) == len(scores), "the parameter had no effect"
    assert attribute(search.best_estimator_) in next(iter(grid.values())) or "basis" in grid


def test_parameters_of_parts_are_reached_and_cloned() -> None:
    estimator = model(kernel=kernels.RBF(0.1) + kernels.Linear(), tracker=trackers.Covariance())
    estimator.set_params(kernel__left__gamma=0.5, tracker__forgetting=0.99)
    copied = clone(estimator)
    assert copied.kernel.left.gamma == 0.5
    assert copied.tracker.forgetting == 0.99
    assert copied.kernel is not estimator.kernel
    assert not hasattr(clone(estimator.fit(rows())), "n_features_in_")


def test_a_change_of_parameters_waits_for_fit() -> None:
    X = rows()
    fitted = model(gamma=0.2).fit(X)
    before = fitted.transform(X)
    fitted.set_params(gamma=5.0)
    np.testing.assert_array_equal(fitted.transform(X), before)
    assert not np.allclose(fitted.fit(X).transform(X), before)


def test_a_change_inside_a_part_waits_for_fit_too() -> None:
    """The fitted model once held the user's own objects: a new gamma spoiled its answers."""
    X = rows(300)
    fitted = model(
        kernel=kernels.RBF(0.2) + kernels.Linear(),
        basis=landmarks.Centroids(20),
        tracker=papers.RLS(0.99, weights=[1.0, 0.7, 0.5]),
        batch_size=64,
    )
    untouched = clone(fitted).partial_fit(X)
    fitted.partial_fit(X).set_params(
        kernel__left__gamma=5.0, basis__n_points=3, tracker__forgetting=0.5
    )
    fitted.tracker.weights[2] = 0.1
    for _ in range(2):
        np.testing.assert_array_equal(fitted.transform(X), untouched.transform(X))
        fitted.partial_fit(X), untouched.partial_fit(X)
    assert fitted.set_params(tracker="covariance").fit(X).kernel_.left.gamma == 5.0


def test_fit_leaves_the_parts_as_they_were() -> None:
    kernel, basis = kernels.RBF(), landmarks.Landmarks(10)
    model(kernel=kernel, basis=basis).fit(rows())
    assert kernel.gamma == "median"
    assert vars(basis) == {"points": 10}


@samples.grid("tracker, basis, copier", TRACKERS, BASES, ["pickle", "deepcopy", "joblib"])
def test_copies_go_on_alike(basis: str, tracker: str, copier: str, tmp_path: Any) -> None:
    X = rows(400)
    first = model(2, basis=BASES[basis], tracker=TRACKERS[tracker], batch_size=64)
    first.partial_fit(X[:150])
    before = first.transform(X)  # a computed view is no part of the copy
    if copier == "pickle":
        second = pickle.loads(pickle.dumps(first))
    elif copier == "deepcopy":
        second = copy.deepcopy(first)
    else:
        joblib.dump(first, tmp_path / "model")
        second = joblib.load(tmp_path / "model")
    np.testing.assert_array_equal(second.transform(X), before)
    second.partial_fit(X[150:])
    np.testing.assert_array_equal(first.transform(X), before)
    first.partial_fit(X[150:])
    np.testing.assert_array_equal(second.transform(X), first.transform(X))


def test_a_pickle_holds_no_computed_views() -> None:
    fitted = model().fit(rows())
    size = len(pickle.dumps(fitted))
    fitted.transform(rows())
    assert len(pickle.dumps(fitted)) == size


def test_a_callable_kernel_can_be_pickled() -> None:
    fitted = model(kernel=cubic).fit(rows())
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(rows()), fitted.transform(rows()))


def cubic(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return (X @ Y.T + 1.0) ** 3


@pytest.mark.parametrize("prefer", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_joblib_in_parallel(prefer: str) -> None:
    X = rows(200)
    estimators = [model(2, basis=10, random_state=seed) for seed in range(4)]
    serial = [clone(e).fit_transform(X) for e in estimators]
    parallel = joblib.Parallel(n_jobs=2, prefer=prefer)(
        joblib.delayed(fit_transform)(clone(e), X) for e in estimators
    )
    for one, other in zip(serial, parallel, strict=True):
        np.testing.assert_array_equal(one, other)


def fit_transform(estimator: StreamingKernelPCA, X: np.ndarray) -> np.ndarray:
    return estimator.fit_transform(X)


# --- names, frames and metadata


def test_set_output_and_names() -> None:
    X = rows()
    fitted = model(gamma=0.2).fit(X)
    names = [f"streamingkernelpca{i}" for i in range(3)]
    assert list(fitted.get_feature_names_out()) == names
    plain = fitted.transform(X)
    frame = (
        clone(fitted)
        .set_output(transform="pandas")
        .fit_transform(pd.DataFrame(X, index=range(5, 125)))
    )
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == names
    assert list(frame.index) == list(range(5, 125))
    # a frame is held by columns: sums run in another order
    np.testing.assert_allclose(frame.to_numpy(), plain, atol=1e-14)
    table = fitted.set_output(transform="polars").transform(X)
    assert isinstance(table, pl.DataFrame)
    assert table.columns == names
    np.testing.assert_array_equal(table.to_numpy(), plain)
    # scores as a frame go back
    assert np.asarray(fitted.inverse_transform(frame)).shape == X.shape


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_feature_names_are_kept_and_checked(frame: Any, tmp_path: Any) -> None:
    columns = ["a", "b", "c", "d"]
    X = frame(dict(zip(columns, rows().T, strict=True)))
    stream = model(gamma=0.2).partial_fit(X)
    assert list(stream.feature_names_in_) == columns
    stream.partial_fit(X)
    wrong = frame(dict(zip(["a", "b", "d", "c"], rows().T, strict=True)))
    for call in (stream.partial_fit, stream.transform, stream.reconstruction_error, stream.score):
        with pytest.raises(ValueError, match="feature names"):
            call(wrong)
    stream.save(tmp_path / "m.safetensors")
    again = StreamingKernelPCA.load(tmp_path / "m.safetensors")
    assert list(again.feature_names_in_) == columns
    with pytest.raises(ValueError, match="feature names"):
        again.transform(wrong)
    with pytest.warns(UserWarning, match="feature names"):
        again.transform(rows())


def test_metadata_routing_carries_sample_weight() -> None:
    X = rows(60)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 60)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = model(basis="everything").set_fit_request(sample_weight=True)
        routed.set_partial_fit_request(sample_weight=True)
        pipeline = make_pipeline(FunctionTransformer(), routed).fit(X, sample_weight=weights)
        direct = model(basis="everything").fit(X, sample_weight=weights)
        np.testing.assert_array_equal(pipeline.transform(X), direct.transform(X))
        search = GridSearchCV(routed, {"gamma": [0.1, 1.0]}, cv=2).fit(X, sample_weight=weights)
        assert search.best_score_ < 0
        refused = model().set_fit_request(sample_weight=False)
        with pytest.raises(TypeError, match="sample_weight"):
            make_pipeline(refused).fit(X, sample_weight=weights)


# --- types


@samples.grid(
    "kernel, tracker, basis, learn",
    ["rbf", "poly", "laplacian", "matern"],
    TRACKERS,
    BASES,
    ["fit", "partial_fit"],
)
def test_float32_in_float32_out_float64_inside(
    basis: str, tracker: str, kernel: str, learn: str
) -> None:
    X = (rows(700) / 4).astype(np.float32)  # small energies: no step is too long
    fitted = model(2, kernel=kernel, basis=BASES[basis], tracker=TRACKERS[tracker])
    getattr(fitted, learn)(X)
    assert fitted.transform(X).dtype == np.float32
    assert fitted.reconstruction_error(X).dtype == np.float32
    assert fitted.transform(X.astype(np.float64)).dtype == np.float64
    assert fitted.transform_one(X[0]).dtype == np.float32
    assert fitted.inverse_transform(fitted.transform(X)).dtype == np.float32
    assert fitted.basis_points_.dtype == np.float32
    assert fitted.dual_coef_.dtype == fitted.intercept_.dtype == np.float64
    assert fitted.explained_variance_.dtype == np.float64
    # Rows, points and per-row coordinates keep their type; whatever accumulates is float64.
    held = arrays_in(fitted.stream_.state)
    per_row = (".points", ".projector", ".recent", ".rows", ".coordinates")
    for place, array in held:
        if array.dtype == np.float32:
            assert any(name in place for name in per_row), place
    accumulators = [
        a for p, a in held if p.endswith((".total", ".scatter", ".V", ".sums", ".mass"))
    ]
    assert len(accumulators) >= 2
    assert all(a.dtype == np.float64 for a in accumulators)


def test_float32_is_as_good_as_its_rounding() -> None:
    X = rows(600)
    double = model(gamma=0.1, basis=landmarks.Landmarks(X[:40])).fit(X)
    single = model(gamma=0.1, basis=landmarks.Landmarks(X[:40])).fit(X.astype(np.float32))
    # 6e-8 per kernel value, amplified by the factor of a rank floor of 1e-8
    np.testing.assert_allclose(single.explained_variance_, double.explained_variance_, rtol=1e-5)
    np.testing.assert_allclose(single.transform(X), double.transform(X), atol=1e-4)


def test_a_stream_keeps_the_type_it_began_with() -> None:
    stream = model(gamma=0.1).partial_fit(rows(30).astype(np.float32)).partial_fit(rows(30))
    assert stream.basis_points_.dtype == np.float32
    mixed = model(gamma=0.1).partial_fit(rows(30)).partial_fit(rows(30).astype(np.float32))
    assert mixed.basis_points_.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool, np.float16, np.longdouble])
def test_other_numbers_are_read_as_float64(dtype: Any) -> None:
    X = np.abs(rows() * 10).astype(dtype)
    fitted = model(gamma=0.01).fit(X)
    assert fitted.transform(X).dtype == np.float64
    np.testing.assert_array_equal(fitted.transform(X), fitted.transform(X.astype(np.float64)))


@samples.grid(
    "sparse, tracker, basis",
    [scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.coo_array],
    TRACKERS,
    BASES,
)
def test_sparse_rows(basis: str, tracker: str, sparse: Any) -> None:
    X = rows(700, 12)
    X[np.random.default_rng(0).random(X.shape) < 0.5] = 0.0
    dense = model(2, gamma=0.05, basis=BASES[basis], tracker=TRACKERS[tracker], batch_size=128)
    csr = clone(dense)
    for start in (0, 250, 600):
        stop = {0: 250, 250: 600, 600: 700}[start]
        dense.partial_fit(X[start:stop])
        csr.partial_fit(sparse(X[start:stop]))
    # the same arithmetic, summed in another order
    np.testing.assert_allclose(csr.transform(sparse(X)), dense.transform(X), atol=1e-8)
    np.testing.assert_allclose(
        csr.reconstruction_error(sparse(X)), dense.reconstruction_error(X), atol=1e-8
    )
    np.testing.assert_allclose(
        csr.transform_one(sparse(X[[0]])), dense.transform_one(X[0]), atol=1e-8
    )
    assert csr.score(sparse(X)) == pytest.approx(dense.score(X), rel=1e-6)


# --- how many components


@pytest.mark.parametrize("kernel", ["rbf", kernels.RBF("scale"), kernels.Polynomial(2, "scale")])
def test_sparse_rows_that_name_an_entry_twice(kernel: Any) -> None:
    X = np.round(rows(60))
    half = scipy.sparse.csr_matrix(X / 2)
    entries = np.concatenate(  # those of each row, twice
        [np.tile(np.arange(a, b), 2) for a, b in itertools.pairwise(half.indptr)]
    )
    twice = scipy.sparse.csr_matrix(
        (half.data[entries], half.indices[entries], 2 * half.indptr), shape=half.shape
    )
    np.testing.assert_array_equal(twice.toarray(), X)
    n_stored = twice.nnz
    ours = model(3, kernel=kernel, basis="everything").fit(twice)
    np.testing.assert_allclose(
        ours.transform(twice), model(3, kernel=kernel, basis="everything").fit(X).transform(X)
    )
    assert twice.nnz == n_stored  # what the user holds stays as it was


def test_n_components_none_shows_all_with_variance() -> None:
    X = rows(50, 3)
    linear = model(None, kernel="linear", basis="everything").fit(X)
    assert linear.n_components_ == 3
    assert linear.transform(X).shape == (50, 3)
    assert linear.explained_variance_ratio_.sum() == pytest.approx(1.0, abs=1e-12)
    rbf = model(None, gamma=0.5, basis="everything").fit(X)
    assert rbf.n_components_ == 49  # fifty points less the mean
    assert model(None, gamma=0.5, basis="everything", center=False).fit(X).n_components_ == 50


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_n_components_as_a_share_of_the_variance(share: float) -> None:
    X = rows(200)
    fitted = model(share, gamma=0.1, basis=40).fit(X)
    ratio = np.cumsum(fitted.explained_variance_ratio_)
    r = fitted.n_components_
    whole = model(None, gamma=0.1, basis=40).fit(X)
    if ratio[-1] < share:  # the basis does not hold as much: everything is shown
        assert r == whole.n_components_
    else:
        assert r == 1 or ratio[-2] < share
    np.testing.assert_allclose(
        whole.explained_variance_[:r], fitted.explained_variance_, rtol=1e-12
    )


def test_more_components_than_the_data_has() -> None:
    X = rows(30, 2)
    fitted = model(5, kernel="linear", basis="everything").fit(X)
    scores = fitted.transform(X)
    assert scores.shape == (30, 5)
    assert np.all(scores[:, 2:] == 0)
    assert np.all(fitted.explained_variance_[2:] == 0)
    np.testing.assert_allclose(fitted.inverse_transform(scores), X, atol=1e-12)
    one = model(3, gamma=1.0).fit(X[:1])
    assert np.all(one.transform(X[:1]) == 0)
    assert np.all(one.explained_variance_ == 0)


def test_numpy_integers_and_shares_are_numbers() -> None:
    X = rows()
    assert model(np.int64(2)).fit(X).n_components_ == 2
    assert model(np.float64(0.5)).fit(X).n_components_ >= 1


# --- what the attributes promise


def unstandardised(fitted: StreamingKernelPCA, X: np.ndarray) -> np.ndarray:
    standard = fitted.stream_.scaler
    return X if standard is None else standard.apply(X)


@samples.grid(
    "center, tracker, kernel, basis, learn",
    [True, False],
    TRACKERS,
    KERNELS,
    BASES,
    ["fit", "partial_fit"],
)
def test_attributes(kernel: str, basis: str, tracker: str, center: bool, learn: str) -> None:
    X, unseen = rows(600) / 2, rows(40, seed=1) / 2
    fitted = model(
        4, kernel=KERNELS[kernel], basis=BASES[basis], tracker=TRACKERS[tracker], center=center
    )
    getattr(fitted, learn)(X)
    D, A, b = fitted.basis_points_, fitted.dual_coef_, fitted.intercept_
    m, r = A.shape
    k = fitted.kernel_
    assert D.shape == (m, 4)
    assert r == fitted.n_components_ == 4
    assert fitted.n_samples_seen_ == 600
    assert fitted.n_features_in_ == 4

    # transform(X) == k(X, D) A − b. The terms are |k| |A|, whose rounding remains.
    size = np.abs(A).sum(axis=0).max() * np.abs(k(D)).max()
    np.testing.assert_allclose(fitted.transform(unseen), k(unseen, D) @ A - b, atol=1e-15 * size)

    # unit vectors of feature space, orthogonal where the tracker makes them so
    G = A.T @ k(D) @ A
    rounding = 1e-6  # K is known to 1e-16, F up to a rank floor of 1e-10
    np.testing.assert_allclose(np.diag(G), 1.0, atol=rounding)
    if tracker == "covariance":
        np.testing.assert_allclose(G, np.eye(r), atol=rounding)

    # the intercept is the score of the mean, the mean a combination of the points
    np.testing.assert_allclose(
        b, A.T @ k(D) @ fitted.mean_coef_, atol=rounding * max(1, abs(b).max())
    )
    if not center:
        assert np.all(b == 0)

    # variances, in order
    variances = fitted.explained_variance_
    assert np.all(np.diff(variances) <= 0)
    np.testing.assert_allclose(fitted.eigenvalues_, variances * 600, rtol=1e-14)
    if tracker == "covariance":  # others estimate the variances along the way
        assert fitted.explained_variance_ratio_.sum() <= 1.0 + 1e-9
    # compressing a set of landmarks loses some variance
    if learn == "fit" and tracker == "covariance" and basis != "reduced_set":
        scores = fitted.transform(X)
        np.testing.assert_allclose(np.mean(scores**2, axis=0), variances, rtol=1e-6)
        if center:
            np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=1e-8 * scores.std())
        off = scores.T @ scores / 600 - np.diag(variances)
        np.testing.assert_allclose(off, 0.0, atol=1e-6 * variances[0])

    # |φ(x) − Pφ(x)|² by its definition: P projects on mean + span of the components
    c = np.zeros(m) if fitted.mean_coef_ is None else fitted.mean_coef_
    y = k(unseen, D) @ A - b
    held = c[None, :] + y @ np.linalg.pinv(G) @ A.T
    cross = np.sum(k(unseen, D) * held, axis=1)
    direct = np.diag(k(unseen)) - 2 * cross + np.einsum("ij,jk,ik->i", held, k(D), held)
    energy = np.diag(k(unseen)).max()
    np.testing.assert_allclose(fitted.reconstruction_error(unseen), direct, atol=1e-6 * energy)


@pytest.mark.parametrize("name", ["transform", "reconstruction_error", "score", "transform_one"])
def test_queries_before_the_first_row(name: str) -> None:
    with pytest.raises(NotFittedError, match="partial_fit"):
        getattr(model(), name)(rows())


def test_attributes_before_the_first_row() -> None:
    for name in (
        "n_components_",
        "explained_variance_",
        "dual_coef_",
        "kernel_",
        "n_samples_seen_",
    ):
        assert not hasattr(model(), name)
        with pytest.raises(NotFittedError):
            getattr(model(), name)
    for call in (lambda: model().save("nowhere"), lambda: model().to_sklearn()):
        with pytest.raises(NotFittedError, match="fit"):
            call()
    with pytest.raises(NotFittedError):
        model().inverse_transform(np.zeros((1, 3)))


@pytest.mark.parametrize("tracker", TRACKERS)
@pytest.mark.parametrize("basis", BASES)
def test_a_query_does_not_change_the_model(basis: str, tracker: str, tmp_path: Any) -> None:
    X = rows(330)
    stream = model(2, gamma=0.1, basis=BASES[basis], tracker=TRACKERS[tracker], batch_size=50)
    stream.partial_fit(X)
    stream.save(tmp_path / "before")
    stream.transform(X)
    stream.transform_one(X[0])
    stream.reconstruction_error(X)
    assert stream.n_components_ == 2
    assert stream.explained_variance_ratio_.shape == (2,)
    stream.score(X)
    stream.to_sklearn()
    stream.save(tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


# --- going back


@pytest.mark.parametrize("tracker", TRACKERS)
@pytest.mark.parametrize(("kernel", "basis"), samples.pairs(KERNELS, BASES))
def test_inverse_transform_shapes(kernel: str, basis: str, tracker: str) -> None:
    X = rows(100) / 2
    fitted = model(2, kernel=KERNELS[kernel], basis=BASES[basis], tracker=TRACKERS[tracker]).fit(X)
    for n in (1, 7):
        back = fitted.inverse_transform(fitted.transform(X[:n]))
        assert back.shape == (n, 4)
        assert np.all(np.isfinite(back))


def test_inverse_transform_of_the_linear_kernel_is_that_of_pca() -> None:
    X = rows()
    for parameters in ({}, {"scale": "standard"}, {"center": False}):
        fitted = model(None, kernel="linear", basis="everything", **parameters).fit(X)
        np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(X)), X, atol=1e-10)


def test_score_is_minus_the_mean_squared_error() -> None:
    X = rows()
    for parameters in ({}, {"scale": "standard"}, {"kernel": "poly"}):
        fitted = model(2, **parameters).fit(X)
        back = fitted.inverse_transform(fitted.transform(X))
        assert fitted.score(X) == pytest.approx(-np.mean((back - X) ** 2), rel=1e-12)
    # a narrow kernel explains less of the data, whatever it explains in feature space
    wide, narrow = (model(2, gamma=g).fit(X[:60]).score(X[60:]) for g in (0.05, 50.0))
    assert wide > narrow


@pytest.mark.parametrize("scale", [None, "standard"])
def test_score_of_a_frame_is_that_of_its_numbers(scale: str | None) -> None:
    """Without the warning that names are missing, which the user has given."""
    X = rows(80)
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = model(3, scale=scale).set_output(transform="pandas").fit(frame)
    expected = model(3, scale=scale).fit(X).score(X)
    assert named.score(frame) == pytest.approx(expected, rel=1e-12)


def test_many_rows_are_queried_in_pieces() -> None:
    fitted = model(2, gamma=0.1, basis=10).fit(rows())
    many = rows(9000)
    scores = fitted.transform(many)
    # products of another height may round differently
    np.testing.assert_allclose(scores[8000:], fitted.transform(many[8000:]), atol=1e-13)
    back = fitted.inverse_transform(scores)
    np.testing.assert_allclose(back[8000:], fitted.inverse_transform(scores[8000:]), atol=1e-5)
    assert fitted.reconstruction_error(many).shape == (9000,)


# --- standardised input


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scale_standard_is_a_standard_scaler(kernel: str, dtype: Any) -> None:
    X = (rows(300) * [1e-3, 1.0, 1e4, 1.0] + [0.0, 50.0, -1e3, 0.1]).astype(dtype)
    X[:, 3] = 0.1  # a constant column keeps its unit
    other = (rows(50, seed=2) * [1e-3, 1.0, 1e4, 1.0]).astype(dtype)
    scaled = model(3, kernel=kernel, basis="everything", scale="standard").fit(X)
    pipeline = make_pipeline(StandardScaler(), model(3, kernel=kernel, basis="everything")).fit(X)
    tolerance = 1e-8 if dtype is np.float64 else 2e-3
    for given in (X, other):
        expected = pipeline.transform(given)
        limit = tolerance * np.abs(expected).max()
        np.testing.assert_allclose(scaled.transform(given), expected, atol=limit)
        np.testing.assert_allclose(
            scaled.reconstruction_error(given),
            pipeline[1].reconstruction_error(pipeline[0].transform(given)),
            atol=10 * limit * max(1, np.abs(expected).max()),
        )


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_given_landmarks_are_standardised_as_the_rows_are(learn: str) -> None:
    """They once were not: far from all rows, they saw nothing, and every score was zero."""
    X = rows(600) * [1.0, 10.0, 100.0, 1e3] + 50.0
    scaler = StandardScaler().fit(X if learn == "fit" else X[:500])
    ours = model(3, gamma=0.1, basis=landmarks.Landmarks(X[:30]), scale="standard")
    by_hand = model(3, gamma=0.1, basis=landmarks.Landmarks(scaler.transform(X[:30])))
    getattr(ours, learn)(X)
    getattr(by_hand, learn)(scaler.transform(X))
    np.testing.assert_allclose(ours.explained_variance_, by_hand.explained_variance_, rtol=1e-9)
    expected = by_hand.transform(scaler.transform(X))
    np.testing.assert_allclose(ours.transform(X), expected, atol=1e-9)
    np.testing.assert_allclose(ours.basis_points_, by_hand.basis_points_, atol=1e-12)
    with pytest.raises(ValueError, match="the points have 3 features, the rows have 4"):
        model(3, basis=landmarks.Landmarks(X[:30, :3]), scale="standard").fit(X)


def test_scale_standard_of_a_stream_is_that_of_its_first_rows() -> None:
    X = rows(1500) * 30 + 7
    stream = model(2, gamma=0.1, basis="everything", scale="standard", batch_size=100)
    for start in range(0, 1500, 70):
        stream.partial_fit(X[start : start + 70])
        assert np.all(np.isfinite(stream.transform(X[:5])))
    scaler = StandardScaler().fit(X[:500])
    by_hand = model(2, gamma=0.1, basis="everything", batch_size=100)
    by_hand.partial_fit(scaler.transform(X))
    np.testing.assert_allclose(
        stream.transform(X), by_hand.transform(scaler.transform(X)), atol=1e-8
    )


def test_scale_standard_refuses_sparse_rows() -> None:
    with pytest.raises(ValueError, match=r"scale='standard' needs dense rows.*MaxAbsScaler"):
        model(scale="standard").fit(scipy.sparse.csr_matrix(rows()))


# --- one row at a time


@samples.grid("scale, tracker, basis", [None, "standard"], TRACKERS, BASES)
def test_learn_one_is_partial_fit(
    basis: str, tracker: str, scale: str | None, tmp_path: Any
) -> None:
    X = rows(620)
    parts = {"gamma": 0.1, "basis": BASES[basis], "tracker": TRACKERS[tracker], "scale": scale}
    blocks = model(2, **parts, batch_size=40).partial_fit(X)
    single = model(2, **parts, batch_size=40)
    for x in X:
        single.learn_one(x)
    blocks.save(tmp_path / "blocks")
    single.save(tmp_path / "single")
    assert (tmp_path / "blocks").read_bytes() == (tmp_path / "single").read_bytes()


@samples.grid("scale, tracker, basis, n", [None, "standard"], TRACKERS, BASES, [5, 330, 520])
def test_transform_one(basis: str, tracker: str, scale: str | None, n: int) -> None:
    X = rows(n) * 3 + 1
    stream = model(
        2, gamma=0.1, basis=BASES[basis], tracker=TRACKERS[tracker], scale=scale, batch_size=1
    ).partial_fit(X)
    expected = stream.transform(X[:1])[0]
    settles = basis == "centroids" and n > 500  # transform moves the points of a copy first
    if not settles:
        np.testing.assert_allclose(stream.transform_one(X[0]), expected, atol=1e-9)
    assert stream.transform_one(X[0]).shape == (2,)
    assert stream.transform_one(list(X[0])).shape == (2,)


def test_transform_one_shows_the_last_finished_block() -> None:
    X = rows(150)
    stream = model(2, gamma=0.1, basis="everything", batch_size=100).partial_fit(X)
    block = model(2, gamma=0.1, basis="everything", batch_size=100).partial_fit(X[:100])
    np.testing.assert_allclose(stream.transform_one(X[0]), block.transform(X[:1])[0], atol=1e-12)


def test_learn_one_copies_the_row() -> None:
    X = rows(50)
    one, other = model(2, gamma=0.1), model(2, gamma=0.1)
    buffer = np.empty(4)
    for x in X:
        buffer[:] = x
        one.learn_one(buffer)
        other.learn_one(x)
    np.testing.assert_array_equal(one.transform(X), other.transform(X))


def test_partial_fit_copies_the_rows() -> None:
    X = rows(50)
    reused = X.copy()
    stream = model(2, gamma=0.1).partial_fit(reused)
    expected = stream.transform(X)
    reused[:] = 7.0
    again = model(2, gamma=0.1).partial_fit(X)
    np.testing.assert_array_equal(stream.transform(X), expected)
    np.testing.assert_array_equal(
        again.partial_fit(X).transform(X), stream.partial_fit(X).transform(X)
    )


# --- randomness


def test_random_state() -> None:
    X = rows(700)
    parameters = {"basis": 10, "gamma": 0.1}
    seeded = model(2, random_state=3, **parameters).fit_transform(X)
    np.testing.assert_array_equal(model(2, random_state=3, **parameters).fit_transform(X), seeded)
    assert not np.array_equal(model(2, random_state=4, **parameters).fit_transform(X), seeded)
    generator = np.random.RandomState(0)
    first = model(2, random_state=generator, **parameters).fit_transform(X)
    again = model(2, random_state=np.random.RandomState(0), **parameters).fit_transform(X)
    np.testing.assert_array_equal(first, again)


def test_verbose_reports_through_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="kernelstream"):
        model(verbose=True).partial_fit(rows(30)).partial_fit(rows(12))
    assert "42 rows seen" in caplog.text


def test_n_tamed_steps() -> None:
    X = rows() * 100
    rule = papers.Hebbian(schedules.ConstantRate(0.5))
    with pytest.warns(RuntimeWarning, match="smaller step"):
        n_shortened = model(2, kernel="linear", tracker=rule, basis="everything").fit(X)
    assert n_shortened.n_shortened_steps_ > 0
    assert np.all(np.isfinite(n_shortened.transform(X)))
    assert model(2).fit(X).n_shortened_steps_ == 0
