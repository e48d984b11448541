"""The drop-in for scikit-learn's ``KernelPCA``: all parameters, and what becomes of each."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import decomposition
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernelstream import KernelPCA, load

X = np.random.default_rng(0).normal(size=(120, 4))
NEW = np.random.default_rng(1).normal(size=(20, 4))


def histogram(x: np.ndarray, y: np.ndarray, scale: float = 1.0) -> float:
    return float(np.minimum(np.abs(x), np.abs(y)).sum() * scale)


def test_it_takes_all_parameters_with_their_defaults() -> None:
    ours = inspect.signature(KernelPCA).parameters
    for name, theirs in inspect.signature(decomposition.KernelPCA).parameters.items():
        assert ours[name].default == theirs.default
    assert set(ours) - set(inspect.signature(decomposition.KernelPCA).parameters) == {"basis"}


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"kernel": "rbf"},
        {"kernel": "rbf", "gamma": 0.3},
        {"kernel": "poly", "degree": 2, "coef0": 0.5},
        {"kernel": "poly", "degree": 2.5, "coef0": 40.0, "gamma": 0.1},
        {"kernel": "cosine"},
        {"kernel": histogram},
        {"kernel": histogram, "kernel_params": {"scale": 0.5}},
    ],
    ids=["linear", "rbf", "gamma", "poly", "degree 2.5", "cosine", "function", "with parameters"],
)
def test_the_same_components(parameters: dict[str, Any]) -> None:
    ours = KernelPCA(3, **parameters).fit(X)
    theirs = decomposition.KernelPCA(3, **parameters).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-6)
    np.testing.assert_allclose(
        np.abs(ours.transform(NEW)), np.abs(theirs.transform(NEW)), atol=1e-5 * ours.eigenvalues_[0]
    )


def test_the_same_way_back() -> None:
    parameters: dict[str, Any] = {"kernel": "rbf", "alpha": 1e-3, "fit_inverse_transform": True}
    ours, theirs = (K(6, **parameters).fit(X) for K in (KernelPCA, decomposition.KernelPCA))
    np.testing.assert_allclose(
        ours.inverse_transform(ours.transform(NEW)),
        theirs.inverse_transform(theirs.transform(NEW)),
        atol=1e-6,
    )
    assert ours.inverse_transform(ours.transform(NEW), return_report=True).X.shape == NEW.shape
    with pytest.raises(NotFittedError, match="fit_inverse_transform"):
        KernelPCA(2).fit(X).inverse_transform(np.zeros((1, 2)))


def test_what_is_refused_says_why() -> None:
    with pytest.raises(ValueError, match="n × n matrix that this class is there to avoid"):
        KernelPCA(kernel="precomputed").fit(X @ X.T)
    with pytest.raises(ValueError, match="eigen_solver"):
        KernelPCA(eigen_solver="magic").fit(X)
    with pytest.raises(ValueError, match="Unknown kernel 'nothing'"):
        KernelPCA(kernel="nothing").fit(X)


def test_more_rows_than_points_and_a_stream(tmp_path: Path) -> None:
    model = KernelPCA(3, kernel="rbf", gamma=0.3, basis=40, random_state=0).fit(X)
    assert len(model.basis_points_) == 40 and model.gamma_ == 0.3
    model.partial_fit(NEW)
    assert model.n_samples_seen_ == 140
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert type(again) is KernelPCA
    np.testing.assert_array_equal(again.transform(NEW), model.transform(NEW))


@parametrize_with_checks([KernelPCA(2, kernel="rbf", gamma=0.1)])
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)
