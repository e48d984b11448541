"""``to_sklearn()``: a fitted KernelPCA that gives our scores."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelstream import StreamingKernelPCA, kernels, papers, trackers
from kernelstream.papers import schedules
from tests import samples

KERNELS: dict[str, Any] = {
    "rbf": "rbf",
    "rbf wide": kernels.RBF(gamma=1e-3),
    "rbf narrow": kernels.RBF(gamma=50.0),
    "polynomial": "poly",
    "polynomial 5": kernels.Polynomial(degree=5, gamma=0.1, coef0=0.5),
    "homogeneous": kernels.Polynomial(degree=2, gamma=1.0, coef0=0.0),
    "linear": "linear",
    "cosine": "cosine",
    # indefinite, but on these rows by less than rounding
    "sigmoid": kernels.Sigmoid(gamma=1e-4, coef0=0.0),
}
BASES = samples.landmark_strategies(15)
TRACKERS: dict[str, Any] = {
    "covariance": trackers.Covariance(),
    "hebbian": papers.Hebbian(schedules.SearchThenConverge(0.02, 100.0)),
}


def rows(n: int = 150, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 4)) / 2 + 0.2


def model(n_components: Any = 3, **parameters: Any) -> StreamingKernelPCA:
    return StreamingKernelPCA(n_components, **{"random_state": 0, **parameters})


def assert_same(ours: StreamingKernelPCA, X: np.ndarray) -> KernelPCA:
    theirs = ours.to_sklearn()
    expected = ours.transform(X)
    np.testing.assert_allclose(theirs.transform(X), expected, rtol=0, atol=1e-10)
    return theirs


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("tracker", TRACKERS)
@pytest.mark.parametrize(("kernel", "basis"), samples.pairs(KERNELS, BASES))
def test_the_same_scores(kernel: str, basis: str, tracker: str, center: bool) -> None:
    ours = model(
        kernel=KERNELS[kernel], basis=BASES[basis], tracker=TRACKERS[tracker], center=center
    ).fit(rows())
    theirs = assert_same(ours, rows(40, seed=1))
    np.testing.assert_allclose(theirs.eigenvalues_, ours.eigenvalues_)
    assert theirs.n_features_in_ == 4


def test_with_unfinished_blocks_and_single_precision() -> None:
    stream = model(basis=15, batch_size=64).partial_fit(rows(700)).partial_fit(rows(30, seed=2))
    assert_same(stream, rows(40, seed=1))
    assert_same(model(basis=15).partial_fit(rows(20)), rows(40, seed=1))
    single = model(basis=15).fit(rows().astype(np.float32))
    np.testing.assert_allclose(
        single.to_sklearn().transform(rows(40, seed=1)),
        single.transform(rows(40, seed=1)),
        atol=1e-9,
    )


@pytest.mark.parametrize("n_components", [1, None, 0.9, 12])
def test_any_number_of_components(n_components: Any) -> None:
    ours = model(n_components, kernel="linear", basis="everything").fit(rows())
    theirs = assert_same(ours, rows(40, seed=1))
    assert theirs.transform(rows(2)).shape == (2, ours.n_components_)


def test_data_without_variance() -> None:
    X = np.ones((20, 4))
    theirs = model(2, gamma=1.0).fit(X).to_sklearn()
    assert np.all(theirs.transform(rows(5)) == 0)


def test_it_is_a_fitted_estimator() -> None:
    ours = model(gamma=0.5, basis=15).fit(rows())
    theirs = ours.to_sklearn()
    assert isinstance(theirs, KernelPCA)
    expected = ours.transform(rows(9, seed=1))
    again = pickle.loads(pickle.dumps(theirs))
    np.testing.assert_array_equal(
        again.transform(rows(9, seed=1)), theirs.transform(rows(9, seed=1))
    )
    assert list(theirs.get_feature_names_out()) == ["kernelpca0", "kernelpca1", "kernelpca2"]
    assert theirs.get_params()["kernel"] == "rbf"
    assert theirs.get_params()["gamma"] == 0.5
    fresh = clone(theirs).fit(rows())  # and can be fitted again, exactly
    assert fresh.transform(rows(9, seed=1)).shape == expected.shape
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False).fit(rows()), theirs)
    np.testing.assert_allclose(pipeline.transform(rows(9, seed=1)), expected, atol=1e-10)


def test_the_export_is_a_copy() -> None:
    ours = model(gamma=0.5, basis=15).fit(rows())
    expected = ours.transform(rows(9))
    theirs = ours.to_sklearn()
    for name in ("X_fit_", "eigenvalues_", "eigenvectors_"):
        getattr(theirs, name)[:] = 0.0
    np.testing.assert_array_equal(ours.transform(rows(9)), expected)


@pytest.mark.parametrize(
    "kernel",
    [
        "laplacian",
        "exponential",
        "matern",
        kernels.RBF(gamma=0.1) + kernels.Linear(),
        2.0 * kernels.RBF(gamma=0.1),
        lambda X, Y: X @ Y.T,
    ],
    ids=["laplacian", "exponential", "matern", "sum", "product", "callable"],
)
def test_kernels_that_scikit_learn_lacks(kernel: Any) -> None:
    with pytest.raises(ValueError, match=r"KernelPCA has no kernel like .*RBF, Polynomial"):
        model(kernel=kernel).fit(rows()).to_sklearn()


def test_a_kernel_that_vanishes_nowhere() -> None:
    """The far point of the export was not far for rows of 1e149, and scores were off."""
    X = np.random.default_rng(0).normal(size=(60, 3)) * 1e149
    with pytest.raises(ValueError, match="vanishes nowhere"):
        StreamingKernelPCA(2, basis=20, random_state=0).fit(X).to_sklearn()
    wide = StreamingKernelPCA(2, basis=20, random_state=0).fit(X * 1e-9)
    np.testing.assert_allclose(
        wide.to_sklearn().transform(X * 1e-9), wide.transform(X * 1e-9), atol=1e-9
    )


def test_models_that_scikit_learn_cannot_hold() -> None:
    with pytest.raises(ValueError, match=r"standardise.*scale=None.*StandardScaler"):
        model(scale="standard").fit(rows()).to_sklearn()
